# SPDX-License-Identifier: Apache-2.0
"""Takes back what a group uses beyond its runtime quota for too long.

Rule: docs/reference/quota-scheduling.md#revocation. Runs where ``monitorAllQuotas`` and
``enableRuntimeQuota`` are on. The pods that go are evicted through the API, so disruption budgets
hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from koord.base import faults, log
from koord.base.errors import one_line
from koord.controllers.scheduler.plugins.elasticquota.groups import Place
from koord.kernels.quota import ROOT, SYSTEM

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.elasticquota.groups import QuotaGroups
    from koord.controllers.scheduler.plugins.elasticquota.ledger import Ledger

_LOG = log.get("scheduler")


class Held(NamedTuple):
    """A pod that holds part of a group's use.

    Attributes:
        pod: which.
        amounts: what of.
        preemptible: whether it may be taken.
    """

    pod: PodInfo
    amounts: Mapping[str, int]
    preemptible: bool = True


def exceeds(used: Mapping[str, int], limit: Mapping[str, int]) -> bool:
    """Whether use is over a limit in a resource that both name."""
    return any(used[name] > limit[name] for name in used if name in limit)


def importance(pod: PodInfo) -> tuple[int, float, str]:
    """Sorts pods: who is of a higher priority, started earlier, has the lesser name comes first."""
    start = pod.pod.status.start_time
    return -pod.priority, start.timestamp() if start else float("inf"), pod.key


def revoked(
    used: Mapping[str, int], limit: Mapping[str, int], pods: Sequence[Held]
) -> list[PodInfo]:
    """The pods that go so that use comes below the limit, or as near to it as it can.

    From the least important on pods are taken until the rest fits. Then, from the most important
    on, those are given back that fit beside the rest.

    Args:
        used: of the group with all below it.
        limit: its runtime.
        pods: those charged to the group itself that hold a node.

    Returns:
        The most important first, unless all that may be taken are not enough: then the least.
    """
    rest = dict(used)
    taken: list[Held] = []
    for held in sorted(pods, key=lambda held: importance(held.pod), reverse=True):
        if not exceeds(rest, limit):
            break
        if held.preemptible:
            _add(rest, held.amounts, -1)
            taken.append(held)
    if exceeds(rest, limit):
        return [held.pod for held in taken]
    going = []
    for held in reversed(taken):
        _add(rest, held.amounts, 1)
        if exceeds(rest, limit):
            _add(rest, held.amounts, -1)
            going.append(held.pod)
    return going


def _add(amounts: dict[str, int], part: Mapping[str, int], sign: int) -> None:
    for name, amount in part.items():
        amounts[name] = amounts.get(name, 0) + sign * amount


class OveruseMonitor:
    """Remembers since when each group has used too much.

    Args:
        groups: the trees.
        ledger: whose pods.
        delay_seconds: how long a group may use too much.
    """

    def __init__(self, groups: QuotaGroups, ledger: Ledger, delay_seconds: float) -> None:
        self._groups = groups
        self._ledger = ledger
        self._delay_seconds = delay_seconds
        self._last_within: dict[Place, float] = {}

    def tick(self, now: float) -> dict[Place, list[PodInfo]]:
        """The pods to evict now, by group, in the order of their names; empty groups left out.

        Args:
            now: monotonic seconds. A group's time begins when it is first looked at.
        """
        places = [
            Place(tree_id, name)
            for tree_id, tree in self._groups.trees().items()
            for name in sorted(tree, key=str.encode)
            if name not in (ROOT, SYSTEM)
        ]
        last = self._last_within
        self._last_within = {place: last.get(place, now) for place in places}
        found = {place: self._judge(place, now) for place in places}
        return {place: pods for place, pods in found.items() if pods}

    def _judge(self, place: Place, now: float) -> list[PodInfo]:
        tree = self._groups.tree(place.tree_id)
        used, runtime = tree.used(place.group), tree.runtime(place.group)
        if not exceeds(used, runtime):
            self._last_within[place] = now
            return []
        if now - self._last_within[place] <= self._delay_seconds:
            return []
        self._last_within[place] = now
        pods = [
            Held(entry.pod, entry.amounts.forth, not entry.reading.non_preemptible)
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

    async def _try(self, pod: PodInfo, place: Place) -> bool:
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
