# SPDX-License-Identifier: Apache-2.0
"""Evicts through the API: the eviction subresource, with the pod's UID as precondition.

Rule: docs/reference/evictions.md#eviction-by-api. Nothing here waits: requests go out from a task
of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from koord.agent.strategies.eviction.evictor import EvictionState
from koord.base import faults, log
from koord.base.errors import KoordError, one_line
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.meta import Object
    from koord.base.clock import Clock

SUCCESS, FAILURE = "evictPodSuccess", "evictPodFail"
"""Reasons of the events about an evicted pod."""
REMEMBERED_SECONDS = 120.0
RETRY_SECONDS = 10.0
"""How long a refusal stands, say of a disruption budget, before the API is asked again."""
_CAPACITY = 100
_NOT_FOUND, _CONFLICT = 404, 409

_LOG = log.get("agent.eviction")


class EvictionClient(Protocol):
    """The part of :class:`koord.kube.client.Client` that evicts."""

    async def evict(self, name: str, namespace: str, *, uid: str = "") -> None:
        """Asks for a pod to go."""
        ...


class PodEventRecorder(Protocol):
    """The part of :class:`koord.kube.events.EventRecorder` that says something."""

    def event(
        self, about: Object, event_type: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        """Says something of an object."""
        ...


@dataclass(slots=True)
class _PendingEviction:
    pod: PodState
    message: str
    fate: EvictionState
    begun_seconds: float
    retry_seconds: float = 0.0


class ApiEvictor:
    """An evictor; see :class:`koord.agent.strategies.eviction.evictor.Evictor`.

    A pod is remembered for two minutes after it was asked for, and then may be asked for again.

    Args:
        client: the way to the API server.
        recorder: where events go.
        clock: for how long things are remembered.
    """

    def __init__(self, client: EvictionClient, recorder: PodEventRecorder, clock: Clock) -> None:
        self._client = client
        self._recorder = recorder
        self._clock = clock
        self._cases: dict[str, _PendingEviction] = {}
        self._waiting: deque[_PendingEviction] = deque()
        self._arrived = asyncio.Event()

    def evict(self, pod: PodState, feature: str, message: str) -> EvictionState:
        """Asks for the pod to go, unless it was asked for already."""
        del feature
        now = self._clock.monotonic_seconds()
        stands = self.fate(pod.uid)
        if stands is EvictionState.REFUSED and now < self._cases[pod.uid].retry_seconds:
            return EvictionState.REFUSED
        if stands not in (None, EvictionState.REFUSED):
            return stands
        if len(self._waiting) >= _CAPACITY:
            return EvictionState.REFUSED
        case = _PendingEviction(pod, message, EvictionState.STARTED, now)
        self._cases[pod.uid] = case
        self._waiting.append(case)
        self._arrived.set()
        return EvictionState.STARTED

    def fate(self, uid: str) -> EvictionState | None:
        """How it stands; None where the pod was never asked for, or too long ago."""
        case = self._cases.get(uid)
        if case is None:
            return None
        if self._clock.monotonic_seconds() - case.begun_seconds > REMEMBERED_SECONDS:
            del self._cases[uid]
            return None
        return case.fate

    def observe(self, pods: Iterable[PodState]) -> None:
        """Marks as gone what a fresh list of this node's pods no longer has, or has as ended."""
        if not self._cases:
            return
        present = {pod.uid for pod in pods if not pod.terminated}
        # Nobody asks again how a pod stands that has gone, so it is forgotten here too.
        for uid in list(self._cases):
            self.fate(uid)
        for uid, case in self._cases.items():
            if uid not in present and case.fate is not EvictionState.STARTED:
                case.fate = EvictionState.GONE

    async def run(self) -> None:
        """Sends what was asked for, one at a time, until cancelled."""
        while True:
            await self._arrived.wait()
            while self._waiting:
                await self._send(self._waiting.popleft())
            self._arrived.clear()

    async def _send(self, case: _PendingEviction) -> None:
        meta = case.pod.pod.metadata
        try:
            faults.point("agent.evict.api")
            await self._client.evict(meta.name, meta.namespace, uid=meta.uid)
        except ApiError as error:
            if error.http_status in (_NOT_FOUND, _CONFLICT):
                # No such pod, or another one of that name: what was to go has gone.
                case.fate = EvictionState.GONE
            else:
                self._failed(case, error)
        except (KoordError, TransportError) as error:
            self._failed(case, error)
        else:
            case.fate = EvictionState.UNDER_WAY
            self._recorder.event(case.pod.pod, "Warning", SUCCESS, case.message)

    def _failed(self, case: _PendingEviction, error: Exception) -> None:
        case.fate = EvictionState.REFUSED
        case.retry_seconds = self._clock.monotonic_seconds() + RETRY_SECONDS
        why = one_line(str(error))
        _LOG.warning("eviction refused", extra=log.fields(pod=case.pod.key, error=why))
        self._recorder.event(case.pod.pod, "Warning", FAILURE, f"{case.message}: {why}")
