# SPDX-License-Identifier: Apache-2.0
"""Structural schemas of custom resources: pruning, nulls, defaults, and their shapes.

A structural schema is used as it stands in the definition, an object of ``JSONSchemaProps``.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from koord.api.patching.core_types import shape_of
from koord.api.patching.shapes import (
    ANYTHING,
    ATOMIC,
    LIST,
    MAP,
    SCALAR,
    STRUCT,
    Field,
    Shape,
)

Structural = dict[str, Any]

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
INT_OR_STRING = "x-kubernetes-int-or-string"
LIST_TYPE = "x-kubernetes-list-type"
LIST_KEYS = "x-kubernetes-list-map-keys"
MAP_TYPE = "x-kubernetes-map-type"
OBJECT_META = "apimachinery.pkg.apis.meta.v1.ObjectMeta"
META_FIELDS = ("apiVersion", "kind", "metadata")

_ABSENT: Any = object()
_OF_ANY_KIND: Structural = {PRESERVE: True}
_SCALARS = {"string": "string", "boolean": "boolean", "integer": "int64", "number": "double"}


def values_schema(schema: Structural) -> Structural | None:
    """The schema of a map's values; None for no map, an empty one for values of any kind."""
    additional = schema.get("additionalProperties")
    if additional is True:
        return _OF_ANY_KIND
    return additional if isinstance(additional, dict) else None


def shape_of_kind(schema: Structural, kind: str, typed: bool = True) -> Shape:
    """The shape of a kind.

    Args:
        schema: of the whole document.
        kind: name of the kind.
        typed: whether scalars have their types; without, only the structure is told.
    """
    return _shape({**schema, "type": "object", EMBEDDED: True}, kind, typed)


def _shape(schema: Structural, name: str, typed: bool) -> Shape:
    kind = schema.get("type", "")
    if kind == "array":
        items = _shape(schema.get("items") or {PRESERVE: True}, f"{name}[]", typed)
        keys = tuple(schema.get(LIST_KEYS, ()))
        return Shape(LIST, element=items, list_type=schema.get(LIST_TYPE, ATOMIC), keys=keys)
    if kind == "object":
        return _object_shape(schema, name, typed)
    word = "int-or-string" if schema.get(INT_OR_STRING) else _SCALARS.get(kind, "")
    if not word:
        return ANYTHING
    return Shape(word if typed else SCALAR)


def _object_shape(schema: Structural, name: str, typed: bool) -> Shape:
    atomic = schema.get(MAP_TYPE) == ATOMIC
    values = values_schema(schema)
    if values is not None:
        return Shape(MAP, element=_shape(values, f"{name}.*", typed), atomic=atomic)
    fields = {
        key: Field(_shape(inner, f"{name}.{key}", typed), default=inner.get("default"))
        for key, inner in schema.get("properties", {}).items()
    }
    if schema.get(EMBEDDED):
        for key in ("apiVersion", "kind"):
            fields[key] = Field(Shape("string"))
        fields["metadata"] = Field(shape_of(OBJECT_META))
    return Shape(STRUCT, name, fields, atomic=atomic, open=bool(schema.get(PRESERVE)))


def prune(document: Any, schema: Structural) -> list[str]:
    """Drops fields that the schema does not name, and nulls where it allows none.

    Metadata of the root and of embedded resources stays as it is.

    Returns:
        The paths of the unknown fields, sorted.
    """
    unknown: list[str] = []
    _prune(document, {**schema, EMBEDDED: True}, "", unknown)
    return sorted(unknown)


def _prune(value: Any, schema: Structural, path: str, unknown: list[str]) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        for number, inner in enumerate(value):
            if items is not None or not schema.get(PRESERVE):
                _prune(inner, items or {}, f"{path}[{number}]", unknown)
    elif isinstance(value, dict):
        _prune_members(value, schema, path, unknown)


def _prune_members(
    value: dict[str, Any], schema: Structural, path: str, unknown: list[str]
) -> None:
    properties, values = schema.get("properties", {}), values_schema(schema)
    for key in list(value):
        if schema.get(EMBEDDED) and key in META_FIELDS:
            continue
        inner = properties.get(key, values)
        inside = f"{path}.{key}" if path else key
        if inner is not None:
            if value[key] is None and not inner.get("nullable") and "default" not in inner:
                del value[key]
            else:
                _prune(value[key], inner, inside, unknown)
        elif not schema.get(PRESERVE):
            if path or key not in META_FIELDS:
                unknown.append(inside)
            del value[key]


class Defaults:
    """The defaults of a schema; only what holds some is walked.

    Args:
        schema: of the whole document.
    """

    def __init__(self, schema: Structural) -> None:
        self._schema = schema
        self._holding: set[int] = set()
        self._find(schema)

    def _find(self, schema: Structural) -> bool:
        inners = [*schema.get("properties", {}).values(), schema.get("items")]
        values = schema.get("additionalProperties")
        inners += [values] if isinstance(values, dict) else []
        found = bool([inner for inner in inners if inner and self._find(inner)])
        if found:
            self._holding.add(id(schema))
        return found or "default" in schema

    def fill(self, document: dict[str, Any]) -> None:
        """Fills in what is absent; nothing is made where the parent is absent."""
        self._fill(document, self._schema)

    def _fill(self, value: Any, schema: Structural) -> None:
        if id(schema) not in self._holding:
            return
        if isinstance(value, list) and schema.get("items"):
            for number, inner in enumerate(value):
                value[number] = self._filled(inner, schema["items"])
        elif isinstance(value, dict):
            properties, values = schema.get("properties", {}), values_schema(schema)
            for key, inner in properties.items():
                if key in value or "default" in inner:
                    value[key] = self._filled(value.get(key, _ABSENT), inner)
            if values is not None:
                for key in value.keys() - properties.keys():
                    value[key] = self._filled(value[key], values)

    def _filled(self, value: Any, schema: Structural) -> Any:
        absent = value is _ABSENT or (value is None and not schema.get("nullable"))
        if absent and "default" in schema:
            value = deepcopy(schema["default"])
        self._fill(value, schema)
        return value
