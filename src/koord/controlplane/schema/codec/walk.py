# SPDX-License-Identifier: Apache-2.0
"""A document against its shape, value by value: what decoding answers, exactly.

Slow and sure; :mod:`koord.controlplane.schema.codec.prechecks` spares most documents the walk.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from koord.api.patching.shapes import ANY, LIST, MAP, STRUCT, Shape
from koord.controlplane.api_errors import bad_request
from koord.controlplane.schema.codec.scalars import GO_TYPES, ZEROS, MistypedError, read


class DuplicateKeys(dict[str, Any]):
    """An object of a body in which some keys stood more than once (the last one counts)."""

    keys_again: tuple[str, ...] = ()


def pairs_hook(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """``object_pairs_hook`` that keeps note of repeated keys."""
    document = dict(pairs)
    if len(document) == len(pairs):
        return document
    found = DuplicateKeys(document)
    times = Counter(key for key, _ in pairs)
    found.keys_again = tuple(key for key, count in times.items() if count > 1)
    return found


def without_notes(value: Any) -> Any:
    """A copy in which objects are plain again."""
    if isinstance(value, dict):
        return {key: without_notes(inner) for key, inner in value.items()}
    return [without_notes(inner) for inner in value] if isinstance(value, list) else value


class DocumentWalk:
    """A pass over a document that checks it against a shape.

    Attributes:
        warnings: about unknown and repeated fields, in order.
        unknown: paths of the unknown ones.
    """

    def __init__(self, what: str) -> None:
        """Begins a walk.

        Args:
            what: how refusals begin, e.g. ``Pod in version "v1" cannot be handled as a Pod: ``.
        """
        self._what = what
        self.warnings: list[str] = []
        self.unknown: list[str] = []

    def document(self, value: Any, shape: Shape, path: str = "") -> Any:
        """The document as it is stored: known fields, canonical scalars, no nulls.

        Args:
            value: the document, or what stands at ``path`` in one.
            shape: of the value.
            path: where unknown fields are said to be.

        Raises:
            ApiError: 400, a value of the wrong type, or one that is nested too deep.
        """
        try:
            return self._value(value, shape, path, _WalkPath(shape, ""))
        except RecursionError:
            raise bad_request(f"{self._what}exceeded max depth") from None

    def repeated(self, value: Any, path: str = "") -> list[str]:
        """What is to be said of repeated fields anywhere in a value."""
        told: list[str] = []
        if isinstance(value, dict):
            again = value.keys_again if isinstance(value, DuplicateKeys) else ()
            for key, inner in value.items():
                inside = f"{path}.{key}" if path else key
                told += [f'duplicate field "{inside}"'] if key in again else []
                told += self.repeated(inner, inside)
        elif isinstance(value, list):
            for number, inner in enumerate(value):
                told += self.repeated(inner, f"{path}[{number}]")
        return told

    def _value(self, value: Any, shape: Shape, path: str, place: _WalkPath) -> Any:
        if shape.type == STRUCT:
            return self._struct(self._typed(value, dict, shape, place), shape, path, place)
        if shape.type == LIST:
            return self._list(self._typed(value, list, shape, place), shape, path, place)
        if shape.type == MAP:
            return self._map(self._typed(value, dict, shape, place), shape, path, place)
        if shape.type == ANY:
            return self._anything(value, path)
        try:
            return read(shape.type, value)
        except MistypedError:
            raise self._mistyped(value, shape, place) from None
        except ValueError as error:
            raise bad_request(f"{self._what}{error}") from None

    def _struct(self, value: dict[str, Any], shape: Shape, path: str, place: _WalkPath) -> Any:
        repeated = value.keys_again if isinstance(value, DuplicateKeys) else ()
        kept = {}
        for key, inner in value.items():
            field = shape.fields.get(key)
            inside = f"{path}.{key}" if path else key
            if key in repeated:
                self.warnings.append(f'duplicate field "{inside}"')
            if field is not None:
                if inner is not None:
                    kept[key] = self._value(inner, field.shape, inside, place.into(shape, key))
            elif shape.open:
                kept[key] = inner
            else:
                self.unknown.append(inside)
                self.warnings.append(f'unknown field "{inside}"')
        return kept

    def _list(self, value: list[Any], shape: Shape, path: str, place: _WalkPath) -> Any:
        element = shape.element
        assert element is not None
        return [
            self._value(_present(inner, element), element, f"{path}[{number}]", place)
            for number, inner in enumerate(value)
        ]

    def _map(self, value: dict[str, Any], shape: Shape, path: str, place: _WalkPath) -> Any:
        element = shape.element
        assert element is not None
        if isinstance(value, DuplicateKeys):
            self.warnings += [f'duplicate field "{path}.{key}"' for key in value.keys_again]
        return {
            key: self._value(_present(inner, element), element, f"{path}.{key}", place)
            for key, inner in value.items()
        }

    def _anything(self, value: Any, path: str) -> Any:
        """A copy without the notes on repeated keys."""
        self.warnings += self.repeated(value, path)
        return without_notes(value)

    def _typed(self, value: Any, wanted: type, shape: Shape, place: _WalkPath) -> Any:
        if isinstance(value, wanted):
            return value
        raise self._mistyped(value, shape, place)

    def _mistyped(self, value: Any, shape: Shape, place: _WalkPath) -> Exception:
        told = f"json: cannot unmarshal {_json_type(value)} into Go"
        where = f" struct field {place.owner}.{place.path}" if place.path else " value"
        return bad_request(f"{self._what}{told}{where} of type {_go_type(shape)}")


class _WalkPath:
    """Where the walk is, as Go's decoder names it: innermost struct, path without indices."""

    __slots__ = ("owner", "path")

    def __init__(self, shape: Shape, path: str) -> None:
        self.owner = shape.name.rpartition(".")[2]
        self.path = path

    def into(self, shape: Shape, key: str) -> _WalkPath:
        return _WalkPath(shape, f"{self.path}.{key}" if self.path else key)


def _present(value: Any, shape: Shape) -> Any:
    """What a null stands for inside a list or map: the zero value."""
    if value is not None or shape.type == ANY:
        return value
    if shape.type == LIST:
        return []
    return ZEROS.get(shape.type, {})


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        integral = isinstance(value, int) and -(2**31) <= value < 2**31
        return "number" if integral else f"number {value}"
    if isinstance(value, str):
        return "string"
    return "array" if isinstance(value, list) else "object"


def _go_type(shape: Shape) -> str:
    if shape.type in (LIST, MAP):
        assert shape.element is not None
        return ("[]" if shape.type == LIST else "map[string]") + _go_type(shape.element)
    if shape.type == STRUCT:
        *_, version, name = shape.name.split(".")
        return f"{version}.{name}"
    return GO_TYPES.get(shape.type, shape.type)
