# SPDX-License-Identifier: Apache-2.0
"""Overlay as it is defined on JSON: write out what is set, lay it over the other's text."""

from __future__ import annotations

from typing import Any

# Maps whose entries are replaced whole, and objects that are opaque.
WHOLE_ENTRIES = ("ratioModel", "extensions")


def overlay(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """The document ``base`` with what ``over`` says; both without unset fields."""
    result = dict(base)
    for key, value in over.items():
        if isinstance(value, dict) and isinstance(base.get(key), dict):
            inner = {**base[key], **value}
            result[key] = inner if key in WHOLE_ENTRIES else overlay(base[key], value)
        else:
            result[key] = value
    return result
