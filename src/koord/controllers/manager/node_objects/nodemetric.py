# SPDX-License-Identifier: Apache-2.0
"""The controller ``nodemetric``: a NodeMetric for each node, with how its agent is to report.

Rule: docs/reference/nodeslo.md#nodemetric. The agent owns the status.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.nodemetric import (
    NodeAggregatePolicy,
    NodeMetric,
    NodeMetricCollectPolicy,
    NodeMetricSpec,
)
from koord.api.protocol import keys
from koord.api.sloconfig import sections
from koord.api.sloconfig.defaults import default_strategy
from koord.api.sloconfig.reading import colocation_problems
from koord.controllers.manager.node_objects.object_controller import NodeObjectController
from koord.controllers.manager.sloconfig.node_config_cache import NodeConfigCache

if TYPE_CHECKING:
    from koord.api.kinds.node import Node
    from koord.api.sloconfig.config import SLOConfig
    from koord.api.sloconfig.strategies import ColocationStrategy
    from koord.controllers.manager.dependencies import ControllerDependencies

# What the definition of the kind admits.
LABELS = (
    keys.CPU_RECLAIM_RATIO,
    keys.MEMORY_RECLAIM_RATIO,
    keys.MID_STATIC_CPU_RESERVED_RATIO,
    keys.MID_STATIC_MEMORY_RESERVED_RATIO,
)
"""Labels of a node that its co-location strategy depends on, beside those in selectors."""
ANNOTATIONS = (keys.COLOCATION_STRATEGY,)
"""Annotations of a node that its co-location strategy depends on."""


class NodeMetrics:
    """The controller.

    Args:
        around: its world.
    """

    def __init__(self, dependencies: ControllerDependencies) -> None:
        self._config = dependencies.config
        self._parses = dependencies.metrics.counted(
            "slo_controller_nodemetric_spec_parse_count", "Specs of NodeMetrics worked out."
        )
        self._specs = NodeConfigCache((sections.COLOCATION,), self._make, LABELS, ANNOTATIONS)
        counts = dependencies.metrics.counted(
            "slo_controller_nodemetric_reconcile_count", "NodeMetrics created, updated, deleted."
        )
        self._kept = NodeObjectController(
            "nodemetric", NodeMetric, dependencies, _is_touched, self.wanted, self._is_known, counts
        )

    async def run(self) -> None:
        """Works until cancelled."""
        await self._kept.run()

    def wanted(self, node: Node, published: NodeMetric | None) -> NodeMetricSpec | None:
        """The spec of a node's NodeMetric; None while there is no configuration.

        A spec that is there stays while the configuration is wrong, or there is none.
        """
        config = self._config.config
        if config is None or not self._is_known():
            return None
        if published is not None and self._config.error_status:
            return published.spec
        return self._specs.of(config, node)

    def _is_known(self) -> bool:
        return self._config.available

    def _make(self, config: SLOConfig, node: Node) -> NodeMetricSpec:
        strategy = config.colocation(node)
        if strategy.enable is True and _is_valid(strategy):
            self._parses.succeeded("strategy")
        else:
            self._parses.failed("invalid" if strategy.enable else "disabled")
            strategy = default_strategy(sections.COLOCATION)
        return collect_policy(strategy)


def collect_policy(strategy: ColocationStrategy) -> NodeMetricSpec:
    """The part of a co-location strategy that is about reports."""
    windows = strategy.metric_aggregate_policy
    return NodeMetricSpec(
        NodeMetricCollectPolicy(
            aggregate_duration_seconds=strategy.metric_aggregate_duration_seconds,
            report_interval_seconds=strategy.metric_report_interval_seconds,
            node_aggregate_policy=None
            if windows is None
            else NodeAggregatePolicy(list(windows.durations)),
            node_memory_collect_policy=strategy.metric_memory_collect_policy,
        )
    )


def _is_valid(strategy: ColocationStrategy) -> bool:
    return not any(colocation_problems(strategy, "Node", ""))


def _is_touched(changed: frozenset[str]) -> bool:
    return sections.COLOCATION in changed
