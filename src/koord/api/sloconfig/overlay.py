# SPDX-License-Identifier: Apache-2.0
"""One strategy laid over another: what is set wins, what is not set shows through."""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

T = TypeVar("T", bound=msgspec.Struct)


def overlay(base: T, over: T) -> T:
    """``base`` with everything that ``over`` sets.

    ``False``, 0 and, where absence is None, the empty text are set. None, an empty list or map,
    and the empty text of a plain text field are not. Objects are laid over each other field by
    field, maps key by key; lists, and objects inside maps, are replaced.

    Args:
        base: left unchanged.
        over: of the same type; left unchanged.

    Returns:
        A new value; unchanged parts may be shared with the arguments.
    """
    changes = {}
    for field in msgspec.structs.fields(type(base)):
        value = getattr(over, field.name)
        if is_set(value, field.default):
            changes[field.name] = _laid_over(getattr(base, field.name), value)
    return msgspec.structs.replace(base, **changes)


def is_set(value: Any, default: Any) -> bool:
    """Whether a field's value says anything, given the field's default."""
    if value is None:
        return False
    if isinstance(value, list | dict):
        return bool(value)
    return not (value == "" and default == "")


def _laid_over(base: Any, value: Any) -> Any:
    if isinstance(value, msgspec.Struct) and isinstance(base, type(value)):
        return overlay(base, value)
    if isinstance(value, dict) and isinstance(base, dict):
        return {**base, **value}
    return value
