# SPDX-License-Identifier: Apache-2.0
"""What a webhook answers: a verdict, the object as it is to be, and which rule did what to it.

Rule: docs/reference/admission.md#webhooks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.documents import Document
    from koord.base.errors import KoordError

MAX_ERRORS = 20
"""As many are told in one message; how many more there are is counted."""


@dataclass(frozen=True)
class RuleEffect:
    """What one rule did, for people (``koord admission review``).

    Attributes:
        rule: its name, a heading of docs/reference/admission.md in lower case with dashes.
        source: the object that made it so, e.g. ``ClusterColocationProfile batch``; empty for a
            rule of koord's own.
        text: one line, e.g. ``labels[koordinator.sh/qosClass] = BE``.
    """

    rule: str
    source: str
    text: str


@dataclass(frozen=True)
class AdmissionDecision:
    """An answer.

    Attributes:
        allowed: whether the request goes on.
        status: HTTP code of a refusal: 403 for a rule, 400 for what cannot be read, 500 for a
            failure of ours.
        message: one line for the user; empty where it is allowed.
        warnings: lines for the user, whether or not it is allowed.
        document: the object as it is to be; None leaves it as it is. Only of mutating webhooks.
        effects: what each rule did.
    """

    allowed: bool = True
    status: int = HTTPStatus.OK
    message: str = ""
    warnings: tuple[str, ...] = ()
    document: Document | None = None
    effects: tuple[RuleEffect, ...] = field(default=(), compare=False)


ALLOWED = AdmissionDecision()


def denied(errors: Sequence[KoordError], status: int = HTTPStatus.FORBIDDEN) -> AdmissionDecision:
    """A refusal that names everything that is wrong; allowed where nothing is.

    Args:
        errors: each names object, field, value and what would be right.
        status: HTTP code.
    """
    if not errors:
        return ALLOWED
    lines = [str(error) for error in errors[:MAX_ERRORS]]
    if len(errors) > MAX_ERRORS:
        lines.append(f"and {len(errors) - MAX_ERRORS} more")
    return AdmissionDecision(False, status, "; ".join(lines))
