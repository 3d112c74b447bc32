# SPDX-License-Identifier: Apache-2.0
"""From what is stored to a version that is asked for, and back."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import msgspec

from koord.controlplane.storage.collection import Entry
from koord.controlplane.storage.store import Store, key_of, shared_labels

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.base.documents import Document
    from koord.controlplane.resource import Resource
    from koord.controlplane.storage.journal import JournalRow

_decode = msgspec.json.Decoder().decode
encode = msgspec.json.Encoder().encode


def is_stored_version(resource: Resource) -> bool:
    """Whether stored text is what this version of the resource looks like."""
    return resource.api_version == resource.storage_api_version


def head(resource: Resource) -> bytes:
    """How every stored object of a resource begins (store.ordered)."""
    api_version, kind = encode(resource.storage_api_version), encode(resource.kind)
    return b'{"apiVersion":%b,"kind":%b,' % (api_version, kind)


def renderer(resource: Resource) -> Callable[[bytes], bytes] | None:
    """Turns stored text into text of the resource's version; None where there is nothing to do."""
    if is_stored_version(resource):
        return None
    if resource.strategy.converts:
        return lambda body: encode(document(resource, body))
    # Stored text begins with its apiVersion (store.ordered).
    there = b'{"apiVersion":%b' % encode(resource.storage_api_version)
    here = b'{"apiVersion":%b' % encode(resource.api_version)
    return lambda body: here + body.removeprefix(there)


def document(resource: Resource, body: bytes) -> Document:
    """The document of stored text, at the resource's version."""
    found: Document = _decode(body)
    if not is_stored_version(resource):
        if resource.strategy.converts:
            resource.strategy.from_storage(found)
        found["apiVersion"] = resource.api_version
    return found


def to_storage(resource: Resource, document: Document) -> None:
    """Turns a document of the resource's version into what is stored, in place."""
    if not is_stored_version(resource):
        if resource.strategy.converts:
            resource.strategy.to_storage(document)
        document["apiVersion"] = resource.storage_api_version


def fields_of(resource: Resource, document: Document) -> tuple[str, ...]:
    """The values of the selectable fields, each text kept once in memory."""
    strategy = resource.strategy
    if not strategy.selectable:
        return ()
    values = strategy.fields(document)
    return tuple([sys.intern(str(values.get(name, ""))) for name in strategy.selectable])


def loaded(resource: Resource | None, kept: JournalRow) -> Entry:
    """The entry of an object from a journal; of an unknown resource without selectable fields."""
    found: Document = _decode(kept.body)
    meta = found["metadata"]
    fields = fields_of(resource, found) if resource is not None else ()
    namespace = sys.intern(meta.get("namespace", ""))
    labels = shared_labels(meta.get("labels") or {})
    return Entry(kept.key, namespace, meta["name"], meta["uid"], kept.version, kept.body, labels,
                 fields)  # fmt: skip


class StoreReader:
    """The store for rules that look things up; a :class:`koord.controlplane.extension.Reader`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def document(self, storage: str, namespace: str, name: str) -> Document | None:
        """A fresh copy of one object; None where there is none."""
        entry = self.entry(storage, namespace, name)
        if entry is None:
            return None
        found: Document = _decode(entry.body)
        return found

    def documents(self, storage: str, namespace: str = "") -> Iterator[Document]:
        """Fresh copies of all objects, in order of their keys."""
        collection = self._store.collection(storage)
        if not collection.entries:
            return
        for key in collection.keys(f"{namespace}/" if namespace else "", ""):
            yield _decode(collection.entries[key].body)

    def generation(self, *storages: str) -> int:
        """A number; another one whenever any object of these resources is. For caches."""
        return self._store.generation(storages)

    def entry(self, storage: str, namespace: str, name: str) -> Entry | None:
        """One object as stored."""
        return self._store.collection(storage).entries.get(key_of(namespace, name))
