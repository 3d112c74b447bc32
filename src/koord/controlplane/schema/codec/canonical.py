# SPDX-License-Identifier: Apache-2.0
"""What is left to do for a document that its shape's proof has let pass.

Nulls of structs go, quantities and times are written as Kubernetes writes them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from koord.api.patching.shapes import LIST, MAP, STRUCT, Shape
from koord.controlplane.schema.codec.scalars import read

Canonicalizer = Callable[[Any], Any]
_RESPELLED = ("quantity", "time", "micro-time")


def canonicalizer(shape: Shape) -> Canonicalizer | None:
    """A function from a value to the same without nulls, canonical; None if it would do nothing.

    The function changes containers in place. It takes only what :mod:`.proofs` lets pass.

    Args:
        shape: one that does not hold itself.
    """
    return _canonicalizer(shape, {})


def _canonicalizer(shape: Shape, known: dict[str, Canonicalizer]) -> Canonicalizer | None:
    if shape.type in _RESPELLED:
        return partial(read, shape.type)
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
