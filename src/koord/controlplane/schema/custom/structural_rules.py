# SPDX-License-Identifier: Apache-2.0
"""Whether the schema of a custom resource is structural, as apiextensions demands."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

import jsonschema_rs

from koord.controlplane.api_errors import forbidden_field, invalid_value, not_supported, required
from koord.controlplane.schema.custom import validation
from koord.controlplane.schema.custom.structural import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    Structural,
    prune,
)
from koord.kube.errors import StatusCause

if TYPE_CHECKING:
    from collections.abc import Iterator

TYPES = ("array", "boolean", "integer", "number", "object", "string")
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "patternProperties", "additionalItems", "id")
_INT_OR_STRING_ANY_OF = [{"type": "integer"}, {"type": "string"}]
# What a schema inside a junctor may not say, and what it would have to be instead.
_ONLY_OUTSIDE = {
    "type": "empty", "default": "undefined", "title": "empty", "description": "empty",
    "nullable": "false", PRESERVE: "false", EMBEDDED: "false", INT_OR_STRING: "false",
    LIST_KEYS: "empty", LIST_TYPE: "undefined", MAP_TYPE: "undefined",
    "additionalProperties": "undefined", "x-kubernetes-validations": "empty",
}  # fmt: skip
_WHERE = {
    "root": "at the root",
    "item": "for specified array items",
    "field": "for specified object fields",
}


def structure_causes(schema: Structural, path: str) -> list[StatusCause]:
    """What keeps a schema from being structural.

    Args:
        schema: of a whole document.
        path: of the schema in its definition.
    """
    return list(_node(schema, path, "root"))


def _node(schema: Structural, path: str, level: str) -> Iterator[StatusCause]:
    for key in _UNSUPPORTED:
        if schema.get(key):
            yield forbidden_field(f"{path}.{key}", f"{key} is not supported")
    if isinstance(schema.get("items"), list):
        told = "items must be a schema object and not an array"
        yield forbidden_field(f"{path}.items", told)
        return
    if schema.get("uniqueItems"):
        told = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield forbidden_field(f"{path}.uniqueItems", told)
    for check in (_type, _extensions, _lists, _junctors, _pattern, _metadata, _default):
        yield from check(schema, path, level)
    for key, inner in schema.get("properties", {}).items():
        yield from _node(inner, f"{path}.properties[{key}]", "field")
    if isinstance(schema.get("items"), dict):
        yield from _node(schema["items"], f"{path}.items", "item")
    additional = schema.get("additionalProperties")
    if additional is not None and level == "root":
        yield forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    if additional is not None and schema.get("properties"):
        told = "additionalProperties and properties are mutual exclusive"
        yield forbidden_field(f"{path}.additionalProperties", told)
    if isinstance(additional, dict):
        yield from _node(additional, f"{path}.additionalProperties", "field")


def _type(schema: Structural, path: str, level: str) -> Iterator[StatusCause]:
    kind = schema.get("type") or ""
    where = f"{path}.type"
    if kind and kind not in TYPES:
        yield not_supported(where, kind, TYPES)
    elif level == "root" and kind not in ("", "object"):
        yield invalid_value(where, kind, "must be object at the root")
    if schema.get(EMBEDDED):
        told = "must be object if x-kubernetes-embedded-resource is true"
        if kind != "object":
            yield invalid_value(where, kind, told) if kind else required(where, told)
    elif not kind and not any(map(schema.get, (INT_OR_STRING, PRESERVE, "$ref"))):
        yield required(where, f"must not be empty {_WHERE[level]}")
    if kind == "array" and schema.get("items") is None:
        yield required(f"{path}.items", "must be specified")


def _extensions(schema: Structural, path: str, level: str) -> Iterator[StatusCause]:
    preserve = schema.get(PRESERVE)
    if preserve is False:
        yield invalid_value(f"{path}.{PRESERVE}", False, "must be true or undefined")
    for key in (PRESERVE, EMBEDDED):
        if schema.get(INT_OR_STRING) and schema.get(key):
            told = "must be false if x-kubernetes-int-or-string is true"
            yield invalid_value(f"{path}.{key}", True, told)
    if schema.get(EMBEDDED) and schema.get("type") == "object":
        if not preserve and not schema.get("properties"):
            told = (
                "must not be empty if x-kubernetes-embedded-resource is true without "
                "x-kubernetes-preserve-unknown-fields"
            )
            yield required(f"{path}.properties", told)
        if schema.get("additionalProperties") is not None:
            told = "must not be used if x-kubernetes-embedded-resource is set"
            yield forbidden_field(f"{path}.additionalProperties", told)


def _lists(schema: Structural, path: str, level: str) -> Iterator[StatusCause]:
    kind = schema.get("type") or ""
    list_type, map_type = schema.get(LIST_TYPE), schema.get(MAP_TYPE)
    if map_type is not None:
        if map_type not in ("atomic", "granular"):
            yield not_supported(f"{path}.{MAP_TYPE}", map_type, ("atomic", "granular"))
        if kind != "object":
            told = f"must be object if {MAP_TYPE} is specified"
            yield invalid_value(f"{path}.type", kind, told)
    if list_type is None:
        return
    if kind != "array":
        yield invalid_value(f"{path}.type", kind, f"must be array if {LIST_TYPE} is specified")
    items = schema.get("items") or {}
    if list_type not in ("atomic", "set", "map"):
        yield not_supported(f"{path}.{LIST_TYPE}", list_type, ("atomic", "set", "map"))
    elif list_type == "map":
        yield from _associative(schema, items, path)
    elif list_type == "set" and items.get("type") == "object" and items.get(MAP_TYPE) != "atomic":
        told = f"must be atomic as item of a list with {LIST_TYPE}=set"
        yield invalid_value(f"{path}.items.{MAP_TYPE}", items.get(MAP_TYPE), told)


def _associative(schema: Structural, items: Structural, path: str) -> Iterator[StatusCause]:
    keys = schema.get(LIST_KEYS) or []
    if not keys:
        yield required(f"{path}.{LIST_KEYS}", f"must not be empty if {LIST_TYPE} is map")
        return
    if items.get("type") != "object":
        told = f"must be object if parent array's {LIST_TYPE} is map"
        yield invalid_value(f"{path}.items.type", items.get("type") or "", told)
        return
    properties = items.get("properties", {})
    for key in keys:
        if key not in properties:
            told = "entries must all be names of item properties"
            yield invalid_value(f"{path}.{LIST_KEYS}", keys, told)
        elif key not in items.get("required", ()) and "default" not in properties[key]:
            told = (
                f"this property is in {LIST_KEYS}, so it must have a default or be a required "
                "property"
            )
            yield required(f"{path}.items.properties[{key}].default", told)


def _junctors(schema: Structural, path: str, level: str) -> Iterator[StatusCause]:
    for junctor in ("anyOf", "allOf", "oneOf"):
        for number, inner in enumerate(schema.get(junctor) or ()):
            if _is_int_or_string(schema, junctor, number):
                continue
            yield from _nested(inner, f"{path}.{junctor}[{number}]")
    if schema.get("not"):
        yield from _nested(schema["not"], f"{path}.not")


def _is_int_or_string(schema: Structural, junctor: str, number: int) -> bool:
    """The two junctors in which types are allowed: they say again what the extension says."""
    if junctor == "anyOf":
        return bool(schema["anyOf"] == _INT_OR_STRING_ANY_OF)
    return (
        junctor == "allOf"
        and number == 0
        and schema["allOf"][0] == {"anyOf": _INT_OR_STRING_ANY_OF}
    )


def _nested(schema: Structural, path: str) -> Iterator[StatusCause]:
    for key, wanted in _ONLY_OUTSIDE.items():
        if schema.get(key) not in (None, False, "", []):
            yield forbidden_field(f"{path}.{key}", f"must be {wanted} to be structural")
    yield from _pattern(schema, path, "")
    yield from _junctors(schema, path, "")
    for key, inner in schema.get("properties", {}).items():
        inside = f"{path}.properties[{key}]"
        if key == "metadata":
            yield forbidden_field(inside, "must not be specified in a nested context")
        yield from _nested(inner, inside)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items")


def _pattern(schema: Structural, path: str, level: str) -> Iterator[StatusCause]:
    pattern = schema.get("pattern")
    if pattern:
        try:
            jsonschema_rs.Draft202012Validator({"pattern": pattern})
        except ValueError:
            told = "must be a valid regular expression, but isn't"
            yield invalid_value(f"{path}.pattern", pattern, told)


def _metadata(schema: Structural, path: str, level: str) -> Iterator[StatusCause]:
    metadata = schema.get("properties", {}).get("metadata")
    if level != "root" or metadata is None:
        return
    if metadata.get("type") != "object":
        where = f"{path}.properties[metadata].type"
        yield invalid_value(where, metadata.get("type") or "", "must be object")
    said = metadata.keys() - {"type", "properties", "description"}
    if said or metadata.get("properties", {}).keys() - {"name", "generateName"}:
        told = (
            "must not specify anything other than name and generateName, but metadata is "
            "implicitly specified"
        )
        yield forbidden_field(f"{path}.properties[metadata]", told)


def _default(schema: Structural, path: str, level: str) -> Iterator[StatusCause]:
    """A default must be what the schema lets through unchanged."""
    if schema.get("default") is None:
        return
    where = f"{path}.default"
    default = deepcopy(schema["default"])
    if isinstance(default, dict | list) and prune(default, schema):
        yield invalid_value(where, schema["default"], "must not have unknown fields")
        return
    for cause in validation.causes(default, schema):
        field = where if cause.field in ("", validation.NO_FIELD) else f"{where}.{cause.field}"
        yield StatusCause(cause.reason, cause.message, field)
