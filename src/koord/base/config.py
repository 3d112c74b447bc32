# SPDX-License-Identifier: Apache-2.0
"""Component configuration: strict and versioned. An unknown key is an error naming the nearest one.

Wire documents (annotations, ConfigMap sections, custom resources) are lenient instead; they are
decoded by :mod:`koord.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, get_origin

import msgspec

from koord.base.documents import read_one
from koord.base.errors import KoordError, nearest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

T = TypeVar("T")


def load(kinds: Mapping[tuple[str, str], type[T]], path: Path) -> T:
    """Reads a YAML or JSON file whose ``apiVersion`` and ``kind`` choose the type.

    Args:
        kinds: (apiVersion, kind) to a msgspec type.
        path: the file.

    Raises:
        KoordError: unreadable, not YAML, of an unknown kind, or with a wrong field.
    """
    return decode(kinds, read_one(path), str(path))


def decode(kinds: Mapping[tuple[str, str], type[T]], document: object, object_name: str) -> T:
    """The typed configuration of an already parsed document; see :func:`load`."""
    if not isinstance(document, dict):
        raise KoordError(object_name, "", document, "a mapping with apiVersion and kind")
    version, kind = document.get("apiVersion"), document.get("kind")
    chosen = kinds.get((str(version), str(kind)))
    if chosen is None:
        known = ", ".join(f"{v} {k}" for v, k in kinds)
        raise KoordError(object_name, "apiVersion, kind", f"{version} {kind}", f"one of {known}")
    body = {key: value for key, value in document.items() if key not in ("apiVersion", "kind")}
    return decode_fields(chosen, body, object_name)


def decode_fields(kind: type[T], body: dict[str, Any], object_name: str) -> T:
    """Decodes a mapping into a msgspec struct that forbids unknown fields.

    Raises:
        KoordError: a field is unknown, of the wrong type or out of range.
    """
    reject_unknown(kind, body, object_name, "")
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        text, _, where = str(error).partition(" - at `$")
        where = where.strip("`.")
        expected = text.lower().removeprefix("expected ").partition(", got")[0]
        raise KoordError(object_name, where or "document", _at(body, where), expected) from None


def reject_unknown(kind: object, body: object, object_name: str, path: str) -> None:
    """Raises a KoordError for the first key of ``body`` that ``kind`` has no field for."""
    if not (isinstance(kind, type) and issubclass(kind, msgspec.Struct)):
        return
    if not isinstance(body, dict):
        return
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    for key, value in body.items():
        field = fields.get(key)
        if field is None:
            guess = nearest(str(key), list(fields))
            hint = f"a known field, such as {guess}" if guess else "one of " + ", ".join(fields)
            raise KoordError(object_name, path or "document", key, hint)
        inner = f"{path}.{key}" if path else str(key)
        _reject_in(field.type, value, object_name, inner)


def _reject_in(annotation: Any, value: object, object_name: str, path: str) -> None:
    """Looks into a value of a field: a struct, a list of them or a map to them, or ``X | None``."""
    reject_unknown(annotation, value, object_name, path)
    arguments: tuple[Any, ...] = getattr(annotation, "__args__", ())
    origin = get_origin(annotation)
    if origin is list:
        for index, item in enumerate(value if isinstance(value, list) else ()):
            _reject_in(arguments[0], item, object_name, f"{path}[{index}]")
    elif origin is dict:
        for key, item in value.items() if isinstance(value, dict) else ():
            _reject_in(arguments[-1], item, object_name, f'{path}."{key}"')
    else:
        for argument in arguments:
            _reject_in(argument, value, object_name, path)


def _at(body: object, where: str) -> object:
    """The value at a msgspec path such as ``.profiles[0].name``; the nearest parent if absent."""
    for part in where.strip("`").replace("[", ".[").split("."):
        if not part:
            continue
        try:
            key: Any = int(part[1:-1]) if part.startswith("[") else part
            body = body[key]  # type: ignore[index]
        except (KeyError, IndexError, TypeError, ValueError):
            return body
    return body
