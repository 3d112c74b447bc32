# SPDX-License-Identifier: Apache-2.0
"""Takes back what a group uses beyond its runtime quota for too long.

Rule: docs/reference/quota-scheduling.md#revocation. Runs where ``monitorAllQuotas`` and
``enableRuntimeQuota`` are on. The pods that go are evicted through the API, so disruption budgets
hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from koord.base import faults, log
from koord.base.errors import one_line
from koord.controllers.scheduler.plugins.elasticquota.allocation.revocation import (
    RevocablePod,
    exceeds,
    revoked,
)
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import GroupKey
from koord.kernels.quota import ROOT, SYSTEM

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import QuotaLedger
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTrees

_LOG = log.get("scheduler")


class OveruseMonitor:
    """Remembers since when each group has used too much.

    Args:
        groups: the trees.
        ledger: whose pods.
        delay_seconds: how long a group may use too much.
    """

    def __init__(self, groups: QuotaTrees, ledger: QuotaLedger, delay_seconds: float) -> None:
        self._groups = groups
        self._ledger = ledger
        self._delay_seconds = delay_seconds
        self._last_within: dict[GroupKey, float] = {}

    def tick(self, now: float) -> dict[GroupKey, list[PodInfo]]:
        """The pods to evict now, by group, in the order of their names; empty groups left out.

        Args:
            now: monotonic seconds. A group's time begins when it is first looked at.
        """
        places = [
            GroupKey(tree_id, name)
            for tree_id, tree in self._groups.trees().items()
            for name in sorted(tree, key=str.encode)
            if name not in (ROOT, SYSTEM)
        ]
        last = self._last_within
        self._last_within = {place: last.get(place, now) for place in places}
        found = {place: self._judge(place, now) for place in places}
        return {place: pods for place, pods in found.items() if pods}

    def _judge(self, place: GroupKey, now: float) -> list[PodInfo]:
        tree = self._groups.tree(place.tree_id)
        used, runtime = tree.used(place.group), tree.runtime(place.group)
        if not exceeds(used, runtime):
            self._last_within[place] = now
            return []
        if now - self._last_within[place] <= self._delay_seconds:
            return []
        self._last_within[place] = now
        pods = [
            RevocablePod(entry.pod, entry.amounts.forth, not entry.reading.non_preemptible)
            for entry in self._ledger.pods(place.group)
            if entry.used
        ]
        return revoked(used, runtime, pods)


class RevokeController:
    """Evicts what the monitor finds.

    Args:
        monitor: see :class:`OveruseMonitor`.
        evict: asks the API to evict a pod; raises where it refuses.
        interval_seconds: between two looks.
        clock: the time.
    """

    def __init__(
        self,
        monitor: OveruseMonitor,
        evict: Callable[[PodInfo], Awaitable[None]],
        interval_seconds: float,
        clock: Clock,
    ) -> None:
        self._monitor = monitor
        self._evict = evict
        self._interval_seconds = max(interval_seconds, 0.001)
        self._clock = clock

    async def run(self) -> None:
        """Looks and evicts until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(self._interval_seconds)

    async def step(self) -> int:
        """One look; returns how many pods were evicted. What the API refuses is passed over."""
        evicted = 0
        for place, pods in self._monitor.tick(self._clock.monotonic_seconds()).items():
            for pod in pods:
                evicted += await self._try(pod, place)
        return evicted

    async def _try(self, pod: PodInfo, place: GroupKey) -> bool:
        told = log.fields(pod=pod.key, quota=place.group)
        try:
            faults.point("scheduler.quota.evict")
            await self._evict(pod)
        except Exception as error:
            more = log.fields(pod=pod.key, quota=place.group, error=one_line(str(error)))
            _LOG.warning("a pod of an overused quota was not evicted", extra=more)
            return False
        _LOG.info("a pod of an overused quota was evicted", extra=told)
        return True
