# SPDX-License-Identifier: Apache-2.0
"""What a projection keeps, on plain documents."""

from __future__ import annotations

from typing import Any


def cut(plan: Any, value: Any) -> Any:
    """The value with what the plan keeps; see :mod:`koord.kernels.projection`."""
    if isinstance(plan, tuple):
        return cut(plan[1], value)
    if isinstance(plan, dict) and isinstance(value, dict):
        return {name: cut(plan[name], each) for name, each in value.items() if name in plan}
    if isinstance(plan, list) and isinstance(value, list):
        (item,) = plan
        return [cut(item, each) for each in value if not _left_out(item, each)]
    return value


def _left_out(plan: Any, item: Any) -> bool:
    return isinstance(plan, str) and isinstance(item, dict) and plan in item


def marked(plan: Any, value: Any) -> list[dict[int, Any]] | None:
    """By row and column, what is marked; None where a value is of another sort than its mark's."""
    rows: list[dict[int, Any]] = [{}]
    return rows if _mark(plan, value, rows[0], rows) else None


def _mark(plan: Any, value: Any, row: dict[int, Any], rows: list[dict[int, Any]]) -> bool:
    if isinstance(plan, tuple):
        column, below = plan
        if isinstance(below, dict | list) and not isinstance(value, type(below)):
            return False
        row[column] = cut(below, value)
        return _mark(below, value, row, rows)
    if isinstance(plan, dict) and isinstance(value, dict):
        return all(_mark(plan[name], value[name], row, rows) for name in value if name in plan)
    if isinstance(plan, list) and isinstance(value, list):
        for item in value:
            if _has_marks(plan[0]):
                rows.append({})
            if not _mark(plan[0], item, rows[-1], rows):
                return False
    return True


def _has_marks(plan: Any) -> bool:
    if isinstance(plan, dict):
        return any(map(_has_marks, plan.values()))
    return isinstance(plan, tuple) or (isinstance(plan, list) and _has_marks(plan[0]))
