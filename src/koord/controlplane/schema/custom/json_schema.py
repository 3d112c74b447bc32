# SPDX-License-Identifier: Apache-2.0
"""Structural schemas as JSON Schema, for a compiled validator.

The validator may refuse too much, never too little: what it refuses is looked at once more by
:mod:`koord.controlplane.schema.custom.validation`.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from koord.controlplane.schema.custom import formats
from koord.controlplane.schema.custom.structural import INT_OR_STRING, Structural, values_schema

if TYPE_CHECKING:
    from collections.abc import Callable

_SAME = (
    "enum", "minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties", "required", "multipleOf",
)  # fmt: skip


def compiled(schema: Structural) -> Callable[[Any], bool]:
    """Whether a document is surely valid."""
    validator = jsonschema_rs.Draft202012Validator(
        json_schema(schema),
        formats={name: partial(formats.is_valid, name) for name in formats.names()},
        validate_formats=True,
    )

    def is_valid(document: Any) -> bool:
        try:
            return bool(validator.is_valid(document))
        except (ValueError, RecursionError):  # a number or a depth it cannot represent
            return False

    return is_valid


def json_schema(schema: Structural) -> dict[str, Any]:
    """The same demands in JSON Schema 2020-12; what is only said for people is left out."""
    out: dict[str, Any] = {key: schema[key] for key in _SAME if key in schema}
    types = ["integer", "string"] if schema.get(INT_OR_STRING) else [schema.get("type")]
    if types != [None]:
        out["type"] = [*types, "null"] if schema.get("nullable") else types
    if formats.is_enforced(schema.get("format", "")):
        out["format"] = schema["format"].replace("-", "")
    for bound in ("minimum", "maximum"):
        if bound in schema:
            exclusive = f"exclusive{bound.capitalize()}"
            out[exclusive if schema.get(exclusive) else bound] = schema[bound]
    if "properties" in schema:
        out["properties"] = {key: json_schema(each) for key, each in schema["properties"].items()}
    values = values_schema(schema)
    if values is not None:
        out["additionalProperties"] = json_schema(values)
    if schema.get("items"):
        out["items"] = json_schema(schema["items"])
    for junctor in ("allOf", "anyOf", "oneOf"):
        if junctor in schema:
            out[junctor] = [json_schema(each) for each in schema[junctor]]
    if "not" in schema:
        out["not"] = json_schema(schema["not"])
    return out
