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

from typing import TYPE_CHECKING, Annotated, Any, TypedDict

import msgspec

from koord.api.patching.shapes import ANY, LIST, MAP, SCALAR, STRUCT, Shape
from koord.controlplane.schema.codec.scalars import canonical_quantity, canonical_time

if TYPE_CHECKING:
    from collections.abc import Callable

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
        return _Types(_SCALARS, _struct).of(shape)
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
        return _Types(_PLAIN_SCALARS, _plain_struct).of(shape)
    except _RecursiveError:
        return None


class _RecursiveError(Exception):
    """A shape that has no type: it holds itself, or is open."""


class _Types:
    """The types of a shape and of all that it holds, structs once each by name.

    Args:
        scalars: the type of each scalar.
        struct: makes that of a struct from its fields' types; may raise _RecursiveError.
    """

    def __init__(
        self, scalars: dict[str, Any], struct: Callable[[Shape, dict[str, Any]], Any]
    ) -> None:
        self._scalars, self._struct = scalars, struct
        self._known: dict[str, Any] = {}

    def of(self, shape: Shape, above: tuple[str, ...] = ()) -> Any:
        """The type of a shape within the structs that are named."""
        if shape.type == STRUCT:
            if shape.name in above:
                raise _RecursiveError
            if shape.name not in self._known:
                inside = (*above, shape.name)
                fields = {
                    key: self.of(field.shape, inside) | None for key, field in shape.fields.items()
                }
                self._known[shape.name] = self._struct(shape, fields)
            return self._known[shape.name]
        if shape.type in (LIST, MAP):
            assert shape.element is not None
            element: Any = self.of(shape.element, above)
            return list[element] if shape.type == LIST else dict[str, element]
        return self._scalars[shape.type]


def _struct(shape: Shape, fields: dict[str, Any]) -> Any:
    return msgspec.defstruct(
        shape.name.rpartition(".")[2],
        [(f"f{number}", kind, None) for number, kind in enumerate(fields.values())],
        rename={f"f{number}": key for number, key in enumerate(fields)},
        forbid_unknown_fields=not shape.open,
        gc=False,
    )


def _plain_struct(shape: Shape, fields: dict[str, Any]) -> Any:
    if shape.open:
        raise _RecursiveError
    return _typed_dict(shape.name.rpartition(".")[2], fields, total=False)
