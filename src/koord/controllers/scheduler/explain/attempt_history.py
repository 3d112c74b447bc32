# SPDX-License-Identifier: Apache-2.0
"""The last attempt of each pod, as many as a bound allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.cluster.bounded_table import BoundedTable
from koord.controllers.scheduler.explain.explanation import LastAttempt

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.decision.decider import Decision


class AttemptHistory:
    """Remembers attempts; an observer of the loop.

    Args:
        table: names nodes.
        clock: wall time.
        limit: pods that are remembered; the oldest are forgotten first.
        size: how many characters their messages may have together.
    """

    def __init__(
        self, table: NodeTable, clock: Clock, limit: int = 20_000, size: int = 32 << 20
    ) -> None:
        self._table = table
        self._clock = clock
        self._last: BoundedTable[str, tuple[float, str, str]] = BoundedTable(limit, size)
        self._since = clock.wall_seconds()

    def observe(self, decision: Decision, message: str) -> None:
        """Notes what came of an attempt."""
        node = "" if message else self._table.name(decision.row)
        noted = (self._clock.wall_seconds(), node, message)
        dropped = self._last.put(decision.cycle.pod.uid, noted, len(message))
        if dropped is not None:
            self._since = dropped[0]

    @property
    def since(self) -> float:
        """From when on every attempt is remembered, seconds since the Unix epoch."""
        return self._since

    def last(self, uid: str) -> LastAttempt | None:
        """The last attempt of a pod, if it is remembered."""
        found = self._last.get(uid)
        return LastAttempt(*found) if found is not None else None
