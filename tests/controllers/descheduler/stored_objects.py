# SPDX-License-Identifier: Apache-2.0
"""What an embedded server holds, read past its requests: each state of an object decoded once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from koord.api import codec
from koord.api.kinds.registry import kind_of_type

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object
    from koord.controlplane.storage.collection import Collection, Entry
    from koord.controlplane.storage.store import Store

ObjectT = TypeVar("ObjectT", bound="Object")


class StoredObjects:
    """The objects of a store as of now; they are shared, and nobody changes them.

    Args:
        store: of the server.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._decoded: dict[type, dict[str, tuple[Entry, Any]]] = {}
        self._lists: dict[type, tuple[int, list[Any]]] = {}

    def generation(self, kind: type[Object]) -> int:
        """Grows with every write of a kind."""
        return self._store.generation((self._collection(kind).storage,))

    def all(self, kind: type[ObjectT]) -> list[ObjectT]:
        """By namespace and name."""
        now = self.generation(kind)
        generation, known = self._lists.get(kind, (-1, []))
        if generation != now:
            known = self._read(kind, self._collection(kind))
            self._lists[kind] = now, known
        return known

    def get(self, kind: type[ObjectT], name: str, namespace: str = "") -> ObjectT | None:
        """One, if it is there."""
        found = (
            each
            for each in self.all(kind)
            if (each.metadata.name, each.metadata.namespace) == (name, namespace)
        )
        return next(found, None)

    def _read(self, kind: type, collection: Collection) -> list[Any]:
        before, after = self._decoded.get(kind, {}), dict[str, "tuple[Entry, Any]"]()
        for key in sorted(collection.entries):
            entry = collection.entries[key]
            known = before.get(key)
            if known is None or known[0] is not entry:
                known = entry, codec.decode_json(entry.body, kind, key)
            after[key] = known
        self._decoded[kind] = after
        return [each for _, each in after.values()]

    def _collection(self, kind: type[Object]) -> Collection:
        known = kind_of_type(kind)
        return self._store.collection(f"{known.plural}.{known.group}".rstrip("."))
