# SPDX-License-Identifier: Apache-2.0
"""Quantities and times of a document that is right otherwise, written as Kubernetes writes them.

Only ways that lead to such scalars are gone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from koord.controlplane.schema.scalars import read
from koord.controlplane.schema.shapes import LIST, MAP, STRUCT, Shape

Respell = Callable[[Any], Any]
_RESPELLED = ("quantity", "time", "micro-time")


def respeller(shape: Shape) -> Respell | None:
    """A function from a value to the same in canonical form; None where it would do nothing.

    The function changes containers in place. It takes no nulls, and no values that the shape
    refuses.

    Args:
        shape: one that does not hold itself.
    """
    if shape.type in _RESPELLED:
        return partial(read, shape.type)
    if shape.type == STRUCT:
        ways = {key: respeller(field.shape) for key, field in shape.fields.items()}
        return _members({key: way for key, way in ways.items() if way is not None})
    if shape.type not in (LIST, MAP):
        return None
    assert shape.element is not None
    element = respeller(shape.element)
    if element is None:
        return None
    return partial(_list if shape.type == LIST else _map, element)


def _members(ways: dict[str, Respell]) -> Respell | None:
    def members(value: dict[str, Any]) -> dict[str, Any]:
        for key in ways.keys() & value.keys():
            value[key] = ways[key](value[key])
        return value

    return members if ways else None


def _list(element: Respell, value: list[Any]) -> list[Any]:
    return [element(inner) for inner in value]


def _map(element: Respell, value: dict[str, Any]) -> dict[str, Any]:
    return {key: element(inner) for key, inner in value.items()}
