# SPDX-License-Identifier: Apache-2.0
"""A watch: a cursor into the log of a resource. It holds no events, so a slow one costs nothing.

A cursor that the log has overtaken ends its watch; the client resumes, or lists anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from koord.controlplane.storage.collection import event

if TYPE_CHECKING:
    from koord.controlplane.storage.collection import Change, Collection, Entry

# Events handed over by one read: bounds what a writer puts together at once.
BATCH = 1_000
_BATCH_BYTES = 1 << 20
# As kube-apiserver: before the end of a watch with a time-out, one bookmark more.
_LAST_BOOKMARK_SECONDS = 2.0

Match = Callable[["Entry"], bool]
Render = Callable[[bytes], bytes]


@dataclass(frozen=True)
class WatchScope:
    """What a watch sees of its resource.

    Attributes:
        prefix: of the keys: ``namespace/`` or empty.
        match: what selectors say; None for everything.
        render: turns stored text into the wanted version or form; None for as stored.
        bookmark: the object of a bookmark at a version.
        bookmark_seconds: between bookmarks; None for none.
    """

    prefix: str
    match: Match | None
    render: Render | None
    bookmark: Callable[[int, bool], bytes]
    bookmark_seconds: float | None = None


class WatchCursor:
    """A watch in progress; :class:`~koord.kube.transport.messages.Stream` in this process.

    Args:
        position: of the first change in the log that is not yet known.
        initial: events that come before those of the log, made as they are read; an empty one is
            none.
        version: gives the version up to which all is committed, for bookmarks.
        timeout_seconds: after which the watch ends; None for never.
    """

    def __init__(
        self,
        collection: Collection,
        scope: WatchScope,
        position: int,
        initial: Iterable[bytes],
        version: Callable[[], int],
        timeout_seconds: float | None,
    ) -> None:
        self._collection = collection
        self._scope = scope
        self._whole = scope.match is None and scope.render is None
        collection.whole_watches += self._whole
        self._position = position
        self._initial: Iterator[bytes] | None = iter(initial)
        self._version = version
        self._loop = asyncio.get_running_loop()
        self._waiter: asyncio.Future[None] | None = None
        self._bookmark_due = False
        self._bookmark: asyncio.TimerHandle | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self.ended = False
        self._overtaken = False
        self._on_end: list[Callable[[WatchCursor], None]] = []
        if timeout_seconds is not None:
            self._deadline = self._loop.call_later(timeout_seconds, self.end)
        self._set_bookmark()

    async def read(self) -> list[bytes]:
        """Waits for events; an empty list when the watch has ended."""
        while True:
            if self._initial is not None:
                events, more = _batch(self._initial)
                if not more:
                    self._initial = None
                else:
                    await asyncio.sleep(0)
                if events:
                    return events
                continue
            if self.ended:
                return []
            events = self._collect()
            if events or self._overtaken:
                return events
            self._waiter = self._loop.create_future()
            self._collection.sleepers[self.wake] = None
            await self._waiter

    async def close(self) -> None:
        """Ends the watch at once."""
        self._initial = None
        self.end()

    def end(self) -> None:
        """Ends the watch; what was read stays read."""
        if not self.ended:
            self._collection.whole_watches -= self._whole
        self.ended = True
        for timer in (self._deadline, self._bookmark):
            if timer is not None:
                timer.cancel()
        self._collection.sleepers.pop(self.wake, None)
        self.wake()
        on_end, self._on_end = self._on_end, []
        for call in on_end:
            call(self)

    def when_ended(self, call: Callable[[WatchCursor], None]) -> None:
        """Has a function called once the watch ends."""
        self._on_end.append(call)

    def _collect(self) -> list[bytes]:
        collection, scope = self._collection, self._scope
        if self._position < collection.first:
            self._overtaken = True
            self.end()
            return []
        low = self._position - collection.first
        high = min(collection.published - collection.first, low + BATCH)
        changes = _as_many_as_fit(collection.log[low:high])
        self._position += len(changes)
        if self._whole and not scope.prefix:
            events = [collection.event_of(change) for change in changes]
        else:
            events = [told for change in changes if (told := self._event_of(change))]
        if self._bookmark_due and self._position == collection.published:
            self._bookmark_due = False
            self._set_bookmark()
            events.append(event("BOOKMARK", scope.bookmark(self._version(), False)))
        if collection.dropped and self._position == collection.first + len(collection.log):
            self._overtaken = True
            self.end()
        return events

    def _event_of(self, change: Change) -> bytes:
        """The event that a change is for this watch; empty if it is none."""
        scope, entry, previous = self._scope, change.entry, change.previous
        if not entry.key.startswith(scope.prefix):
            return b""
        if self._whole:
            return self._collection.event_of(change)
        match = scope.match
        if match is None:
            assert scope.render is not None
            kind = "DELETED" if change.deleted else "MODIFIED" if previous else "ADDED"
            return event(kind, scope.render(entry.body))
        before = previous is not None and match(previous)
        now = not change.deleted and match(entry)
        if not before and not now:
            return b""
        body = entry.body
        if before and not now and not change.deleted:
            assert previous is not None
            body = at_version(previous.body, entry.version)
        kind = "DELETED" if not now else "MODIFIED" if before else "ADDED"
        return event(kind, scope.render(body) if scope.render else body)

    def wake(self) -> None:
        """Makes a waiting read look again."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _set_bookmark(self) -> None:
        seconds = self._scope.bookmark_seconds
        if seconds is None or self.ended:
            return
        if self._deadline is not None:
            last = self._deadline.when() - _LAST_BOOKMARK_SECONDS - self._loop.time()
            seconds = min(seconds, last) if last > 0 else seconds
        self._bookmark = self._loop.call_later(seconds, self._due)

    def _due(self) -> None:
        self._bookmark_due = True
        self.wake()


def at_version(body: bytes, version: int) -> bytes:
    """An object's text with another resourceVersion."""
    document = msgspec.json.decode(body)
    document["metadata"]["resourceVersion"] = str(version)
    return msgspec.json.encode(document)


def _as_many_as_fit(changes: list[Change]) -> list[Change]:
    """The first of them, one at least: whoever watches and reads slowly holds what is taken."""
    size = 0
    for number, change in enumerate(changes):
        if size >= _BATCH_BYTES:
            return changes[:number]
        size += len(change.entry.body)
    return changes


def _batch(events: Iterator[bytes]) -> tuple[list[bytes], bool]:
    """The next of many events, empty ones left out, and whether more may follow.

    Not all at once, for they are made here and nobody else can run.
    """
    taken: list[bytes] = []
    size = 0
    for number, made in enumerate(events, 1):
        if made:
            taken.append(made)
            size += len(made)
        if number == BATCH or size >= _BATCH_BYTES:
            return taken, True
    return taken, False
