# SPDX-License-Identifier: Apache-2.0
"""Holds the newest snapshot and tells of changes, many at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from koord.agent.states.snapshot import Snapshot, SnapshotPart, Timestamped
from koord.base.supervision import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.agent.states.pod_state import PodState
    from koord.base.clock import Clock

_FIELDS = {
    SnapshotPart.NODE: "node",
    SnapshotPart.PODS: "pods",
    SnapshotPart.SLO: "slo",
    SnapshotPart.TOPOLOGY: "topology",
    SnapshotPart.METRIC_SPEC: "metric_spec",
}

_CHECKED_BY = SnapshotPart.NODE | SnapshotPart.TOPOLOGY | SnapshotPart.SLO


class StateStore:
    """The one holder of snapshots; sources put parts in, everyone else reads.

    Args:
        clock: for the ages of parts.
        supervisor: told of followers that fail.
        check: what becomes of pods before anybody sees them, asked again when the node, its
            topology or its NodeSLO changes; None leaves them as they are.
    """

    def __init__(
        self,
        clock: Clock,
        supervisor: Supervisor | None = None,
        check: Callable[[tuple[PodState, ...], Snapshot], tuple[PodState, ...]] | None = None,
    ) -> None:
        self._check = check
        self._unchecked: tuple[PodState, ...] = ()
        self._supervisor = supervisor or Supervisor("states")
        self._clock = clock
        self._snapshot = Snapshot()
        self._subscribers: list[tuple[SnapshotPart, Callable[[Snapshot, SnapshotPart], None]]] = []
        self._changed = SnapshotPart(0)

    def snapshot(self) -> Snapshot:
        """The newest view; the same object as long as nothing changed."""
        return self._snapshot

    @property
    def unchecked_pods(self) -> tuple[PodState, ...]:
        """Pods as their source put them last, with what they may not have."""
        return self._unchecked

    def subscribe(
        self, parts: SnapshotPart, changed: Callable[[Snapshot, SnapshotPart], None]
    ) -> None:
        """Calls back in the event loop after any of the parts changed; bursts are coalesced."""
        self._subscribers.append((parts, changed))

    def put(self, part: SnapshotPart, value: Any) -> None:
        """A source's newest value: confirmed now; those who follow the part hear if it differs."""
        if part is SnapshotPart.PODS:
            self._unchecked = value
            if self._check is not None:
                value = self._check(value, self._snapshot)
        if self._take(part, value, self._clock.monotonic_seconds()) and part in _CHECKED_BY:
            pods = self._snapshot.pods
            if self._check is not None and self._unchecked:
                checked = self._check(self._unchecked, self._snapshot)
                self._take(SnapshotPart.PODS, checked, pods.at_seconds)

    def _take(self, part: SnapshotPart, value: Any, at_seconds: float) -> bool:
        """Whether the value is another than before."""
        name = _FIELDS[part]
        before = getattr(self._snapshot, name).value
        differs = value is not before and value != before
        aged = Timestamped(value if differs else before, at_seconds)
        self._snapshot = replace(self._snapshot, **{name: aged})
        if differs:
            self._notify_soon(part)
        return differs

    def _notify_soon(self, part: SnapshotPart) -> None:
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._notify)
        self._changed |= part

    def _notify(self) -> None:
        changed, self._changed = self._changed, SnapshotPart(0)
        for parts, call in self._subscribers:
            if parts & changed:
                with self._supervisor.round("followers of states"):
                    call(self._snapshot, parts & changed)
