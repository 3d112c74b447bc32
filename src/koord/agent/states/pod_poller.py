# SPDX-License-Identifier: Apache-2.0
"""Keeps the snapshot's pods true: from the kubelet, at an interval and when a cgroup appears."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.agent.states.pod_state import pod_state
from koord.agent.states.snapshot import SnapshotPart
from koord.base import log
from koord.base.errors import KoordError
from koord.kube.errors import TransportError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

    from koord.agent.host.cgroup_layout import CgroupLayout
    from koord.agent.states.pod_state import PodState
    from koord.agent.states.state_store import StateStore
    from koord.api.kinds.pod import Pod
    from koord.base.clock import Clock

# Polls that events may cause: five a second, ten at once.
_EVENTS_PER_SECOND, _EVENTS_AT_ONCE = 5.0, 10.0
_LOG = log.get("agent.pods")


class LeftOutPods:
    """Tells of pods that are left out: of each once, and again when the reason changes."""

    def __init__(self) -> None:
        self._known: set[tuple[str, str]] = set()

    def log_new(self, reasons: set[tuple[str, str]]) -> None:
        """Logs those that are new.

        Args:
            reasons: title and reason of all that are left out now.
        """
        for pod, reason in sorted(reasons - self._known):
            _LOG.warning("pod left out", extra=log.fields(pod=pod, reason=reason))
        self._known = reasons


def pod_states(
    pods: Iterable[Pod],
    layout: CgroupLayout,
    before: Iterable[PodState] = (),
    left_out: LeftOutPods | None = None,
) -> tuple[PodState, ...]:
    """Pods in the order of their creation, then their keys; unusable ones are told of and left.

    Args:
        pods: as read.
        layout: of their cgroups.
        before: what is known; a pod that is the very same object has the same state.
        left_out: remembers of which pods was told; None tells of all.
    """
    known = {id(state.pod): state for state in before}
    states = []
    unusable = set()
    for pod in pods:
        try:
            states.append(known.get(id(pod)) or pod_state(pod, layout))
        except ValueError as error:
            unusable.add((pod.title, str(error)))
    (left_out or LeftOutPods()).log_new(unusable)
    return tuple(
        sorted(states, key=lambda state: (str(state.pod.metadata.creation_timestamp), state.key))
    )


class PodPoller:
    """Asks for the pods again and again.

    An error keeps the pods that are known, and so does an empty list while one of them is still
    there: the first that a restarted kubelet tells. Their age grows then.
    Rule: docs/reference/measuring.md#pods-of-the-node.

    Args:
        ask: gives all pods of the node.
        layout: of their cgroups.
        store: where they go.
        clock: for the limit on polls that events cause.
        interval_seconds: between two polls.
        groups_root: where directories of pods are.
    """

    def __init__(
        self,
        ask: Callable[[], Awaitable[list[Pod]]],
        layout: CgroupLayout,
        store: StateStore,
        clock: Clock,
        interval_seconds: float,
        groups_root: Path,
    ) -> None:
        self._ask = ask
        self._layout = layout
        self._store = store
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._groups_root = groups_root
        self._wake = asyncio.Event()
        self._synced = asyncio.Event()
        self._tokens, self._filled_at = _EVENTS_AT_ONCE, clock.monotonic_seconds()
        self._failure = ""
        self._left_out = LeftOutPods()

    def poke(self) -> None:
        """Something happened to a pod: polls at once, within the limit."""
        now = self._clock.monotonic_seconds()
        filled = self._tokens + (now - self._filled_at) * _EVENTS_PER_SECOND
        self._tokens, self._filled_at = min(_EVENTS_AT_ONCE, filled), now
        if self._tokens >= 1:
            self._tokens -= 1
            self._wake.set()

    async def ready(self) -> None:
        """Waits until pods were read once."""
        await self._synced.wait()

    async def run(self) -> None:
        """Polls until cancelled."""
        while True:
            self._wake.clear()
            await self._poll()
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def _poll(self) -> None:
        try:
            pods = await self._ask()
        except (KoordError, TransportError, TimeoutError) as error:
            self._failed(str(error) or "no answer in time")
            return
        if not pods and self._has_cgroup():
            self._failed("an empty list, the pods that were known stay")
            return
        if self._failure:
            _LOG.info("pods are read again")
            self._failure = ""
        before = self._store.unchecked_pods
        states = pod_states(pods, self._layout, before, self._left_out)
        self._store.put(SnapshotPart.PODS, states)
        self._synced.set()

    def _has_cgroup(self) -> bool:
        """Whether a pod that is known has its cgroup."""
        known = self._store.unchecked_pods
        return any((self._groups_root / state.directory.lstrip("/")).exists() for state in known)

    def _failed(self, reason: str) -> None:
        if reason != self._failure:
            _LOG.warning("pods not read", extra=log.fields(reason=reason))
        self._failure = reason
