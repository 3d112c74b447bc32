# SPDX-License-Identifier: Apache-2.0
"""What is left to do for a document that its shape's proof has let pass.

Nulls of structs go, quantities and times are written as Kubernetes writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from koord.api.patching.shapes import LIST, MAP, STRUCT, Shape
from koord.controlplane.schema.codec.scalars import reader

Canonicalizer = Callable[[Any], Any]
_RESPELLED = ("byte", "quantity", "time", "micro-time")


def canonicalizer(shape: Shape) -> Canonicalizer | None:
    """A function from a value to the same without nulls, canonical; None if it would do nothing.

    The function changes containers in place. It takes only what :mod:`.prechecks` lets pass, and
    raises TypeError or ValueError where a text does not read.

    Args:
        shape: one that does not hold itself.
    """
    return _canonicalizer(shape, {})


def respeller(shape: Shape) -> Canonicalizer | None:
    """The same for values in which no struct has a null: goes where texts may be respelled only."""
    return _respeller(shape, {})


def _canonicalizer(shape: Shape, known: dict[str, Canonicalizer]) -> Canonicalizer | None:
    if shape.type in _RESPELLED:
        return reader(shape.type)
    if shape.type == STRUCT:
        if shape.name not in known:
            ways = {key: _canonicalizer(field.shape, known) for key, field in shape.fields.items()}
            known[shape.name] = _struct(shape, {key: way for key, way in ways.items() if way})
        return known[shape.name]
    if shape.type not in (LIST, MAP):
        return None
    assert shape.element is not None
    element = _canonicalizer(shape.element, known)
    if element is None:
        return None
    return partial(_list if shape.type == LIST else _map, element)


def _struct(shape: Shape, ways: dict[str, Canonicalizer]) -> Canonicalizer:
    fields = shape.fields.keys()

    def tidy(value: dict[str, Any]) -> dict[str, Any]:
        if None in value.values():
            for key in [key for key in value.keys() & fields if value[key] is None]:
                del value[key]
        for key in ways.keys() & value.keys():
            value[key] = ways[key](value[key])
        return value

    return tidy


def _list(element: Canonicalizer, value: list[Any]) -> list[Any]:
    return [element(inner) for inner in value]


def _map(element: Canonicalizer, value: dict[str, Any]) -> dict[str, Any]:
    return {key: element(inner) for key, inner in value.items()}


def _respeller(shape: Shape, known: dict[str, Canonicalizer | None]) -> Canonicalizer | None:
    if shape.type in _RESPELLED:
        return reader(shape.type)
    if shape.type == STRUCT:
        if shape.name not in known:
            ways = [(key, _respeller(field.shape, known)) for key, field in shape.fields.items()]
            known[shape.name] = _respelled_struct([(key, way) for key, way in ways if way])
        return known[shape.name]
    if shape.type not in (LIST, MAP):
        return None
    assert shape.element is not None
    element = _respeller(shape.element, known)
    if element is None:
        return None
    return partial(_respelled_list if shape.type == LIST else _respelled_map, element)


def _respelled_struct(ways: list[tuple[str, Canonicalizer]]) -> Canonicalizer | None:
    def respell(value: dict[str, Any]) -> dict[str, Any]:
        for key, way in ways:
            if key in value:
                value[key] = way(value[key])
        return value

    return respell if ways else None


def _respelled_list(element: Canonicalizer, value: list[Any]) -> list[Any]:
    for number, inner in enumerate(value):
        value[number] = element(inner)
    return value


def _respelled_map(element: Canonicalizer, value: dict[str, Any]) -> dict[str, Any]:
    for key, inner in value.items():
        value[key] = element(inner)
    return value
