# SPDX-License-Identifier: Apache-2.0
"""JSON text and plain documents to typed values and back, with errors that name the field."""

from __future__ import annotations

import re
from functools import cache
from typing import Any, TypeVar

import msgspec

from koord.api.duration import Duration
from koord.base.documents import MAX_DEPTH
from koord.base.errors import Code, KoordError
from koord.kernels.quantity import decode_hook, encode_hook

T = TypeVar("T")

_TYPES_IN_WORDS = {
    "array": "a list",
    "bool": "true or false",
    "float": "a number",
    "int": "an integer",
    "object": "an object",
    "str": "text",
}

# As msgspec names them.
_JSON_TYPES = {"array": list, "bool": bool, "float": float, "int": int, "object": dict, "str": str}

# A step of a msgspec path: .name, [3] of a list, or [...] for some key of a map.
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\.\.\.|[0-9]+)\]")


def decode_json(data: bytes | str, kind: type[T], object_name: str) -> T:
    """A typed value from JSON text; unknown keys are ignored, ``null`` is the same as absent.

    Args:
        data: JSON, UTF-8 if bytes.
        kind: a struct, or any type that msgspec decodes.
        object_name: what the text is, for errors.

    Raises:
        KoordError: no JSON, or a field of the wrong type.
    """
    try:
        return decoder(kind).decode(data)  # type: ignore[arg-type, no-any-return]
    except msgspec.ValidationError:
        # Either wrong, or a null where the type has none; nulls are rare, so they pay.
        document = without_nulls(parse_json(data, object_name), object_name)
        return convert(document, kind, object_name)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise malformed(data, object_name, "", error) from None


def parse_json(data: bytes | str, object_name: str, field: str = "") -> Any:
    """The plain document of JSON text.

    Raises:
        KoordError: no JSON.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise malformed(data, object_name, field, error) from None


def convert(document: object, kind: type[T], object_name: str, field: str = "") -> T:
    """A typed value from a plain document; see :func:`decode_json`.

    Args:
        document: dicts, lists and scalars as JSON or YAML readers give them, without nulls.
        kind: the type to convert to.
        object_name: what the document is, for errors.
        field: where in the object the document was found, for errors.

    Raises:
        KoordError: a field is of the wrong type.
    """
    try:
        return msgspec.convert(document, kind, dec_hook=_decode_hook, str_keys=True)
    except msgspec.ValidationError as error:
        raise _named(error, document, object_name, field) from None


def to_document(value: object) -> Any:
    """The plain JSON document of a typed value; fields at their default are left out."""
    return msgspec.to_builtins(value, enc_hook=_encode_hook)


def to_json(value: object) -> bytes:
    """The JSON text of a typed value, compact, keys in the order of the type."""
    return _ENCODER.encode(value)


def without_nulls(document: Any, object_name: str, field: str = "") -> Any:
    """The document without object members that are null, at every level.

    Args:
        document: a plain document.
        object_name: what it is, for errors.
        field: where in the object it was found, for errors.

    Raises:
        KoordError: nested deeper than :data:`koord.base.documents.MAX_DEPTH`.
    """
    return _without_nulls(document, object_name, field, MAX_DEPTH)


def malformed(data: bytes | str, object_name: str, field: str, error: Exception) -> KoordError:
    """The error for text that is no JSON."""
    reason = str(error).partition("\n")[0] or "nested too deeply"
    expected = f"JSON ({reason})"
    return KoordError(object_name, field, data[:80], expected, Code.UNREADABLE)


def _without_nulls(document: Any, object_name: str, field: str, levels: int) -> Any:
    if not isinstance(document, dict | list):
        return document
    if levels == 0:
        expected = f"at most {MAX_DEPTH} levels of nesting"
        raise KoordError(object_name, field, "a document nested deeper", expected)
    inner = levels - 1
    if isinstance(document, list):
        return [_without_nulls(item, object_name, field, inner) for item in document]
    return {
        key: _without_nulls(value, object_name, field, inner)
        for key, value in document.items()
        if value is not None
    }


@cache
def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """A decoder for one type, with msgspec's own errors and no leniency about nulls."""
    return msgspec.json.Decoder(kind, dec_hook=_decode_hook)


def _decode_other(kind: type, value: Any) -> Any:
    if kind is Duration:
        return Duration.from_wire(value)
    raise NotImplementedError(kind)


def _encode_other(value: Any) -> Any:
    if isinstance(value, Duration):
        return str(value)
    raise NotImplementedError(type(value))


# Quantities are most of what hooks are asked for: compiled, a text takes three quarters as long.
_decode_hook, _encode_hook = decode_hook(_decode_other), encode_hook(_encode_other)
_ENCODER = msgspec.json.Encoder(enc_hook=_encode_hook)


def _named(
    error: msgspec.ValidationError, document: object, object_name: str, field: str
) -> KoordError:
    text, _, where = str(error).partition(" - at `")
    refused = getattr(error.__cause__, "koord_value", None)
    got = _JSON_TYPES.get(text.partition(", got `")[2].rstrip("`"))
    path, value = _locate(document, where.rstrip("`"), refused, got)
    named = f"{field}{path}" if path.startswith("[") else f"{field}.{path}".strip(".")
    expected = getattr(error.__cause__, "koord_expected", None)
    if expected is None:
        expected = _in_words(text.partition(", got")[0].removeprefix("Expected "))
    return KoordError(object_name, named, value, expected)


def _in_words(expected: str) -> str:
    """What msgspec expected; null is the same as absent, so that it is never what is missing."""
    types = [name for name in expected.replace("`", "").strip().split(" | ") if name != "null"]
    words = " or ".join(_TYPES_IN_WORDS.get(name, name) for name in types)
    # Of values of the right type msgspec says what they are, not what they should be.
    return "a time such as 2030-01-02T03:04:05Z" if words.startswith("Invalid RFC3339") else words


def _locate(document: Any, where: str, bad: object, got: type | None) -> tuple[str, object]:
    """The readable path and the value at a msgspec path such as ``$.spec.max[...]``.

    msgspec does not say which key of a map is wrong; it is found by the value that the hook
    refused, or else by the type of the value.
    """
    path = ""
    for name, index in _STEP.findall(where):
        key: Any = name or index
        if index == "..." and isinstance(document, dict):
            wrong = (
                k for k, v in document.items() if (v == bad if got is None else type(v) is got)
            )
            key = next(wrong, index)
        elif index.isdigit():
            key = int(index)
        path += f".{key}" if name else f"[{key}]"
        try:
            document = document[key]
        except (KeyError, IndexError, TypeError):
            return path.removeprefix("."), bad if bad is not None else document
    return path.removeprefix("."), document
