# SPDX-License-Identifier: Apache-2.0
"""LowNodeLoad: the pools of a round, one after the other.

Rule: docs/reference/descheduling-plugins.md#a-pass-over-a-pool.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api import selectors
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.loadaware.anomaly import AnomalyDetectors
from koord.controllers.descheduler.plugins.loadaware.balance_phase import BalancePhase, by_load
from koord.controllers.descheduler.plugins.loadaware.low_node_load_args import (
    AnomalyCondition,
    LowNodeLoadArgs,
)
from koord.controllers.descheduler.plugins.loadaware.measured_nodes import (
    LoadSums,
    classify,
    measure,
    set_thresholds,
    thresholds,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.framework.handle import DeschedulerHandle
    from koord.controllers.descheduler.plugins.loadaware.low_node_load_args import LoadPool
    from koord.controllers.descheduler.plugins.loadaware.measured_nodes import (
        LoadThresholds,
        MeasuredNode,
        NodeGroups,
        UnitsByResource,
    )


class LowNodeLoad(DeschedulerPlugin):
    """The strategy; it remembers for how long nodes have been high."""

    name = "LowNodeLoad"
    args_type = LowNodeLoadArgs
    args: LowNodeLoadArgs

    def __init__(self, args: LowNodeLoadArgs, handle: DeschedulerHandle) -> None:
        super().__init__(args, handle)
        seconds = args.detector_cache_timeout.nanoseconds / 1e9
        self._detectors = {prod: AnomalyDetectors(seconds) for prod in (False, True)}
        self._sums = LoadSums()

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evicts from nodes that are high for long enough, pool by pool."""
        if self.args.paused:
            return
        self._sums.keep({node.metadata.name for node in self.handle.snapshot.nodes})
        processed: set[str] = set()
        for pool in self.args.pools():
            await self._balance_pool(pool, _pool_nodes(pool, nodes, processed), processed)

    async def _balance_pool(
        self, pool: LoadPool, nodes: Sequence[Node], processed: set[str]
    ) -> None:
        percentages = thresholds(pool)
        measured = measure(
            nodes,
            self.handle.snapshot,
            percentages.low,
            self.handle.now(),
            self.args.node_metric_expiration_seconds,
            self._sums,
        )
        # The rest of the program has its turn: a pool may have thousands of nodes.
        await asyncio.sleep(0)
        set_thresholds(measured, percentages, by_deviation=pool.use_deviation_thresholds)
        groups = classify(measured)
        if not groups.high and not groups.prod_high:
            return
        condition = pool.anomaly_condition or AnomalyCondition()
        high = self._anomalous(groups.high, condition, prod=False)
        prod_high = self._anomalous(groups.prod_high, condition, prod=True)
        if not (high or prod_high) or not groups.takers():
            return
        now = self.handle.clock.monotonic_seconds()
        self._detectors[False].reset(_names(groups.low + groups.both_low), now)
        self._detectors[True].reset(_names(groups.prod_low), now)
        if groups.takers() <= self.args.number_of_nodes or groups.takers() == len(nodes):
            return
        await self._move(pool, percentages, groups, high, prod_high)
        now = self.handle.clock.monotonic_seconds()
        self._detectors[False].mark_normal(_names(high), now)
        self._detectors[True].mark_normal(_names(prod_high), now)
        processed.update(_names(groups.high))

    async def _move(
        self,
        pool: LoadPool,
        percentages: LoadThresholds,
        groups: NodeGroups,
        high: list[MeasuredNode],
        prod_high: list[MeasuredNode],
    ) -> None:
        await asyncio.sleep(0)
        weights = pool.resource_weights or {}
        names = sorted(percentages.low)
        both = _available(groups.both_low, names, prod=False)
        prod_both = _available(groups.both_low, names, prod=True)
        available = _sum(_available(groups.low, names, prod=False), both)
        # What prod pods may take of prod-low nodes is what they have before any pod moves.
        prod_available = _available(groups.prod_low, names, prod=True)
        phase = self._phase(weights, percentages.high, prod=False)
        await phase.run(by_load(high, weights, prod=False), groups.low + groups.both_low, available)
        left = {name: min(both[name], available[name], prod_both[name]) for name in names}
        prod_phase = self._phase(weights, percentages.prod_high, prod=True)
        await prod_phase.run(
            by_load(prod_high, weights, prod=True),
            groups.prod_low + groups.both_low,
            _sum(prod_available, left),
        )

    def _phase(
        self, weights: Mapping[str, int], percentages: Mapping[str, float], *, prod: bool
    ) -> BalancePhase:
        def is_relieved(node: MeasuredNode) -> None:
            now = self.handle.clock.monotonic_seconds()
            self._detectors[prod].reset([node.name], now)

        fit = self.handle.node_fit if self.args.node_fit else None
        selected = self.args.pod_filter(self.handle.evictor.filter)
        return BalancePhase(prod, fit, weights, selected, self._evict, is_relieved, percentages)

    def _anomalous(
        self, nodes: Sequence[MeasuredNode], condition: AnomalyCondition, *, prod: bool
    ) -> list[MeasuredNode]:
        now = self.handle.clock.monotonic_seconds()
        names = self._detectors[prod].abnormal(_names(nodes), condition, now)
        return [node for node in nodes if node.name in names]

    async def _evict(self, pod: Pod, reason: str) -> bool:
        return await self.handle.evictor.evict(pod, reason, dry_run=self.args.dry_run)


def _pool_nodes(pool: LoadPool, nodes: Sequence[Node], processed: set[str]) -> Sequence[Node]:
    """All nodes where the pool has no selector, else those that no pool before took pods from."""
    selector = pool.node_selector
    if selector is None:
        return nodes
    return [
        node
        for node in nodes
        if node.metadata.name not in processed and selectors.matches(selector, node.metadata.labels)
    ]


def _names(nodes: Iterable[MeasuredNode]) -> list[str]:
    return [node.name for node in nodes]


def _available(
    nodes: Iterable[MeasuredNode], names: Sequence[str], *, prod: bool
) -> UnitsByResource:
    """What nodes take until they are high, by resource."""
    available = dict.fromkeys(names, 0)
    for node in nodes:
        load = node.load(prod=prod)
        for name in names:
            available[name] += load.high[name] - load.usage[name]
    return available


def _sum(first: UnitsByResource, second: UnitsByResource) -> UnitsByResource:
    return {name: amount + second[name] for name, amount in first.items()}
