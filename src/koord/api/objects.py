# SPDX-License-Identifier: Apache-2.0
"""Decoding of whole objects by their kind, from bytes, documents or manifest files; encoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from koord.api import codec, guide
from koord.api.kinds.meta import Object
from koord.api.kinds.registry import KINDS, Kind, kind_of, kind_of_type
from koord.base.documents import parse_documents, read_text
from koord.base.errors import Code, KoordError, nearest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

O = TypeVar("O", bound=Object)  # noqa: E741


def decode(data: bytes | str | dict[str, Any], object_name: str = "object") -> Object:
    """The typed object of a JSON text or a plain document; its kind chooses the type.

    A kind of a foreign group decodes to :class:`Object`, which has the metadata alone.

    Simpler shapes (:mod:`koord.api.guide`) are brought into the canonical form.

    Raises:
        KoordError: no JSON object, of an unknown kind, or with a wrong field.
    """
    document = data if isinstance(data, dict) else codec.parse_json(data, object_name)
    kind = find_kind(document, object_name)
    if kind is None:
        return codec.convert(codec.without_nulls(document, object_name), Object, object_name)
    return _decode_document(document, kind, kind.type, object_name)


def decode_as(data: bytes | str | dict[str, Any], object_type: type[O], object_name: str = "") -> O:
    """The typed object of data whose type is known, as from a watch of one resource.

    Bytes that cannot hold another shape than the canonical one are decoded in one step.

    Raises:
        KoordError: no JSON object, or a wrong field.
    """
    kind = kind_of_type(object_type)
    object_name = object_name or kind.name
    if isinstance(data, dict):
        return _decode_document(data, kind, object_type, object_name)
    if not guide.may_have_shapes(kind, data):
        return codec.decode_json(data, object_type, object_name)
    document = codec.parse_json(data, object_name)
    return _decode_document(document, kind, object_type, object_name)


def load_manifests(text: str, file_name: str = "manifest") -> list[Object]:
    """All objects of a YAML or JSON text with one or more documents; lists are unfolded.

    Raises:
        KoordError: no YAML, or a document that :func:`decode` refuses.
    """
    return [decode(document, name) for document, name in manifest_documents(text, file_name)]


def read_manifests(path: Path) -> list[Object]:
    """All objects of a manifest file; see :func:`load_manifests`.

    Raises:
        KoordError: the file cannot be read, or holds something else.
    """
    return load_manifests(read_text(path), str(path))


def manifest_documents(text: str, file_name: str) -> Iterator[tuple[dict[str, Any], str]]:
    """The documents of a manifest, each with the name that errors call it by.

    Raises:
        KoordError: no YAML, or a document that is no mapping.
    """
    for index, document in enumerate(parse_documents(text, file_name)):
        object_name = f"{file_name} document {index + 1}"
        if not isinstance(document, dict):
            raise KoordError(object_name, "", document, "a mapping with apiVersion and kind")
        items = list_items(document)
        if items is None:
            yield document, _title(document, object_name, file_name)
        else:
            for at, item in enumerate(items):
                yield item, _title(item, f"{object_name} items[{at}]", file_name)


def encode(value: Object) -> bytes:
    """The JSON text of an object, with apiVersion and kind of its type if it has none."""
    return codec.to_json(stamped(value))


def stamped(value: O) -> O:
    """The object itself, its apiVersion and kind filled in from its type where empty."""
    if not value.kind or not value.api_version:
        kind = kind_of_type(type(value))
        value.kind = value.kind or kind.name
        value.api_version = value.api_version or kind.api_version
    return value


def find_kind(document: object, object_name: str) -> Kind | None:
    """The registered kind of a document, or None if it is none of koord's business.

    Manifests hold Services and other programs' configuration too; those decode to their metadata.

    Raises:
        KoordError: the document names no kind, or an unknown one of a group that koord serves.
    """
    if not isinstance(document, dict):
        raise KoordError(object_name, "", document, "a mapping with apiVersion and kind")
    version, name = document.get("apiVersion"), document.get("kind")
    for field, value in (("apiVersion", version), ("kind", name)):
        if not isinstance(value, str) or not value:
            raise KoordError(object_name, field, value, "the name of an API version and a kind")
    found = kind_of(str(version), str(name))
    served = {kind.group for kind in KINDS if kind.custom}
    if found is None and str(version).partition("/")[0] in served:
        known = [kind for kind in KINDS if kind.custom]
        guess = nearest(str(name), [kind.name for kind in known])
        named = [f"{k.api_version} {k.name}" for k in known if k.name == guess]
        expected = "a known kind" + (f", such as {' or '.join(named)}" if named else "")
        got = f"{version} {name}"
        raise KoordError(object_name, "apiVersion, kind", got, expected, Code.UNSUPPORTED)
    return found


def _decode_document(document: Any, kind: Kind, object_type: type[O], object_name: str) -> O:
    document = codec.without_nulls(document, object_name)
    return codec.convert(guide.normalise(document, kind, object_name), object_type, object_name)


def list_items(document: dict[str, Any]) -> list[Any] | None:
    """What a list of objects holds; None for every other object."""
    name, items = str(document.get("kind")), document.get("items")
    if name == "List":
        items = items or []
    if not name.endswith("List") or not isinstance(items, list):
        return None
    if name == "List":
        return items
    # Items of a typed list, as an API server answers, leave out what the list says.
    common = {"apiVersion": document.get("apiVersion"), "kind": name.removesuffix("List")}
    return [{**common, **item} if isinstance(item, dict) else item for item in items]


def _title(document: object, fallback: str, file_name: str) -> str:
    metadata = document.get("metadata") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(metadata, dict):
        return fallback
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if not isinstance(name, str):
        return fallback
    where = f"{namespace}/" if namespace and isinstance(namespace, str) else ""
    return f"{file_name}: {document.get('kind')} {where}{name}"
