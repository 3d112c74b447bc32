# SPDX-License-Identifier: Apache-2.0
"""The table of core types, ``core.json``, as shapes.

The file is dumped from a kube-apiserver by ``tests/real/dump_schemas.py``. A type is
``{"fields": {name: field}}`` or ``{"is": scalar}``; a field is the expression of its type, or an
object that holds it as ``type`` beside merge rules. Expressions: a scalar's word, the name of a
type, ``[]expression`` for a list, ``{}expression`` for a map from strings.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

from koord.api.patching.shapes import ANY, ATOMIC, LIST, MAP, STRUCT, Field, Shape

PREFIX = "io.k8s."
ZEROS: dict[str, Any] = {"string": "", "boolean": False, "int32": 0, "int64": 0, "double": 0}


@cache
def table() -> dict[str, dict[str, Any]]:
    """The file as it is: a type's name without :data:`PREFIX` to its entry."""
    text = files("koord.api.patching").joinpath("core.json").read_bytes()
    return msgspec.json.decode(text, type=dict[str, dict[str, Any]])


@cache
def kinds() -> dict[tuple[str, str, str], str]:
    """The name of the type of each kind, by group, version and kind."""
    found = {}
    for name, entry in table().items():
        if "kind" in entry:
            *group, version, kind = entry["kind"].split("/")
            found["".join(group), version, kind] = name
    return found


@cache
def shape_of(name: str) -> Shape:
    """The shape of a named type. Types may hold themselves.

    Raises:
        KeyError: the table has no such type.
    """
    entry = table()[name]
    if "is" in entry:
        word = entry["is"]
        return Shape(ANY if word == "object" else word)
    shape = _OPEN.get(name)
    if shape is not None:
        return shape
    shape = _OPEN[name] = Shape(STRUCT, PREFIX + name, atomic=entry.get("map") == ATOMIC)
    required = entry.get("required", ())
    for key, said in entry["fields"].items():
        shape.fields[key] = _field(said, key in required)
    del _OPEN[name]
    return shape


# Types whose fields are being read: a type that holds itself finds itself here.
_OPEN: dict[str, Shape] = {}


def _field(entry: str | dict[str, Any], required: bool) -> Field:
    if isinstance(entry, str):
        shape = _expression(entry, {})
        return Field(shape, default=ZEROS.get(shape.type) if required else None, required=required)
    shape = _expression(entry["type"], entry)
    return Field(
        shape,
        strategy=frozenset(entry["patch"].split(",")) if "patch" in entry else frozenset(),
        merge_key=entry.get("merge", ""),
        default=entry.get("default", ZEROS.get(shape.type) if required else None),
        required=required,
        enum=tuple(entry.get("enum", ())),
    )


def _expression(text: str, rules: dict[str, Any]) -> Shape:
    if text.startswith("[]"):
        list_type, keys = rules.get("list", ATOMIC), tuple(rules.get("keys", ()))
        return Shape(LIST, element=_expression(text[2:], {}), list_type=list_type, keys=keys)
    if text.startswith("{}"):
        element = _expression(text[2:], {})
        return Shape(MAP, element=element, atomic=rules.get("map") == ATOMIC)
    if "." in text:
        shape = shape_of(text)
        # What a field says of its map overrides what the type says of itself.
        return replace(shape, atomic=rules["map"] == ATOMIC) if "map" in rules else shape
    return Shape(ANY if text == "object" else text)
