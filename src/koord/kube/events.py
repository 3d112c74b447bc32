# SPDX-License-Identifier: Apache-2.0
"""Events: what happened to an object, for people to read. Saying so never waits and never fails."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from koord.api.codec import to_document
from koord.api.kinds.cluster import Event, EventSource
from koord.api.kinds.meta import Object, ObjectMeta, ObjectReference
from koord.api.objects import stamped
from koord.base import faults, log
from koord.base.clock import Clock, SystemClock
from koord.base.errors import KoordError, one_line
from koord.base.metrics import MetricRegistry, registry
from koord.kube.errors import ApiError, TransportError, causes_of
from koord.kube.event_correlation import CorrelationResult, Correlator, EventKey
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from koord.kube.client import Client

_LOG = log.get("events")
_NOT_FOUND, _CONFLICT = 404, 409
# While its component is busy an event waits for so long, unless many do already.
_HELD_SECONDS, _LOOK_SECONDS = 1.0, 0.02
# So many are written at once: one that is alone on its way takes a whole turn of the event loop,
# which costs twice the CPU.
_SIDE_BY_SIDE = 16
# And where several go over a connection in one go, which a server takes one after the other: so
# many times so many.
_PIPELINES, _IN_ONE_GO = 4, 16
# client-go's: an event that cannot be written is tried 12 times, 10 s apart.
_ATTEMPTS = 12
_RETRY_SECONDS = 10.0
_LONGEST_MESSAGE = 1024

EventType = Literal["Normal", "Warning"]


class EventRecorder:
    """Writes events from a task of its own, those of an object in the order they are said.

    Args:
        client: the way to the API server.
        component: who says it.
        host: where it runs; empty for components that run once per cluster.
        capacity: events that may wait; more are dropped and counted.
        flush_seconds: how long :meth:`run` goes on writing after it is cancelled.
        clock: wall time is written down, monotonic time rations.
        metrics: the component's registry.
    """

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        host: str = "",
        capacity: int = 1000,
        flush_seconds: float = 5.0,
        clock: Clock | None = None,
        metrics: MetricRegistry | None = None,
    ) -> None:
        self._client = client
        self._source = EventSource(component, host)
        self._capacity = capacity
        self._flush_seconds = flush_seconds
        self._clock = clock or SystemClock()
        self._correlator = Correlator()
        self._waiting: deque[Event] = deque()
        # What is being written, so that a cancelled write is taken up again and counted once.
        self._unwritten: dict[EventKey, CorrelationResult] = {}
        self._arrived = asyncio.Event()
        self._last_name_nanos = 0
        into = metrics or registry()
        self._events_total = into.counter("koord_events_total", "Events said.", ("result",))
        self._busy: Callable[[], bool] = lambda: False

    def yield_to(self, busy: Callable[[], bool]) -> None:
        """Lets other writes of the component go first: events are for people, who can wait.

        Args:
            busy: whether there are any. While there are, a batch of events is written once a
                second, or, when half of the capacity is used up, one after the other as ever.
        """
        self._busy = busy

    def event(
        self,
        about: Object | ObjectReference,
        event_type: EventType,
        reason: str,
        message: str,
        component: str = "",
        action: str = "",
    ) -> None:
        """Says something of an object.

        Args:
            about: the object, or a reference to it.
            event_type: ``Normal`` or ``Warning``.
            reason: one word in CamelCase, for machines.
            message: for people; cut to 1,024 characters.
            component: who says so, where it is another than the recorder's.
            action: what was done, one word in CamelCase; empty for what needs no word.
        """
        if len(self._waiting) >= self._capacity:
            self._events_total.labels("dropped").inc()
            return
        event = self._make(_reference(about), event_type, reason, message)
        event.action = action
        if component:
            event.source = EventSource(component, self._source.host)
        self._waiting.append(event)
        self._arrived.set()

    async def run(self) -> None:
        """Writes events until cancelled; then what still waits, within the time for that.

        One that failed may be called again; the event that it failed of is dropped.
        """
        try:
            while True:
                await self._arrived.wait()
                await self._write_waiting()
        except asyncio.CancelledError:
            await self._flush()
            raise

    async def _flush(self) -> None:
        self._busy = lambda: False
        # Not asyncio.timeout: before Python 3.11.4 it does not end in a cancelled task.
        with suppress(TimeoutError):
            await asyncio.wait_for(self._write_waiting(), self._flush_seconds)
        self._events_total.labels("dropped").inc(len(self._waiting) + len(self._unwritten))
        self._waiting.clear()

    async def _write_waiting(self) -> None:
        while self._unwritten or self._waiting:
            if not self._unwritten:
                self._take_batch()
                if self._unwritten:
                    await self._hold_back()
            batch = list(self._unwritten.values())
            if len(batch) == 1:
                await self._carry_out(batch[0])
                continue
            await _together(self._writes(batch))
        self._arrived.clear()

    def _writes(self, batch: list[CorrelationResult]) -> list[Coroutine[Any, Any, None]]:
        """What writes a batch: new events in one go, several times, and others one by one."""
        if not self._client.pipelines(Event):
            return [self._carry_out(each) for each in batch]
        new = [each for each in batch if each.event.count == 1]
        pipelines = [new[at : at + _IN_ONE_GO] for at in range(0, len(new), _IN_ONE_GO)]
        counted_up = [each for each in batch if each.event.count > 1]
        return [*map(self._carry_out_all, pipelines), *map(self._carry_out, counted_up)]

    def _take_batch(self) -> None:
        """The next events that may be written side by side: each about another object."""
        now = self._clock.monotonic_seconds()
        subjects: set[tuple[str, str, str]] = set()
        together = self._client.pipelines(Event) and not self._busy()
        most = _PIPELINES * _IN_ONE_GO if together else _SIDE_BY_SIDE
        while self._waiting and len(self._unwritten) < most:
            about = self._waiting[0].involved_object
            subject = about.kind, about.namespace, about.name
            if subject in subjects:
                break
            correlated = self._correlator.correlate(self._waiting.popleft(), now)
            if correlated is None:
                self._events_total.labels("filtered").inc()
                continue
            subjects.add(subject)
            self._unwritten[correlated.key] = correlated

    async def _carry_out(self, correlated: CorrelationResult, tries: int = 0) -> None:
        """Writes one event of the batch; one that a fault of ours stops is dropped.

        Args:
            tries: that there have been.
        """
        try:
            result = await self._write(correlated, tries)
        except Exception:
            self._done(correlated, "dropped")
            raise
        self._done(correlated, result)

    async def _carry_out_all(self, several: list[CorrelationResult]) -> None:
        """Writes new events of the batch in one go; those that get no answer again, one by one."""
        try:
            faults.point("kube.events.write")
            errors = await self._client.post_all([each.event for each in several])
        except Exception:
            # Alone, the one that it failed of costs no other; those that are there conflict.
            await _together([self._carry_out(each) for each in several])
            return
        again = []
        for correlated, error in zip(several, errors, strict=True):
            result = self._result(correlated, error)
            if result is None:
                again.append(self._carry_out(correlated, tries=1))
            else:
                self._done(correlated, result)
        await _together(again)

    def _done(self, correlated: CorrelationResult, result: str) -> None:
        self._events_total.labels(result).inc()
        del self._unwritten[correlated.key]

    async def _hold_back(self) -> None:
        held = 0.0
        while held < _HELD_SECONDS and len(self._waiting) < self._capacity // 2 and self._busy():
            await asyncio.sleep(_LOOK_SECONDS)
            held += _LOOK_SECONDS

    async def _write(self, correlated: CorrelationResult, tries: int) -> str:
        """Writes one event, several times if need be, and says how that ended."""
        for attempt in range(tries, _ATTEMPTS):
            if attempt:
                await asyncio.sleep(_RETRY_SECONDS)
            try:
                faults.point("kube.events.write")
                await self._store(correlated)
            except (TransportError, KoordError) as error:
                result = self._result(correlated, error)
            else:
                result = self._result(correlated, None)
            if result is not None:
                return result
        self._correlator.forget(correlated.key)
        return "dropped"

    def _result(
        self, correlated: CorrelationResult, error: KoordError | TransportError | None
    ) -> str | None:
        """How a try ended; None where there is to be another."""
        if error is None:
            return "written"
        if isinstance(error, ApiError) and error.http_status == _CONFLICT:
            # An earlier try worked, its answer was lost.
            return "written"
        self._warn(correlated, error)
        if isinstance(error, TransportError):
            return None
        self._correlator.forget(correlated.key)
        return "refused"

    async def _store(self, correlated: CorrelationResult) -> None:
        event = correlated.event
        if event.count > 1:
            change = {
                "count": event.count,
                "lastTimestamp": to_document(event.last_timestamp),
                "message": event.message,
            }
            meta = event.metadata
            try:
                await self._client.patch(Event, meta.name, Patch.merge(change), meta.namespace)
            except ApiError as error:
                # Events live an hour by default; the series goes on with a new one.
                if error.http_status != _NOT_FOUND:
                    raise
            else:
                return
        await self._client.post(event)

    def _warn(self, correlated: CorrelationResult, error: Exception) -> None:
        told = log.fields(event=correlated.event.title, error=one_line(str(error)))
        # What happens while a namespace is emptied is nobody's fault, and told for each object.
        ending = isinstance(error, ApiError) and any(
            cause.reason == "NamespaceTerminating" for cause in causes_of(error)
        )
        _LOG.log(logging.DEBUG if ending else logging.WARNING, "event not written", extra=told)

    def _make(
        self, about: ObjectReference, event_type: EventType, reason: str, message: str
    ) -> Event:
        now = self._clock.wall_seconds()
        # Two events of one moment must not share a name.
        self._last_name_nanos = max(int(now * 1e9), self._last_name_nanos + 1)
        at = datetime.fromtimestamp(int(now), UTC)
        return Event(
            metadata=ObjectMeta(
                name=f"{about.name}.{self._last_name_nanos:x}",
                # Events of objects without a namespace are kept in this one.
                namespace=about.namespace or "default",
            ),
            involved_object=about,
            type=event_type,
            reason=reason,
            message=message[:_LONGEST_MESSAGE],
            count=1,
            source=self._source,
            first_timestamp=at,
            last_timestamp=at,
        )


async def _together(writes: list[Coroutine[Any, Any, None]]) -> None:
    """Carries out all, then raises what one of them failed of."""
    for error in await asyncio.gather(*writes, return_exceptions=True):
        if error is not None:
            raise error


def _reference(about: Object | ObjectReference) -> ObjectReference:
    if isinstance(about, ObjectReference):
        return about
    meta = about.metadata
    stamped(about)
    return ObjectReference(
        about.api_version, about.kind, meta.namespace, meta.name, meta.uid, meta.resource_version
    )
