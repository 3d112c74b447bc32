# SPDX-License-Identifier: Apache-2.0
"""What a plugin gets: the round's snapshot, the evictor of its profile, the time.

Rule: docs/reference/descheduling.md#framework.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.base import log
from koord.controllers.descheduler.framework.object_writer import ObjectWriter
from koord.controllers.descheduler.framework.points import Evict, EvictionFilter, PodEviction
from koord.controllers.descheduler.predicates.node_fit import NodeFit
from koord.controllers.descheduler.snapshot import ClusterSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.migration import DeleteOptions
    from koord.api.kinds.pod import Pod
    from koord.base.clock import Clock
    from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
    from koord.controllers.descheduler.framework.limiter import EvictionLimiter
    from koord.controllers.descheduler.framework.outcomes import RoundRecord

_LOG = log.get("descheduler")
NODES_A_SLICE = 500
"""Nodes whose pods a strategy looks at before the rest of the program has its turn."""


class StrategyEvictor:
    """Filters and evicts for the strategies of one profile.

    Args:
        limiter: of the round, shared by all profiles.
        dry_run: whether evictions are only counted.
        record: what becomes of each pod, for people and metrics.

    Attributes:
        limiter: as given.
    """

    def __init__(self, limiter: EvictionLimiter, dry_run: bool, record: RoundRecord) -> None:
        self.limiter = limiter
        self.dry_run = dry_run
        self._record = record
        self._filters: Sequence[EvictionFilter] = ()
        # One filter, as most profiles have, is asked without going through a list.
        self._only_filter: EvictionFilter | None = None
        self.evict_plugin: Evict | None = None
        self.strategy = ""

    @property
    def filters(self) -> Sequence[EvictionFilter]:
        """The filter plugins, in order."""
        return self._filters

    @filters.setter
    def filters(self, filters: Sequence[EvictionFilter]) -> None:
        self._filters = filters
        self._only_filter = filters[0] if len(filters) == 1 else None

    def filter(self, pod: Pod) -> bool:
        """Whether all filter plugins let the pod be a candidate; the first no ends it."""
        if self._only_filter is not None:
            return self._only_filter.filter(pod)
        return all(plugin.filter(pod) for plugin in self._filters)

    def pre_eviction_filter(self, pod: Pod) -> bool:
        """Whether all filter plugins let the pod go now."""
        if self._only_filter is not None:
            return self._only_filter.pre_eviction_filter(pod)
        return all(plugin.pre_eviction_filter(pod) for plugin in self._filters)

    def refusal(self, pod: Pod) -> str:
        """Which filter plugin keeps the pod, and by which rule if it says so; empty for none."""
        for plugin in self.filters:
            name = getattr(plugin, "name", type(plugin).__name__)
            if not plugin.filter(pod):
                found = getattr(plugin, "refusal", lambda _: "")(pod)
                reason = getattr(found, "message", found)
                return f"{name}: {reason}" if reason else name
            if not plugin.pre_eviction_filter(pod):
                return f"{name}, right before eviction"
        return ""

    def accepts(self, pod: Pod) -> bool:
        """Both filters, as plugins of kubernetes-sigs/descheduler ask them."""
        only = self._only_filter
        if only is not None:
            return only.filter(pod) and only.pre_eviction_filter(pod)
        return self.filter(pod) and self.pre_eviction_filter(pod)

    async def evict(
        self,
        pod: Pod,
        reason: str = "",
        delete_options: DeleteOptions | None = None,
        *,
        dry_run: bool = False,
    ) -> bool:
        """Whether the pod goes: within the round's limits, and by the evict plugin.

        Args:
            pod: which.
            reason: for people.
            delete_options: how; the evict plugin's own where it is None.
            dry_run: of the strategy alone: the pod is told in the log, counts for no limit and
                counts as gone.
        """
        if dry_run:
            self._log_eviction(pod, reason)
            return True
        request = PodEviction(self.strategy, reason)
        if delete_options is not None:
            request = PodEviction(self.strategy, reason, delete_options)
        refusal = self.limiter.refusal(pod)
        if refusal:
            self._record.refused(pod, request, refusal)
            return False
        if self.dry_run:
            self._log_eviction(pod, reason)
        elif self.evict_plugin is None or not await self.evict_plugin.evict(pod, request):
            # At once after the answer: nobody else evicts between.
            self._record.failed(pod, request, str(getattr(self.evict_plugin, "why", "")))
            return False
        self.limiter.add(pod)
        self._record.evicted(pod, request)
        return True

    def _log_eviction(self, pod: Pod, reason: str) -> None:
        told = log.fields(pod=pod.title, strategy=self.strategy, reason=reason)
        _LOG.info("would evict a pod", extra=told)


class DeschedulerHandle:
    """What the plugins of one profile get.

    Args:
        evictor: of the profile.
        evictions: carries evictions out, for evict plugins.
        clock: the time.
        cluster: for plugins that are controllers; None where rounds run on snapshots alone.
        profile: its name.

    Attributes:
        writer: what strategies write beside evictions.
    """

    def __init__(
        self,
        evictor: StrategyEvictor,
        evictions: Evict,
        clock: Clock,
        cluster: ClusterAccess | None = None,
        profile: str = "",
    ) -> None:
        self.evictor = evictor
        self.evictions = evictions
        self.clock = clock
        self.cluster = cluster
        self.profile = profile
        self.writer = ObjectWriter(cluster, dry_run=evictor.dry_run)
        self._snapshot = ClusterSnapshot(())
        self._node_fit = NodeFit(self._snapshot)
        self._node_number = 0
        self._on_round: list[Callable[[ClusterSnapshot], None]] = []

    @property
    def snapshot(self) -> ClusterSnapshot:
        """The cluster as this round sees it."""
        return self._snapshot

    @property
    def node_fit(self) -> NodeFit:
        """Whether pods fit nodes of the snapshot."""
        return self._node_fit

    def begin_round(self, snapshot: ClusterSnapshot) -> None:
        """Takes the snapshot of a new round."""
        self._snapshot = snapshot
        self._node_fit = NodeFit(snapshot)
        for listener in self._on_round:
            listener(snapshot)

    def on_round(self, listener: Callable[[ClusterSnapshot], None]) -> None:
        """Calls a plugin with the snapshot of each round, before any strategy runs."""
        self._on_round.append(listener)

    async def give_way(self) -> None:
        """Lets the rest of the program work, each so many nodes that a strategy has looked at; by
        their number, not by a clock, so that the same seed plays the same history.
        """
        self._node_number += 1
        if self._node_number % NODES_A_SLICE == 0:
            await asyncio.sleep(0)

    def now(self) -> float:
        """Wall time in seconds since the Unix epoch."""
        return self.clock.wall_seconds()
