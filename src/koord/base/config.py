# SPDX-License-Identifier: Apache-2.0
"""Component configuration: strict and versioned. An unknown key is an error naming the nearest one.

Wire documents (annotations, ConfigMap sections, custom resources) are lenient instead; they are
decoded by :mod:`koord.api`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from koord.base.documents import parse_documents, read_text
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
    documents = parse_documents(read_text(path), str(path))
    if len(documents) > 1:
        raise KoordError(str(path), "", f"{len(documents)} documents", "one document")
    return decode(kinds, documents[0] if documents else None, str(path))


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
        for candidate in _struct_types(field.type):
            if isinstance(value, list):
                for index, item in enumerate(value):
                    reject_unknown(candidate, item, object_name, f"{inner}[{index}]")
            else:
                reject_unknown(candidate, value, object_name, inner)


def _struct_types(annotation: Any) -> list[type]:
    """The structs an annotation mentions directly, inside ``X | None`` or ``list[X]``."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    arguments = getattr(annotation, "__args__", ())
    return [found for argument in arguments for found in _struct_types(argument)]


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
