# SPDX-License-Identifier: Apache-2.0
"""What in a custom resource breaks its schema, told as a kube-apiserver tells it.

The walk is for documents that a compiled check has refused; wording and order follow kube-openapi's
validators, with one order where they walk Go maps.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from koord.controlplane.api_errors import (
    duplicate,
    invalid_value,
    not_supported,
    required,
    too_long,
)
from koord.controlplane.schema.custom.formats import is_enforced, is_valid
from koord.controlplane.schema.custom.json_schema import compiled
from koord.controlplane.schema.custom.structural import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    Structural,
    values_schema,
)
from koord.kube.errors import StatusCause

if TYPE_CHECKING:
    from collections.abc import Callable

ABSENT: Any = object()
NO_FIELD = "<nil>"
_GO_FORMATS = {"integer": "int64", "number": "float64"}


def causes(document: Any, schema: Structural, old: Any = ABSENT) -> list[StatusCause]:
    """Everything that is wrong with a document.

    Args:
        document: pruned and defaulted.
        schema: of the kind.
        old: the stored document of an update; what it has alike may stay wrong.
    """
    return _Validation().check(document, schema, "", old)


class _Validation:
    def check(
        self, value: Any, schema: Structural, path: str, old: Any = ABSENT
    ) -> list[StatusCause]:
        if old is not ABSENT and old == value:
            return []
        found = _type(value, schema, path)
        if value is not None:
            found += self._junctors(value, schema, path)
        if isinstance(value, str):
            found += _text(value, schema, path)
        elif isinstance(value, int | float) and not isinstance(value, bool):
            found += _number(value, schema, path)
        elif isinstance(value, list):
            found += self._items(value, schema, path, old)
        if "enum" in schema and not any(_same(value, allowed) for allowed in schema["enum"]):
            allowed = [each if isinstance(each, str) else _json(each) for each in schema["enum"]]
            found.append(not_supported(path, value, allowed))
        if isinstance(value, dict):
            found += self._members(value, schema, path, old)
        return found

    def _junctors(self, value: Any, schema: Structural, path: str) -> list[StatusCause]:
        found: list[StatusCause] = []
        if "anyOf" in schema:
            results = [self.check(value, each, path) for each in schema["anyOf"]]
            if all(results):
                found.append(_schema_failure(f'"{path}" must validate at least one schema (anyOf)'))
                found += results[0]
        if "oneOf" in schema:
            results = [self.check(value, each, path) for each in schema["oneOf"]]
            valid = sum(not result for result in results)
            if valid != 1:
                told = f"Found {valid} valid alternatives" if valid else "Found none valid"
                found.append(
                    _schema_failure(
                        f'"{path}" must validate one and only one schema (oneOf). {told}'
                    )
                )
                found += results[0] if not valid else []
        if "allOf" in schema:
            results = [self.check(value, each, path) for each in schema["allOf"]]
            found += [cause for result in results for cause in result]
            if any(results):
                none = ". None validated" if all(results) else ""
                told = f'"{path}" must validate all the schemas (allOf){none}'
                found.append(_schema_failure(told))
        if "not" in schema and not self.check(value, schema["not"], path):
            found.append(_schema_failure(f'"{path}" must not validate the schema (not)'))
        return found

    def _items(
        self, value: list[Any], schema: Structural, path: str, old: Any
    ) -> list[StatusCause]:
        items = schema.get("items", {})
        before = old_items(old, schema)
        found = []
        for number, inner in enumerate(value):
            was = before.get(item_key(inner, schema), ABSENT)
            found += self.check(inner, items, f"{path}[{number}]", was)
        least, most = schema.get("minItems"), schema.get("maxItems")
        if least is not None and len(value) < least:
            told = f"{path} in body should have at least {least} items"
            found.append(invalid_value(path, len(value), told))
        if most is not None and len(value) > most:
            found.append(_too_many(path, len(value), most))
        if schema.get("uniqueItems") and len({_json(inner) for inner in value}) < len(value):
            found.append(invalid_value(path, "", f"{path} in body shouldn't contain duplicates"))
        return found

    def _members(
        self, value: dict[str, Any], schema: Structural, path: str, old: Any
    ) -> list[StatusCause]:
        found = []
        least, most = schema.get("minProperties"), schema.get("maxProperties")
        if least is not None and len(value) < least:
            told = f"{path} in body should have at least {least} properties"
            found.append(invalid_value(path, len(value), told))
        if most is not None and len(value) > most:
            found.append(_too_many(path, len(value), most))
        properties, values = schema.get("properties", {}), values_schema(schema)
        was = old if isinstance(old, dict) else {}
        for key, inner in value.items():
            inside = f"{path}.{key}" if path else key
            if key in properties:
                found += self.check(inner, properties[key], inside, was.get(key, ABSENT))
            elif values is not None:
                found += self.check(inner, values, inside, was.get(key, ABSENT))
        for key in schema.get("required", ()):
            if key not in value:
                found.append(required(f"{path}.{key}" if path else key))
        return found


def _type(value: Any, schema: Structural, path: str) -> list[StatusCause]:
    wanted = [schema["type"]] if schema.get("type") else []
    if schema.get(INT_OR_STRING):
        wanted = ["integer", "string"]
    if not wanted or (value is None and schema.get("nullable")):
        return []
    given = _json_type(value)
    if given in wanted or (given == "integer" and "number" in wanted):
        return []
    if given == "number" and "integer" in wanted and float(value).is_integer():
        return []
    if is_enforced(schema.get("format", "")) and wanted == ["string"]:
        if given == "array":
            return []  # a kube-apiserver does not look at lists where it expects a format
        wanted, given = [schema["format"]], _GO_FORMATS.get(given, "")
    listed = ",".join(wanted)
    return [_type_invalid(path, given, f'{path} in body must be of type {listed}: "{given}"')]


def _text(value: str, schema: Structural, path: str) -> list[StatusCause]:
    found = []
    least, most = schema.get("minLength"), schema.get("maxLength")
    if most is not None and len(value) > most:
        found.append(too_long(path, most))
    if least is not None and len(value) < least:
        told = f"{path} in body should be at least {least} chars long"
        found.append(invalid_value(path, value, told))
    pattern = schema.get("pattern")
    if pattern and not found and not _pattern(pattern)(value):
        found.append(invalid_value(path, value, f"{path} in body should match '{pattern}'"))
    name = schema.get("format", "")
    if name and is_enforced(name) and not is_valid(name, value):
        told = f"{path} in body must be of type {name}: {_json(value)}"
        found.append(_type_invalid(path, value, told))
    return found


def _number(value: float, schema: Structural, path: str) -> list[StatusCause]:
    found = []
    factor = schema.get("multipleOf")
    if factor and (value / factor) % 1:
        told = f"{path} in body should be a multiple of {_plain(factor)}"
        found.append(invalid_value(path, value, told))
    most, least = schema.get("maximum"), schema.get("minimum")
    if most is not None:
        exclusive = schema.get("exclusiveMaximum")
        if value > most or (exclusive and value == most):
            than = "less than" if exclusive else "less than or equal to"
            told = f"{path} in body should be {than} {_plain(most)}"
            found.append(invalid_value(path, value, told))
    if least is not None:
        exclusive = schema.get("exclusiveMinimum")
        if value < least or (exclusive and value == least):
            than = "greater than" if exclusive else "greater than or equal to"
            told = f"{path} in body should be {than} {_plain(least)}"
            found.append(invalid_value(path, value, told))
    return found


def list_causes(value: Any, schema: Structural, path: str = "") -> list[StatusCause]:
    """Items that stand twice in lists of type ``set`` or ``map``, and broken embedded resources."""
    found: list[StatusCause] = []
    if isinstance(value, dict):
        if schema.get(EMBEDDED) and path:
            found += [
                required(f"{path}.{key}") for key in ("apiVersion", "kind") if key not in value
            ]
        properties, values = schema.get("properties", {}), values_schema(schema)
        for key, inner in value.items():
            if key in properties:
                found += list_causes(inner, properties[key], f"{path}.{key}" if path else key)
            elif values is not None:
                found += list_causes(inner, values, f"{path}[{key}]")
    elif isinstance(value, list):
        found += _repeated(value, schema, path)
        for number, inner in enumerate(value):
            found += list_causes(inner, schema.get("items", {}), f"{path}[{number}]")
    return found


def _repeated(value: list[Any], schema: Structural, path: str) -> list[StatusCause]:
    kind = schema.get(LIST_TYPE)
    if kind not in ("set", "map"):
        return []
    found = []
    times: dict[str, int] = {}
    for number, inner in enumerate(value):
        inside = f"{path}[{number}]"
        told = inner
        if kind == "map" and inner is None:
            continue
        if kind == "map":
            if not isinstance(inner, dict):
                why = "must be an object for an array of list-type map"
                found.append(invalid_value(inside, inner, why))
                continue
            told = {key: inner[key] for key in schema.get(LIST_KEYS, ()) if key in inner}
        seen = _json(told)
        times[seen] = times.get(seen, 0) + 1
        if times[seen] == 2:
            found.append(duplicate(inside, told))
    return found


def old_items(old: Any, schema: Structural) -> dict[str | None, Any]:
    """The old items of an associative list by their keys; others have no old items."""
    if not isinstance(old, list) or schema.get(LIST_TYPE) != "map":
        return {}
    return {key: inner for inner in old if (key := item_key(inner, schema)) is not None}


def item_key(item: Any, schema: Structural) -> str | None:
    """What tells an item of an associative list from the others; None for other lists."""
    if schema.get(LIST_TYPE) != "map" or not isinstance(item, dict):
        return None
    return _json([item.get(key) for key in schema.get(LIST_KEYS, ())])


def _type_invalid(path: str, value: Any, message: str) -> StatusCause:
    return StatusCause("FieldValueTypeInvalid", f"Invalid value: {_json(value)}: {message}", path)


def _schema_failure(message: str) -> StatusCause:
    return StatusCause("FieldValueInvalid", f'Invalid value: "": {message}', NO_FIELD)


def _too_many(path: str, given: int, most: int) -> StatusCause:
    told = f"Too many: {given}: must have at most {most} items"
    return StatusCause("FieldValueTooMany", told, path)


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> Callable[[Any], bool]:
    """Python's own expressions read ``$`` and classes otherwise than Go's."""
    return compiled({"pattern": pattern})


def _json_type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    names = {int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return names.get(type(value), "null")


def _same(value: Any, other: Any) -> bool:
    return bool(value == other) and isinstance(value, bool) == isinstance(other, bool)


def _plain(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else str(number)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
