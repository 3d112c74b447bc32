# SPDX-License-Identifier: Apache-2.0
"""Objects as JSON bytes, one version counter, a log of changes for each resource.

The log serves three readers: watches are cursors into it, lists at an older version undo it, and a
journal writes it down. It is bounded; who falls behind its beginning is told 410 Expired.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from koord.base import faults
from koord.controlplane.failures import expired, internal

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from koord.controlplane.resource import Document

_encode_into = msgspec.json.Encoder().encode_into
_LAST = "\U0010ffff"
_EVENTS_KEPT = 2_000


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
        event: the watch event for who watches everything, while many ask for it.
    """

    entry: Entry
    previous: Entry | None
    deleted: bool
    event: bytes = b""


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
        # Steps so far, undone ones included: a version that was undone is given out again.
        self.steps = 0
        self.floor = floor  # versions before this one cannot be seen any more
        self.log: list[Change] = []
        self.first = 0  # position of log[0], counted from the start
        self.published = 0  # position after the last change that watches may see
        self.dropped = False  # nothing follows what is in the log
        self.sleepers: dict[Callable[[], None], None] = {}  # in order, each once
        self._limits = limits
        self.log_bytes = 0
        self._told: deque[Change] = deque()  # in order, those that hold their event
        self._keys: list[str] = []
        self._added: list[str] = []
        self._removed = False

    def record(self, change: Change) -> None:
        """Takes a change in, without telling anyone."""
        self.steps += 1
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

    def retract(self, change: Change) -> None:
        """Takes back the last change."""
        self.steps += 1
        if self.log and self.log[-1] is change:  # It may be forgotten already.
            self.log.pop()
            self.log_bytes -= len(change.entry.body)
        if change.previous is None:
            del self.entries[change.entry.key]
        else:
            self.entries[change.entry.key] = change.previous
        self._removed = True
        self.version = self.log[-1].entry.version if self.log else self.floor

    def publish(self) -> None:
        """Lets watches see all there is."""
        self.published = self.first + len(self.log)
        if self.sleepers:
            sleepers, self.sleepers = self.sleepers, {}
            for wake in sleepers:
                wake()

    def told(self, change: Change) -> bytes:
        """The JSON of a change's event for a watch without selectors.

        Those that watch ask one after the other for the same events; what lies further back is made
        anew for the few that are slow.
        """
        if not change.event:
            kind = "DELETED" if change.deleted else "MODIFIED" if change.previous else "ADDED"
            change.event = event(kind, change.entry.body)
            self._told.append(change)
            if len(self._told) > _EVENTS_KEPT:
                self._told.popleft().event = b""
        return change.event

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
        self.failures = 0  # commits that were undone
        self._pending: list[tuple[Collection, Change]] = []
        self._buffer = bytearray()
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

    def steps(self, storages: Iterable[str]) -> tuple[int, ...]:
        """How many steps there were in each of some collections."""
        known = self._collections
        try:
            return tuple([known[name].steps for name in storages])
        except KeyError:
            return tuple([self.collection(name).steps for name in storages])

    def drop(self, storage: str) -> None:
        """Forgets an empty collection: watches on it end after its last change."""
        gone = self._collections.pop(storage, None)
        if gone is not None:
            self._versions[storage] = self.version
            gone.dropped = True
            if not any(collection is gone for collection, _ in self._pending):
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

    def replace(self, storage: str, previous: Entry, entry: Entry) -> None:
        """Stores an object whose text is made already.

        Args:
            previous: what is there.
            entry: what takes its place, at the version after :attr:`version`.
        """
        self.version = entry.version
        self._record(self.collection(storage), Change(entry, previous, False))

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
            self._text(ordered(document)), shared_labels(labels) if labels else {}, fields,
        )  # fmt: skip

    @property
    def committed_version(self) -> int:
        """The version up to which everything is committed."""
        return self._pending[0][1].entry.version - 1 if self._pending else self.version

    def _text(self, document: Document) -> bytes:
        """The JSON of a document, in memory of just its size: encoders leave room at the end."""
        _encode_into(document, self._buffer)
        return bytes(self._buffer)

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits to be committed."""
        return self._committed is None

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
            self.failures += 1
            self.writable = False
            self.version = pending[0][1].entry.version - 1
            for collection, change in reversed(pending):
                collection.retract(change)
            self._wake(pending)
            committed.set_exception(internal(f"the journal takes no writes: {error}"))
            committed.exception()  # Nobody may be waiting; that is no error of its own.
            return
        self.writable = True
        try:
            self._publish(pending)
        finally:  # Committed it is, whatever a listener makes of it.
            committed.set_result(None)

    def _publish(self, changes: list[tuple[Collection, Change]]) -> None:
        if not self._listeners:
            self._wake(changes)
            return
        try:
            for collection, change in changes:
                for listener in self._listeners:
                    listener(collection.storage, change)
        finally:
            self._wake(changes)

    def _wake(self, changes: list[tuple[Collection, Change]]) -> None:
        if len(changes) == 1:
            changes[0][0].publish()
            return
        for collection in {id(collection): collection for collection, _ in changes}.values():
            collection.publish()


def ordered(document: Document) -> Document:
    """The document with apiVersion and kind first, which lists and conversion rely on."""
    keys = iter(document)
    if next(keys) == "apiVersion" and next(keys) == "kind":
        return document
    head = {"apiVersion": document.pop("apiVersion"), "kind": document.pop("kind")}
    return head | document


def shared_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The same labels; objects made from one template share them in memory."""
    return _shared(tuple(labels.items()))


@lru_cache(maxsize=4096)
def _shared(labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {sys.intern(key): sys.intern(value) for key, value in labels}


def _version(change: Change) -> int:
    return change.entry.version


def _write(collection: Collection, change: Change) -> Write:
    body = None if change.deleted else change.entry.body
    return Write(collection.storage, change.entry.key, change.entry.version, body)
