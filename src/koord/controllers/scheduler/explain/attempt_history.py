# SPDX-License-Identifier: Apache-2.0
"""The last attempt of each pod, as many as a bound allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    """

    def __init__(self, table: NodeTable, clock: Clock, limit: int = 20_000) -> None:
        self._table = table
        self._clock = clock
        self._limit = limit
        self._last: dict[str, tuple[float, str, str]] = {}
        self._since = clock.wall_seconds()

    def observe(self, decision: Decision, message: str) -> None:
        """Notes what came of an attempt."""
        last, uid = self._last, decision.cycle.pod.uid
        last.pop(uid, None)
        if len(last) >= self._limit:
            self._since = last.pop(next(iter(last)))[0]
        node = "" if message else self._table.name(decision.row)
        last[uid] = (self._clock.wall_seconds(), node, message)

    @property
    def since(self) -> float:
        """From when on every attempt is remembered, seconds since the Unix epoch."""
        return self._since

    def last(self, uid: str) -> LastAttempt | None:
        """The last attempt of a pod, if it is remembered."""
        found = self._last.get(uid)
        return LastAttempt(*found) if found is not None else None
