# SPDX-License-Identifier: Apache-2.0
"""A bound on nesting, so that whatever walks a document afterwards may recurse."""

from __future__ import annotations

from typing import Any

MAX_DEPTH = 200


def is_too_deep(body: bytes, value: Any) -> bool:
    """Whether a value is nested deeper than :data:`MAX_DEPTH`.

    Args:
        body: JSON of the value, or at least as many braces and brackets.
        value: decoded.
    """
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True
