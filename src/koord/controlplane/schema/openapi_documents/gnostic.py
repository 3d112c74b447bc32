# SPDX-License-Identifier: Apache-2.0
"""OpenAPI 2 documents in protobuf, as client-go asks for them.

The messages are those of gnostic's ``openapi.v2``; only the fields that our documents use are
listed, each with its number and how its value is written.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from koord.controlplane.schema.proto.wire import BYTES, FIXED64, VARINT, tagged, varint

if TYPE_CHECKING:
    from collections.abc import Iterator

Field = Callable[[Any], bytes]
"""Writes one field, tag included, from its JSON value."""


def encode_document(document: dict[str, Any]) -> bytes:
    """The bytes of an OpenAPI 2 document."""
    return _message(document, _DOCUMENT)


def _text(number: int) -> Field:
    return lambda value: tagged(number, BYTES, value.encode()) if value else b""


def _flag(number: int) -> Field:
    return lambda value: tagged(number, VARINT, b"\x01") if value else b""


def _integer(number: int) -> Field:
    return lambda value: tagged(number, VARINT, varint(value & (1 << 64) - 1))


def _real(number: int) -> Field:
    return lambda value: tagged(number, FIXED64, struct.pack("<d", value))


def _repeated(field: Field) -> Field:
    return lambda values: b"".join(field(value) for value in values)


def _inside(number: int, write: Callable[[Any], bytes]) -> Field:
    return lambda value: tagged(number, BYTES, write(value))


def _named(number: int, write: Callable[[Any], bytes]) -> Field:
    """A map as repeated pairs of a name and a value."""

    def field(values: dict[str, Any]) -> bytes:
        return b"".join(
            tagged(number, BYTES, _pair(name, write(value))) for name, value in values.items()
        )

    return field


def _pair(name: str, value: bytes) -> bytes:
    return tagged(1, BYTES, name.encode()) + tagged(2, BYTES, value)


def _any(value: Any) -> bytes:
    """A value of any kind is YAML, of which JSON is a part."""
    return tagged(2, BYTES, msgspec.json.encode(value) + b"\n")


def _message(value: dict[str, Any], fields: dict[str, Field]) -> bytes:
    return b"".join(_parts(value, fields))


def _parts(value: dict[str, Any], fields: dict[str, Field]) -> Iterator[bytes]:
    for key, inner in value.items():
        if key in fields:
            yield fields[key](inner)
        elif key.startswith("x-"):
            yield tagged(_EXTENSIONS[id(fields)], BYTES, _pair(key, _any(inner)))


def _schema(value: dict[str, Any]) -> bytes:
    return _message(value, _SCHEMA)


def _types(value: str | list[str]) -> bytes:
    return _repeated(_text(1))([value] if isinstance(value, str) else value)


def _additional(value: dict[str, Any] | bool) -> bytes:
    return _flag(2)(value) if isinstance(value, bool) else _inside(1, _schema)(value)


def _parameter(value: dict[str, Any]) -> bytes:
    """A parameter is a choice in a choice: body, query or path."""
    if value["in"] == "body":
        return _inside(1, _inside(1, lambda body: _message(body, _BODY)))(value)
    number, fields = (3, _QUERY) if value["in"] == "query" else (4, _PATH)
    return _inside(1, _inside(2, _inside(number, lambda inner: _message(inner, fields))))(value)


def _response(value: dict[str, Any]) -> bytes:
    return _inside(1, lambda response: _message(response, _RESPONSE))(value)


_SCHEMA: dict[str, Field] = {
    "$ref": _text(1),
    "format": _text(2),
    "title": _text(3),
    "description": _text(4),
    "default": _inside(5, _any),
    "multipleOf": _real(6),
    "maximum": _real(7),
    "exclusiveMaximum": _flag(8),
    "minimum": _real(9),
    "exclusiveMinimum": _flag(10),
    "maxLength": _integer(11),
    "minLength": _integer(12),
    "pattern": _text(13),
    "maxItems": _integer(14),
    "minItems": _integer(15),
    "uniqueItems": _flag(16),
    "maxProperties": _integer(17),
    "minProperties": _integer(18),
    "required": _repeated(_text(19)),
    "enum": _repeated(_inside(20, _any)),
    "additionalProperties": _inside(21, _additional),
    "type": _inside(22, _types),
    "items": _inside(23, _inside(1, _schema)),
    "properties": _inside(25, _named(1, _schema)),
}
_BODY: dict[str, Field] = {
    "name": _text(2), "in": _text(3), "required": _flag(4), "schema": _inside(5, _schema),
}  # fmt: skip
_QUERY: dict[str, Field] = {
    "required": _flag(1), "in": _text(2), "name": _text(4), "type": _text(6),
    "uniqueItems": _flag(20),
}  # fmt: skip
_PATH: dict[str, Field] = {
    "required": _flag(1), "in": _text(2), "name": _text(4), "type": _text(5),
    "uniqueItems": _flag(18),
}  # fmt: skip
_RESPONSE: dict[str, Field] = {
    "description": _text(1),
    "schema": _inside(2, _inside(1, _schema)),
}
_OPERATION: dict[str, Field] = {
    "operationId": _text(5),
    "consumes": _repeated(_text(7)),
    "parameters": _repeated(_inside(8, _parameter)),
    "responses": _inside(9, _named(1, _response)),
}
_PATH_ITEM: dict[str, Field] = {
    **{
        method: _inside(number, lambda value: _message(value, _OPERATION))
        for method, number in {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}.items()
    },
    "parameters": _repeated(_inside(9, _parameter)),
}
_DOCUMENT: dict[str, Field] = {
    "swagger": _text(1),
    "info": _inside(2, lambda value: _message(value, {"title": _text(1), "version": _text(2)})),
    "paths": _inside(8, _named(2, lambda value: _message(value, _PATH_ITEM))),
    "definitions": _inside(9, _named(1, _schema)),
}
# Where a message keeps its vendor extensions.
_EXTENSIONS = {id(_SCHEMA): 31, id(_OPERATION): 13}
