# SPDX-License-Identifier: Apache-2.0
"""The list in which the rules of one object leave what they find wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane import api_errors
from koord.kube.errors import StatusCause

if TYPE_CHECKING:
    from collections.abc import Iterable

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"


class Causes(list[StatusCause]):
    """Causes of one refusal, in the order found."""

    def required(self, field: str, detail: str = "") -> None:
        """A field that must be there is missing."""
        self.append(api_errors.required(field, detail))

    def invalid(self, field: str, value: object, why: str) -> None:
        """A value breaks a rule."""
        self.append(api_errors.invalid_value(field, value, why))

    def invalid_all(self, field: str, value: object, whys: Iterable[str]) -> None:
        """A value breaks several rules."""
        self.extend([api_errors.invalid_value(field, value, why) for why in whys])

    def not_supported(self, field: str, value: object, supported: Iterable[str]) -> None:
        """A value is none of those allowed."""
        self.append(api_errors.not_supported(field, value, supported))

    def duplicate(self, field: str, value: object) -> None:
        """A value is there twice."""
        self.append(api_errors.duplicate(field, value))

    def forbidden(self, field: str, why: str) -> None:
        """A field that may not be set."""
        self.append(api_errors.forbidden_field(field, why))

    def too_long(self, field: str, limit_bytes: int) -> None:
        """A text is too long."""
        self.append(api_errors.too_long(field, limit_bytes))

    def too_many(self, field: str, given: int, most: int) -> None:
        """A list is too long."""
        message = f"Too many: {given}: must have at most {most} items"
        self.append(StatusCause("FieldValueTooMany", message, field))

    def not_found(self, field: str, value: object) -> None:
        """A value names something that is not there."""
        message = f"Not found: {api_errors.literal(value)}"
        self.append(StatusCause("FieldValueNotFound", message, field))

    def negative(self, field: str, value: Any) -> None:
        """Complains about a number below zero; None is fine."""
        if value is not None and value < 0:
            self.invalid(field, value, NOT_NEGATIVE)

    def fixed(self, field: str, new: object, old: object) -> None:
        """Complains about a change of what cannot change."""
        if new != old:
            self.invalid(field, new, IMMUTABLE)
