# SPDX-License-Identifier: Apache-2.0
"""Shapes as msgspec types: a proof at the speed of C that a document needs no closer look.

A document that converts into the :func:`proof` of its shape has no unknown field, no value of a
wrong type, and no quantity or time that would be written back in other words. A body that decodes
into its :func:`document_type` has no value of a wrong type; what encodes to the same text again had
no unknown or repeated field. Whatever fails goes through
:mod:`koord.controlplane.schema.codec.walk`, which alone decides: a type here may refuse too much,
never too little. Nulls of structs pass and are looked for elsewhere.
"""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

import msgspec

from koord.api.patching.shapes import ANY, LIST, MAP, SCALAR, STRUCT, Shape
from koord.controlplane.schema.codec.scalars import canonical_quantity, canonical_time

_typed_dict: Any = TypedDict  # of fields that are known at run time alone


class _Quantity:
    """Stands for a quantity in canonical form."""


class _Time:
    """Stands for a time in canonical form, to the second."""


class _MicroTime:
    """Stands for a time in canonical form, to the microsecond."""


_QUANTITY = _Quantity()
_SCALARS: dict[str, Any] = {
    "string": str,
    "boolean": bool,
    "int32": Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)],
    "int64": Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)],
    "double": float,
    "byte": bytes,
    "time": _Time,
    "micro-time": _MicroTime,
    "quantity": _Quantity,
    "int-or-string": Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] | str,
    SCALAR: str | int | float | bool,
    ANY: Any,
}
_PLAIN_SCALARS: dict[str, Any] = _SCALARS | {
    "byte": str,
    "double": int | float,
    "time": str,
    "micro-time": str,
    "quantity": str | int | float,
}


def proof(shape: Shape) -> Any | None:
    """The type that proves a document to be of this shape; None for one that holds itself."""
    try:
        return _type(shape, {}, [])
    except _RecursiveError:
        return None


def hook(wanted: type, value: Any) -> Any:
    """``dec_hook`` for the types of :func:`proof`: refuses what is not in canonical form."""
    if wanted is _Quantity:
        if canonical_quantity(value) == value:
            return _QUANTITY
    elif canonical_time(value, 6 if wanted is _MicroTime else 0) == value:
        return wanted()
    raise ValueError("not in canonical form")


def document_type(shape: Shape) -> Any | None:
    """The type of plain documents of this shape; None for one that holds itself, or is open.

    Texts that stand for quantities, times and bytes are any text: :mod:`.canonical` reads them.
    Unknown fields are left out.
    """
    try:
        return _plain(shape, {}, [])
    except _RecursiveError:
        return None


class _RecursiveError(Exception):
    pass


def _type(shape: Shape, known: dict[str, Any], above: list[str]) -> Any:
    if shape.type == STRUCT:
        return _struct(shape, known, above)
    if shape.type in (LIST, MAP):
        assert shape.element is not None
        element: Any = _type(shape.element, known, above)
        return list[element] if shape.type == LIST else dict[str, element]
    return _SCALARS[shape.type]


def _struct(shape: Shape, known: dict[str, Any], above: list[str]) -> Any:
    if shape.name in above:
        raise _RecursiveError
    if shape.name not in known:
        fields = [
            (f"f{number}", _type(field.shape, known, [*above, shape.name]) | None, None)
            for number, field in enumerate(shape.fields.values())
        ]
        known[shape.name] = msgspec.defstruct(
            shape.name.rpartition(".")[2],
            fields,
            rename={f"f{number}": key for number, key in enumerate(shape.fields)},
            forbid_unknown_fields=not shape.open,
            gc=False,
        )
    return known[shape.name]


def _plain(shape: Shape, known: dict[str, Any], above: list[str]) -> Any:
    if shape.type == STRUCT:
        return _plain_struct(shape, known, above)
    if shape.type in (LIST, MAP):
        assert shape.element is not None
        element: Any = _plain(shape.element, known, above)
        return list[element] if shape.type == LIST else dict[str, element]
    return _PLAIN_SCALARS[shape.type]


def _plain_struct(shape: Shape, known: dict[str, Any], above: list[str]) -> Any:
    if shape.name in above or shape.open:
        raise _RecursiveError
    if shape.name not in known:
        fields = {
            key: _plain(field.shape, known, [*above, shape.name]) | None
            for key, field in shape.fields.items()
        }
        name = shape.name.rpartition(".")[2]
        known[shape.name] = _typed_dict(name, fields, total=False)
    return known[shape.name]
