# SPDX-License-Identifier: Apache-2.0
"""Holds the newest snapshot and tells of changes, many at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from koord.agent.states.snapshot import Aged, Part, Snapshot
from koord.base.supervision import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.clock import Clock

_FIELDS = {
    Part.NODE: "node",
    Part.PODS: "pods",
    Part.SLO: "slo",
    Part.TOPOLOGY: "topology",
    Part.METRIC_SPEC: "metric_spec",
}


class StateStore:
    """The one holder of snapshots; sources put parts in, everyone else reads.

    Args:
        clock: for the ages of parts.
        supervisor: told of followers that fail.
    """

    def __init__(self, clock: Clock, supervisor: Supervisor | None = None) -> None:
        self._supervisor = supervisor or Supervisor("states")
        self._clock = clock
        self._snapshot = Snapshot()
        self._subscribers: list[tuple[Part, Callable[[Snapshot, Part], None]]] = []
        self._changed = Part(0)

    def snapshot(self) -> Snapshot:
        """See :class:`koord.agent.states.snapshot.States`."""
        return self._snapshot

    def subscribe(self, parts: Part, changed: Callable[[Snapshot, Part], None]) -> None:
        """See :class:`koord.agent.states.snapshot.States`."""
        self._subscribers.append((parts, changed))

    def put(self, part: Part, value: Any) -> None:
        """A source's newest value: confirmed now; those who follow the part hear if it differs."""
        name = _FIELDS[part]
        before = getattr(self._snapshot, name).value
        differs = value is not before and value != before
        aged = Aged(value if differs else before, self._clock.monotonic_seconds())
        self._snapshot = replace(self._snapshot, **{name: aged})
        if differs:
            self._tell_soon(part)

    def _tell_soon(self, part: Part) -> None:
        if not self._changed:
            asyncio.get_running_loop().call_soon(self._tell)
        self._changed |= part

    def _tell(self) -> None:
        changed, self._changed = self._changed, Part(0)
        for parts, call in self._subscribers:
            if parts & changed:
                with self._supervisor.round("followers of states"):
                    call(self._snapshot, parts & changed)
