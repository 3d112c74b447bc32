# SPDX-License-Identifier: Apache-2.0
"""Objects as JSON bytes, one version counter, a log of changes for each resource.

The log serves three readers: watches are cursors into it, lists at an older version undo it, and a
journal writes it down. It is bounded; who falls behind its beginning is told 410 Expired.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from koord.base import faults
from koord.controlplane.failures import expired, internal

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from koord.controlplane.resource import Document

_encode = msgspec.json.Encoder().encode
_LAST = "\U0010ffff"


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One object as stored.

    Attributes:
        key: ``namespace/name``, or the name of a cluster-wide object; lists are in its order.
        version: the resourceVersion, as a number.
        body: the JSON text that a GET at the stored version returns.
        fields: the values of the resource's selectable fields.
    """

    key: str
    namespace: str
    name: str
    uid: str
    version: int
    body: bytes
    labels: dict[str, str]
    fields: tuple[str, ...]


class Change(msgspec.Struct, gc=False):
    """One step in the life of an object.

    Attributes:
        entry: the object afterwards; of a deletion its last state, at the deletion's version.
        previous: the object before; None if it is new.
        deleted: whether the object is gone.
        event: the watch event for who watches everything, made when first asked for.
    """

    entry: Entry
    previous: Entry | None
    deleted: bool
    event: bytes = b""

    def told(self) -> bytes:
        """The JSON of the watch event for a watch without selectors."""
        if not self.event:
            change = "DELETED" if self.deleted else "MODIFIED" if self.previous else "ADDED"
            self.event = event(change, self.entry.body)
        return self.event


class Write(msgspec.Struct, frozen=True, gc=False):
    """One change as a journal keeps it; the body is None where the object is gone."""

    storage: str
    key: str
    version: int
    body: bytes | None


class Log(Protocol):
    """Where changes are made to last; :class:`koord.controlplane.journal.Journal` is one."""

    def commit(self, writes: Sequence[Write]) -> None:
        """Writes all or nothing.

        Raises:
            OSError: nothing was written.
        """
        ...


@dataclass(frozen=True)
class Limits:
    """How much of the past is kept of one resource."""

    changes: int = 16_384
    change_bytes: int = 64 << 20


def event(change: str, body: bytes) -> bytes:
    """The JSON of one watch event."""
    return b'{"type":"%b","object":%b}' % (change.encode(), body)


def key_of(namespace: str, name: str) -> str:
    """The key of an object within its resource."""
    return f"{namespace}/{name}" if namespace else name


class Collection:
    """All objects of one resource, and what last happened to them."""

    def __init__(self, storage: str, limits: Limits, floor: int) -> None:
        self.storage = storage
        self.entries: dict[str, Entry] = {}
        self.version = floor  # of the last change
        self.floor = floor  # versions before this one cannot be seen any more
        self.log: list[Change] = []
        self.first = 0  # position of log[0], counted from the start
        self.published = 0  # position after the last change that watches may see
        self.sleepers: dict[Callable[[], None], None] = {}  # in order, each once
        self._limits = limits
        self.log_bytes = 0
        self._keys: list[str] = []
        self._added: list[str] = []
        self._removed = False

    def record(self, change: Change) -> None:
        """Takes a change in, without telling anyone."""
        entry = change.entry
        if change.deleted:
            del self.entries[entry.key]
            self._removed = True
        else:
            self.entries[entry.key] = entry
            if change.previous is None:
                self._added.append(entry.key)
        self.version = entry.version
        self.log.append(change)
        self.log_bytes += len(entry.body)
        if len(self.log) > self._limits.changes or self.log_bytes > self._limits.change_bytes:
            self._forget()

    def retract(self) -> None:
        """Takes back the last change."""
        change = self.log.pop()
        self.log_bytes -= len(change.entry.body)
        if change.previous is None:
            del self.entries[change.entry.key]
        else:
            self.entries[change.entry.key] = change.previous
        self._removed = True

    def publish(self) -> None:
        """Lets watches see all there is."""
        self.published = self.first + len(self.log)
        if self.sleepers:
            sleepers, self.sleepers = self.sleepers, {}
            for wake in sleepers:
                wake()

    def position(self, version: int) -> int:
        """Where in the log the first change after a version stands.

        Raises:
            ApiError: 410, older changes are forgotten.
        """
        if version < self.floor:
            raise expired(f"too old resource version: {version} ({self.floor})")
        return self.first + bisect_left(self.log, version + 1, key=_version)

    def keys(self, prefix: str, start: str) -> Sequence[str]:
        """The keys with a prefix, in order, from ``start`` on."""
        if self._removed or len(self._keys) + len(self._added) != len(self.entries):
            self._keys = sorted(self.entries)
        elif self._added:
            self._keys += self._added
            self._keys.sort()  # Cheap: two runs, one of them sorted.
        self._added, self._removed = [], False
        low = bisect_left(self._keys, max(prefix, start))
        high = bisect_left(self._keys, prefix + _LAST) if prefix else len(self._keys)
        return self._keys[low:high]

    def at(self, version: int, prefix: str, start: str) -> Iterable[Entry]:
        """The objects as they were right after a version; arguments as for :meth:`keys`.

        Raises:
            ApiError: 410, the log does not reach back so far.
        """
        then: dict[str, Entry | None] = {}
        if version < self.version:
            low = self.position(version) - self.first
            for change in reversed(self.log[low:]):
                then[change.entry.key] = change.previous
        keys = self.keys(prefix, start)
        if not then:
            return map(self.entries.__getitem__, keys)
        changed = {key for key in then if key >= start and key.startswith(prefix)}
        ordered = sorted(changed.union(keys))
        found = (then[key] if key in then else self.entries[key] for key in ordered)
        return [entry for entry in found if entry is not None]

    def _forget(self) -> None:
        """Drops the oldest changes; an eighth at once, since a list is cut in linear time."""
        keep_bytes = self._limits.change_bytes * 7 // 8
        most = max(1, len(self.log) - self._limits.changes * 7 // 8)
        dropped = 0
        while dropped < len(self.log) - 1 and (dropped < most or self.log_bytes > keep_bytes):
            self.log_bytes -= len(self.log[dropped].entry.body)
            dropped += 1
        self.floor = self.log[dropped - 1].entry.version
        del self.log[:dropped]
        self.first += dropped


class Store:
    """The state of a server.

    Args:
        log: makes changes last; None keeps them in memory alone.
        version: of the last change before this store; goes up from there.
        versions: by storage, the version of its last change before this store.
    """

    def __init__(
        self,
        log: Log | None = None,
        limits: Limits | None = None,
        version: int = 1,
        versions: Mapping[str, int] | None = None,
    ) -> None:
        self.version = version
        self._versions = dict(versions or {})
        self._floor = 0
        self._limits = limits or Limits()
        self._log = log
        self._collections: dict[str, Collection] = {}
        self._listeners: list[Callable[[str, Change], None]] = []
        self._pending: list[tuple[Collection, Change]] = []
        self._committed: asyncio.Future[None] | None = None
        self.writable = True  # whether the last commit went well

    def collection(self, storage: str) -> Collection:
        """The objects of one resource; made when first asked for."""
        found = self._collections.get(storage)
        if found is None:
            floor = self._versions.get(storage, self._floor)
            found = self._collections[storage] = Collection(storage, self._limits, floor)
        return found

    def collections(self) -> list[Collection]:
        """All that were asked for."""
        return list(self._collections.values())

    def drop(self, storage: str) -> None:
        """Forgets an empty collection, so that watches on it end and its past is unknown."""
        gone = self._collections.pop(storage, None)
        if gone is not None:
            self._versions[storage] = self.version
            gone.first, gone.log = sys.maxsize, []
            gone.publish()

    def begin(self) -> None:
        """Lets history begin here: what was before cannot be watched or listed."""
        for collection in self._collections.values():
            collection.floor = self.version
        self._floor = self.version

    def listen(self, listener: Callable[[str, Change], None]) -> None:
        """Calls a function with storage and change of everything committed from now on."""
        self._listeners.append(listener)

    def load(self, storage: str, entry: Entry) -> None:
        """Takes over an object from a journal."""
        self.collection(storage).entries[entry.key] = entry

    def put(self, storage: str, document: Document, fields: tuple[str, ...]) -> Entry:
        """Stores an object under its metadata's name; sets its resourceVersion.

        Args:
            document: at the stored version, complete; becomes the store's.
            fields: values of the selectable fields.
        """
        collection = self.collection(storage)
        metadata = document["metadata"]
        namespace, name = sys.intern(metadata.get("namespace", "")), metadata["name"]
        key = f"{namespace}/{name}" if namespace else name
        previous = collection.entries.get(key)
        entry = self.entry(document, key, namespace, fields)
        self.version = entry.version
        self._record(collection, Change(entry, previous, False))
        return entry

    def remove(self, storage: str, document: Document, fields: tuple[str, ...]) -> Entry:
        """Takes an object away.

        Args:
            document: its last state, for those who watch.
            fields: as for :meth:`put`.

        Returns:
            The last state, at the version of the deletion.
        """
        collection = self.collection(storage)
        metadata = document["metadata"]
        namespace = sys.intern(metadata.get("namespace", ""))
        key = key_of(namespace, metadata["name"])
        previous = collection.entries[key]
        entry = self.entry(document, key, namespace, fields)
        self.version = entry.version
        self._record(collection, Change(entry, previous, True))
        return entry

    def entry(self, document: Document, key: str, namespace: str, fields: tuple[str, ...]) -> Entry:
        """What would be stored at the next version; stores nothing."""
        version = self.version + 1
        metadata = document["metadata"]
        metadata["resourceVersion"] = str(version)
        labels = metadata.get("labels")
        return Entry(
            key, namespace, metadata["name"], metadata["uid"], version,
            _encode(ordered(document)), interned(labels) if labels else {}, fields,
        )  # fmt: skip

    async def settled(self) -> None:
        """Waits until everything written so far is committed.

        Raises:
            ApiError: 500, it could not be; it is undone.
        """
        if self._committed is not None:
            import asyncio

            await asyncio.shield(self._committed)

    def _record(self, collection: Collection, change: Change) -> None:
        collection.record(change)
        if self._log is None:
            self._publish([(collection, change)])
            return
        self._pending.append((collection, change))
        if self._committed is None:
            import asyncio

            loop = asyncio.get_running_loop()
            self._committed = loop.create_future()
            loop.call_soon(self.flush)

    def flush(self) -> None:
        """Commits what is pending, now."""
        pending, self._pending = self._pending, []
        committed, self._committed = self._committed, None
        if self._log is None or committed is None:
            return
        try:
            faults.point("controlplane.commit")
            self._log.commit([_write(collection, change) for collection, change in pending])
        except OSError as error:
            for collection, _ in reversed(pending):
                collection.retract()
            self.writable = False
            committed.set_exception(internal(f"the journal takes no writes: {error}"))
            committed.exception()  # Nobody may be waiting; that is no error of its own.
            return
        self.writable = True
        self._publish(pending)
        committed.set_result(None)

    def _publish(self, changes: list[tuple[Collection, Change]]) -> None:
        for collection, change in changes:
            for listener in self._listeners:
                listener(collection.storage, change)
        for collection in {id(collection): collection for collection, _ in changes}.values():
            collection.publish()


def ordered(document: Document) -> Document:
    """The document with apiVersion and kind first, which lists and conversion rely on."""
    keys = iter(document)
    if next(keys) == "apiVersion" and next(keys) == "kind":
        return document
    head = {"apiVersion": document.pop("apiVersion"), "kind": document.pop("kind")}
    return head | document


def interned(texts: Mapping[str, Any]) -> dict[str, str]:
    """The same texts, each kept once in memory."""
    return {sys.intern(key): sys.intern(value) for key, value in texts.items()}


def _version(change: Change) -> int:
    return change.entry.version


def _write(collection: Collection, change: Change) -> Write:
    body = None if change.deleted else change.entry.body
    return Write(collection.storage, change.entry.key, change.entry.version, body)
