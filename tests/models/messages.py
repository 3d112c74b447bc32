# SPDX-License-Identifier: Apache-2.0
"""How client-go writes a JSON document in protobuf: value by value, zeros that are no pointers too.

Shares nothing but the two tables with the decoder.
"""

from __future__ import annotations

import base64
import json
import struct
from datetime import datetime
from importlib.resources import files
from typing import Any

Document = dict[str, Any]

_CORE_TYPES = files("koord.api.patching").joinpath("core.json")
_MESSAGES = files("koord.controlplane.schema.builtin").joinpath("proto.json")
TYPES: dict[str, Any] = json.loads(_CORE_TYPES.read_bytes())
NUMBERS: dict[str, dict[str, str]] = json.loads(_MESSAGES.read_bytes())
KINDS = {entry["kind"]: name for name, entry in TYPES.items() if "kind" in entry}
META = "apimachinery.pkg.apis.meta.v1"
PROPS = "apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps"
ZEROS = {"string": "", "byte": "", "boolean": False, "int32": 0, "int64": 0, "double": 0.0}
MAGIC = b"k8s\0"


def body(document: Document) -> bytes:
    """A request body."""
    api_version, kind = document["apiVersion"], document["kind"]
    name = KINDS.get(f"{api_version}/{kind}") or KINDS[f"v1/{kind}"]
    return envelope(api_version, kind, message(name, document))


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    """The bytes of a message with what says of which kind it is."""
    type_meta = part(1, api_version.encode()) + part(2, kind.encode())
    return MAGIC + part(1, type_meta) + part(2, raw) + part(3, b"") + part(4, b"")


def message(name: str, document: Document) -> bytes:
    """A document of a type of the table."""
    given = {
        field: (path, expression_of(name, field), document.get(field))
        for field, path in NUMBERS.get(name, {}).items()
    }
    return _fields(list(given.values()))


def expression_of(name: str, field: str) -> str:
    """The type of a field."""
    said = TYPES[name]["fields"][field]
    expression: str = said if isinstance(said, str) else said["type"]
    return expression


def _fields(given: list[tuple[str, str, Any]]) -> bytes:
    """Fields by the paths of their numbers; those with a common number are one message there."""
    out = b""
    inlined: dict[str, list[tuple[str, str, Any]]] = {}
    for path, expression, value in given:
        first, _, rest = path.partition(".")
        if rest:
            inlined.setdefault(first, []).append((rest, expression, value))
        elif value is not None or path.endswith("?"):
            out += field(int(first.rstrip("?")), expression, value)
    for first, inner in inlined.items():
        out += part(int(first), _fields(inner))
    return out


def field(number: int, expression: str, value: Any) -> bytes:
    """A field with its tag; of None the zero value, which of a list or map is nothing."""
    if expression.startswith("[]"):
        return b"".join(field(number, expression[2:], item) for item in value or ())
    if expression.startswith("{}"):
        return b"".join(
            part(number, part(1, key.encode()) + _map_value(expression[2:], item))
            for key, item in (value or {}).items()
        )
    if expression in ("boolean", "int32", "int64"):
        return varint(number << 3) + varint(int(value or 0))
    if expression == "double":
        return varint(number << 3 | 1) + struct.pack("<d", value or 0.0)
    return part(number, _content(expression, value))


def _map_value(expression: str, value: Any) -> bytes:
    if expression.startswith("[]"):
        return part(2, field(1, expression, value))
    return field(2, expression, value)


def _content(expression: str, value: Any) -> bytes:
    """What has a length on the wire."""
    if expression == "string":
        return (value or "").encode()
    if expression == "byte":
        return base64.b64decode(value or "")
    name = expression.rpartition(".")[2]
    if name in ("Time", "MicroTime"):
        return _time(value) if value else b""
    if name == "Quantity":
        return part(1, (value or "0").encode())
    if name == "IntOrString":
        number, text = (0, value) if isinstance(value, str) else (value or 0, "")
        kind = int(isinstance(value, str))
        return field(1, "int64", kind) + field(2, "int32", number) + field(3, "string", text)
    if name in ("RawExtension", "FieldsV1", "JSON"):
        return b"" if value is None else part(1, json.dumps(value).encode())
    if expression.startswith(f"{PROPS}Or"):
        return _choice(name, value)
    return message(expression, value or {})


def _time(value: str) -> bytes:
    moment = datetime.fromisoformat(value)
    seconds = int(moment.replace(microsecond=0).timestamp())
    return field(1, "int64", seconds) + field(2, "int32", moment.microsecond * 1000)


def _choice(name: str, value: Any) -> bytes:
    if name.endswith("OrBool"):
        schema = b"" if isinstance(value, bool) else field(2, PROPS, value)
        return field(1, "boolean", value is not False) + schema
    if isinstance(value, list):
        return field(2, "[]" + ("string" if name.endswith("OrStringArray") else PROPS), value)
    return field(1, PROPS, value)


def part(number: int, content: bytes) -> bytes:
    """A field with a length."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    """A number, in two's complement of 64 bits where it is negative."""
    number &= (1 << 64) - 1
    out = []
    while number >= 0x80:
        out.append(number % 0x80 + 0x80)
        number //= 0x80
    return bytes([*out, number])
