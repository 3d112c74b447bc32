# SPDX-License-Identifier: Apache-2.0
"""Events go after an hour, as a kube-apiserver lets them, and sooner where there are too many.

Whoever has a namespace may write events without end, and makes koord write some for each pod. Those
of a namespace go by their own number; of all the namespace that has most gives, its oldest first.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.controlplane.storage.collection import Change, Entry
    from koord.controlplane.storage.store import Store

EVENTS = "events"
# What an event takes beside its text.
_EVENT_BYTES = 1 << 10
# Between two looks for old ones.
_SHORTEST_SECONDS = 10.0


@dataclass(frozen=True)
class EventLimits:
    """How many events are kept.

    Attributes:
        seconds: since the last change of one.
        a_namespace: of one namespace.
        all_bytes: of all together, a KiB for each and its JSON.
    """

    seconds: float = 3600.0
    a_namespace: int = 4096
    all_bytes: int = 16 << 20


class _KeptEvent(NamedTuple):
    changed_seconds: float
    size: int


class EventRetention:
    """Takes events of a store away.

    Args:
        store: has them.
        clock: of their age; all waiting is the event loop's.
    """

    def __init__(self, store: Store, clock: Clock, limits: EventLimits) -> None:
        self._store = store
        self._clock = clock
        self._limits = limits
        # By namespace and key, those that changed last at the end; and their memory.
        self._kept: dict[str, OrderedDict[str, _KeptEvent]] = {}
        self._sizes: dict[str, int] = {}
        self._size = 0
        self._timer: asyncio.TimerHandle | None = None
        self._soon: asyncio.Handle | None = None

    def start(self) -> None:
        """Counts what is there, as new, and follows what comes."""
        for entry in self._store.collection(EVENTS).entries.values():
            self._add(entry)
        self._store.listen(EVENTS, self._changed)
        self._take_excess()

    def stop(self) -> None:
        """Takes nothing away any more."""
        for handle in (self._timer, self._soon):
            if handle is not None:
                handle.cancel()

    def _changed(self, storage: str, change: Change) -> None:
        namespace = change.entry.namespace
        self._remove(namespace, change.entry.key)
        if change.deleted:
            return
        self._add(change.entry)
        many = len(self._kept[namespace]) > self._limits.a_namespace
        if self._soon is None and (many or self._size > self._limits.all_bytes):
            # Not while others are told of a change.
            self._soon = asyncio.get_running_loop().call_soon(self._take_excess)
        elif self._timer is None:
            self._wait()

    def _add(self, entry: Entry) -> None:
        namespace, size = entry.namespace, len(entry.body) + _EVENT_BYTES
        kept = self._kept.setdefault(namespace, OrderedDict())
        kept[entry.key] = _KeptEvent(self._clock.monotonic_seconds(), size)
        self._sizes[namespace] = self._sizes.get(namespace, 0) + size
        self._size += size

    def _remove(self, namespace: str, key: str) -> None:
        kept = self._kept.get(namespace)
        gone = kept.pop(key, None) if kept is not None else None
        if gone is None:
            return
        self._sizes[namespace] -= gone.size
        self._size -= gone.size
        if not kept:
            del self._kept[namespace], self._sizes[namespace]

    def _giver(self) -> str | None:
        """The namespace whose oldest event is to go; None where none has to."""
        if self._size > self._limits.all_bytes:
            return max(self._sizes, key=self._sizes.__getitem__)
        most = self._limits.a_namespace
        return next((name for name, kept in self._kept.items() if len(kept) > most), None)

    def _take_excess(self) -> None:
        self._soon = None
        while (namespace := self._giver()) is not None:
            self._take(namespace, next(iter(self._kept[namespace])))
        if self._timer is None:
            self._wait()

    def _wait(self) -> None:
        """Until the oldest one has its age."""
        if self._kept:
            oldest = min(next(iter(kept.values())).changed_seconds for kept in self._kept.values())
            left = oldest + self._limits.seconds - self._clock.monotonic_seconds()
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(max(left, _SHORTEST_SECONDS), self._take_old)

    def _take_old(self) -> None:
        self._timer = None
        before = self._clock.monotonic_seconds() - self._limits.seconds
        for namespace, kept in list(self._kept.items()):
            old = list(takewhile(lambda item: item[1].changed_seconds <= before, kept.items()))
            for key, _ in old:
                self._take(namespace, key)
        self._wait()

    def _take(self, namespace: str, key: str) -> None:
        self._remove(namespace, key)
        entry = self._store.collection(EVENTS).entries.get(key)
        if entry is not None:
            self._store.remove(EVENTS, msgspec.json.decode(entry.body), entry.fields)
