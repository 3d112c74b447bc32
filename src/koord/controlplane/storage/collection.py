# SPDX-License-Identifier: Apache-2.0
"""The objects of one resource, and a bounded log of what last happened to them."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from koord.controlplane.api_errors import expired

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_LAST = "\U0010ffff"
# Changes that hold their event: what watches ask for that are not far behind.
_EVENTS_KEPT, _EVENT_BYTES_KEPT = 2_000, 4 << 20


# What a change takes beside its text: the object's entry, its key, names and fields.
_CHANGE_BYTES = 512


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


@dataclass(frozen=True)
class HistoryLimits:
    """How much of the past is kept.

    Attributes:
        changes: of one resource.
        change_bytes: of one resource, as JSON, and half a KiB for each.
        all_bytes: of all resources together; the one with most gives up some.
    """

    changes: int = 16_384
    change_bytes: int = 64 << 20
    all_bytes: int = 128 << 20


class StepCounter:
    """Counts the steps in some collections together, undone ones included.

    A version that was undone is given out again; no number of steps is.
    """

    __slots__ = ("steps",)

    def __init__(self) -> None:
        self.steps = 0


_EVENT_HEADS = {
    change: b'{"type":"%b","object":' % change.encode()
    for change in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK")
}


def event(change: str, body: bytes) -> bytes:
    """The JSON of one watch event."""
    return b"%b%b}" % (_EVENT_HEADS[change], body)


class Collection:
    """All objects of one resource, and what last happened to them."""

    def __init__(self, storage: str, limits: HistoryLimits, floor: int) -> None:
        self.storage = storage
        self.entries: dict[str, Entry] = {}
        self.version = floor  # of the last change
        self.counters: tuple[StepCounter, ...] = ()
        self.floor = floor  # versions before this one cannot be seen any more
        self.log: list[Change] = []
        self.first = 0  # position of log[0], counted from the start
        self.published = 0  # position after the last change that watches may see
        self.dropped = False  # nothing follows what is in the log
        self.sleepers: dict[Callable[[], None], None] = {}  # in order, each once
        self.whole_watches = 0  # open ones that see everything as it is stored
        self._limits = limits
        self.log_bytes = 0
        self._with_event: deque[Change] = deque()  # in order, those that hold their event
        self._event_bytes = 0
        self._keys: list[str] = []
        self._added: list[str] = []
        self._removed = False

    def count_step(self) -> None:
        """Tells whoever counts that something is another."""
        for counter in self.counters:
            counter.steps += 1

    def record(self, change: Change) -> None:
        """Takes a change in, without telling anyone."""
        if self.counters:  # There are none of what is written most.
            self.count_step()
        entry = change.entry
        if change.deleted:
            del self.entries[entry.key]
            self._removed = True
            self._added = []  # All is sorted anew, once anybody lists.
        else:
            self.entries[entry.key] = entry
            if change.previous is None and not self._removed:
                self._added.append(entry.key)
        self.version = entry.version
        log, limits = self.log, self._limits
        log.append(change)
        self.log_bytes += len(entry.body) + _CHANGE_BYTES
        if len(log) > limits.changes or self.log_bytes > limits.change_bytes:
            self.forget(limits.change_bytes * 7 // 8)

    def retract(self, change: Change) -> None:
        """Takes back the last change."""
        self.count_step()
        if self.log and self.log[-1] is change:  # It may be forgotten already.
            self.log.pop()
            self.log_bytes -= _size(change.entry)
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

    def event_of(self, change: Change) -> bytes:
        """The JSON of a change's event for a watch without selectors.

        Those that watch ask one after the other for the same events; what lies further back is made
        anew for the few that are slow. One that is alone asks once.
        """
        if change.event:
            return change.event
        kind = "DELETED" if change.deleted else "MODIFIED" if change.previous else "ADDED"
        made = event(kind, change.entry.body)
        if self.whole_watches > 1:
            change.event = made
            self._with_event.append(change)
            self._event_bytes += len(made)
            while len(self._with_event) > _EVENTS_KEPT or self._event_bytes > _EVENT_BYTES_KEPT:
                self._drop_event()
        return made

    def _drop_event(self) -> None:
        oldest = self._with_event.popleft()
        self._event_bytes -= len(oldest.event)
        oldest.event = b""

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

    def forget(self, keep_bytes: int) -> None:
        """Drops the oldest changes until those left have so many bytes; the last one stays.

        Of too many an eighth goes at once, since a list is cut in linear time.
        """
        most = max(1, len(self.log) - self._limits.changes * 7 // 8)
        dropped = 0
        while dropped < len(self.log) - 1 and (dropped < most or self.log_bytes > keep_bytes):
            self.log_bytes -= _size(self.log[dropped].entry)
            dropped += 1
        if not dropped:
            return
        self.floor = self.log[dropped - 1].entry.version
        while self._with_event and self._with_event[0].entry.version <= self.floor:
            self._drop_event()
        del self.log[:dropped]
        self.first += dropped


def _size(entry: Entry) -> int:
    return len(entry.body) + _CHANGE_BYTES


def _version(change: Change) -> int:
    return change.entry.version
