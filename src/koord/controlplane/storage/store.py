# SPDX-License-Identifier: Apache-2.0
"""Objects as JSON bytes, one version counter, a log of changes for each resource.

The log serves three readers: watches are cursors into it, lists at an older version undo it, and a
journal writes it down. It is bounded; who falls behind its beginning is told 410 Expired.
"""

from __future__ import annotations

import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import msgspec

from koord.base import faults
from koord.controlplane.api_errors import internal, stored_too_large
from koord.controlplane.storage.collection import (
    Change,
    Collection,
    Entry,
    HistoryLimits,
    StepCounter,
)

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Mapping, Sequence

    from koord.base.documents import Document

    Listener = Callable[[str, Change], None]  # gets the storage and what was committed

_encode_into = msgspec.json.Encoder().encode_into
# What etcd takes in one request: objects that a cluster would refuse are refused here.
OBJECT_LIMIT_BYTES = 1536 << 10
# Of a template; an object may have a megabyte of labels.
_MOST_SHARED_LABELS = 24


class StoreWrite(msgspec.Struct, frozen=True, gc=False):
    """One change as a journal keeps it; the body is None where the object is gone."""

    storage: str
    key: str
    version: int
    body: bytes | None


class CommitLog(Protocol):
    """Makes changes last, as :class:`~koord.controlplane.storage.journal.StorageJournal` does."""

    def commit(self, writes: Sequence[StoreWrite]) -> None:
        """Writes all or nothing.

        Raises:
            OSError: nothing was written.
        """
        ...


def key_of(namespace: str, name: str) -> str:
    """The key of an object within its resource."""
    return f"{namespace}/{name}" if namespace else name


class Store:
    """The state of a server.

    Args:
        log: makes changes last; None keeps them in memory alone.
        version: of the last change before this store; goes up from there.
        versions: by storage, the version of its last change before this store.
    """

    def __init__(
        self,
        log: CommitLog | None = None,
        limits: HistoryLimits | None = None,
        version: int = 1,
        versions: Mapping[str, int] | None = None,
    ) -> None:
        self.version = version
        self._versions = dict(versions or {})
        self._floor = 0
        self._limits = limits or HistoryLimits()
        self._log = log
        self._history_bytes = 0
        self._collections: dict[str, Collection] = {}
        self._listeners: dict[str, list[Listener]] = {}  # by storage
        self._of_deletions: list[Listener] = []
        # By the collections that they count the steps of together, and by each of these.
        self._counters: dict[tuple[str, ...], StepCounter] = {}
        self._counters_of: dict[str, tuple[StepCounter, ...]] = {}
        self.failures = 0  # commits that were undone
        self.written_bytes = 0  # of all changes so far
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
            found.counters = self._counters_of.get(storage, ())
        return found

    def collections(self) -> list[Collection]:
        """All that were asked for."""
        return list(self._collections.values())

    def generation(self, storages: tuple[str, ...]) -> int:
        """A number; another one after each step in any of some collections.

        Rules ask several times a write, each for always the same collections: what is asked for
        together is counted together.
        """
        counter = self._counters.get(storages)
        if counter is None:
            counter = self._counters[storages] = StepCounter()
            for name in dict.fromkeys(storages):
                counters = self._counters_of[name] = (*self._counters_of.get(name, ()), counter)
                self.collection(name).counters = counters
        return counter.steps

    def drop(self, storage: str) -> None:
        """Forgets an empty collection: watches on it end after its last change."""
        gone = self._collections.pop(storage, None)
        if gone is not None:
            self._versions[storage] = self.version
            gone.dropped = True
            gone.count_step()
            if not any(collection is gone for collection, _ in self._pending):
                gone.publish()

    def begin(self) -> None:
        """Lets history begin here: what was before cannot be watched or listed."""
        for collection in self._collections.values():
            collection.floor = self.version
        self._floor = self.version

    def listen(self, storage: str, listener: Listener) -> None:
        """Calls a function with each change of a storage that is committed from now on."""
        self._listeners.setdefault(storage, []).append(listener)

    def listen_to_deletions(self, listener: Listener) -> None:
        """Calls a function with each deletion in any storage that is committed from now on."""
        self._of_deletions.append(listener)

    def load(self, storage: str, entry: Entry) -> None:
        """Takes over an object from a journal."""
        self.collection(storage).entries[entry.key] = entry

    def put(self, storage: str, document: Document, fields: tuple[str, ...]) -> Entry:
        """Stores an object under its metadata's name; sets its resourceVersion.

        Args:
            document: at the stored version, complete; becomes the store's.
            fields: values of the selectable fields.

        Raises:
            ApiError: 413, it is larger than :data:`OBJECT_LIMIT_BYTES`, and than what was there.
        """
        collection = self.collection(storage)
        metadata = document["metadata"]
        namespace, name = sys.intern(metadata.get("namespace", "")), metadata["name"]
        key = f"{namespace}/{name}" if namespace else name
        previous = collection.entries.get(key)
        entry = self.entry(document, key, namespace, fields)
        check_size(document, entry.body, previous)
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
        self.written_bytes += len(change.entry.body)
        before = collection.log_bytes
        collection.record(change)
        self._history_bytes += collection.log_bytes - before
        if self._history_bytes > self._limits.all_bytes:
            self._shorten()
        if self._log is None:
            if change.deleted or collection.storage in self._listeners:
                self._publish([(collection, change)])
            else:
                collection.publish()
            return
        self._pending.append((collection, change))
        if self._committed is None:
            import asyncio

            loop = asyncio.get_running_loop()
            self._committed = loop.create_future()
            loop.call_soon(self.flush)

    def _shorten(self) -> None:
        """Forgets some of the longest history: whoever writes most keeps the others' from nobody.

        What was taken back or dropped with its resource is found here, not counted by the change.
        """
        known = self._collections.values()
        self._history_bytes = sum(each.log_bytes for each in known)
        if self._history_bytes > self._limits.all_bytes:
            longest = max(known, key=lambda each: each.log_bytes)
            self._history_bytes -= longest.log_bytes
            longest.forget(longest.log_bytes * 7 // 8)
            self._history_bytes += longest.log_bytes

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
        try:
            for collection, change in changes:
                storage = collection.storage
                for listener in self._listeners.get(storage, ()):
                    listener(storage, change)
                for listener in self._of_deletions if change.deleted else ():
                    listener(storage, change)
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


def check_size(document: Document, body: bytes, previous: Entry | None) -> None:
    """Refuses an object that is too large to be stored; what is there already may shrink.

    Raises:
        ApiError: 413.
    """
    size = len(body)
    if size > OBJECT_LIMIT_BYTES and (previous is None or size > len(previous.body)):
        name = document["metadata"].get("name", "")
        raise stored_too_large(document["kind"], name, size, OBJECT_LIMIT_BYTES)


def shared_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The same labels; objects made from one template share them in memory."""
    if len(labels) > _MOST_SHARED_LABELS:
        return dict(labels)
    return _shared(tuple(labels.items()))


@lru_cache(maxsize=2048)
def _shared(labels: tuple[tuple[str, str], ...]) -> dict[str, str]:
    return {sys.intern(key): sys.intern(value) for key, value in labels}


def _write(collection: Collection, change: Change) -> StoreWrite:
    body = None if change.deleted else change.entry.body
    return StoreWrite(collection.storage, change.entry.key, change.entry.version, body)
