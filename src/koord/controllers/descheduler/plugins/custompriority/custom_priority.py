# SPDX-License-Identifier: Apache-2.0
"""CustomPriority: pods leave the expensive levels for the cheaper ones, one by one or node by node.

Rule: docs/reference/descheduling-plugins.md#custompriority.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api import requests, selectors
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.custompriority.custom_priority_args import (
    DRAIN_NODE,
    CustomPriorityArgs,
)
from koord.controllers.descheduler.plugins.custompriority.drain_plan import (
    DrainPlan,
    smallest_first,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.plugins.custompriority.custom_priority_args import NodeLevel

MOST_MISSES = 5
"""Pods in a row that fit no target, after which a node is done."""


class LevelNodes(NamedTuple):
    """A level and its nodes, in the order in which the round has them."""

    level: NodeLevel
    nodes: list[Node]


class CustomPriority(DeschedulerPlugin):
    """The strategy; level by level, the most expensive first."""

    name = "CustomPriority"
    args_type = CustomPriorityArgs
    args: CustomPriorityArgs

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evicts off the nodes of every level that has cheaper ones after it."""
        if self.args.paused:
            return
        levels = self._levels(self.args.selected_nodes(nodes))
        for index, source in enumerate(levels[:-1]):
            targets = [
                node
                for each in levels[index + 1 :]
                for node in self._takers(each.level, each.nodes)
            ]
            sources = [node for node in source.nodes if not self._keeps(source.level, node)]
            if not targets:
                continue
            if self.args.mode == DRAIN_NODE:
                plan = DrainPlan(targets, self.handle.node_fit, must_fit=self.args.node_fit)
                for node in sources:
                    await self._drain(node, source.level, plan)
            else:
                for node in sources:
                    await self._move(node, source.level, targets)

    def _levels(self, nodes: Iterable[Node]) -> list[LevelNodes]:
        """Levels that have nodes; a node is of the first one that selects it."""
        levels = [LevelNodes(level, []) for level in self.args.eviction_order]
        for node in nodes:
            for each in levels:
                selector = each.level.node_selector
                if selector is not None and selectors.matches(selector, node.metadata.labels):
                    each.nodes.append(node)
                    break
        return [each for each in levels if each.nodes]

    def _keeps(self, level: NodeLevel, node: Node) -> bool:
        """Whether a node is filled so little that its pods stay."""
        used = self._used_percent(node)
        thresholds = level.keep_threshold
        return bool(thresholds) and all(
            used.get(name, 0.0) < percent for name, percent in thresholds.items()
        )

    def _takers(self, level: NodeLevel, nodes: list[Node]) -> list[Node]:
        """Those nodes of a level that are not filled so far that they take no pods."""
        thresholds = level.reject_threshold
        if not thresholds:
            return nodes
        return [
            node
            for node in nodes
            if all(
                self._used_percent(node).get(name, 0.0) <= percent
                for name, percent in thresholds.items()
            )
        ]

    def _used_percent(self, node: Node) -> Mapping[str, float]:
        """What pods ask for of a node, in percent of what it offers."""
        free = self.handle.node_fit.free(node)
        return {
            name: 100 * (offered - free.get(name, 0)) / offered
            for name, offered in requests.offered(node).items()
            if offered > 0
        }

    def _candidates(self, node: Node) -> list[Pod]:
        selected = self.args.pod_filter(self.handle.evictor.filter)
        pods = self.handle.snapshot.all_pods_on(node.metadata.name)
        return smallest_first(pod for pod in pods if selected(pod))

    async def _move(self, node: Node, level: NodeLevel, targets: Sequence[Node]) -> None:
        """Evicts the pods of a node that fit a target, each for itself."""
        evictor = self.handle.evictor
        reason = f"evicting from {level.name} priority resource to lower priority resource"
        for pod in self._fitting(self._candidates(node), targets):
            if evictor.pre_eviction_filter(pod):
                await evictor.evict(pod, reason, dry_run=self.args.dry_run)

    def _fitting(self, pods: Iterable[Pod], targets: Sequence[Node]) -> list[Pod]:
        if not self.args.node_fit:
            return list(pods)
        fit, found, misses = self.handle.node_fit, [], 0
        for pod in pods:
            if any(fit.fits_by_requests(pod, node) for node in targets):
                found.append(pod)
                misses = 0
                continue
            misses += 1
            if misses == MOST_MISSES:
                break
        return found

    async def _drain(self, node: Node, level: NodeLevel, plan: DrainPlan) -> None:
        """Evicts all candidates of a node, if all of them find room; else none."""
        evictor, writer, dry_run = self.handle.evictor, self.handle.writer, self.args.dry_run
        pods = self._candidates(node)
        allowed = all(evictor.pre_eviction_filter(pod) for pod in pods)
        if not pods or not allowed or not plan.place_all(pods):
            return
        # A node that others have cordoned is not ours to uncordon.
        cordons = self.args.auto_cordon and not node.spec.unschedulable and not dry_run
        if cordons and not await writer.cordon(node):
            return
        reason = f"drain node {node.metadata.name} (sourcePriority={level.name})"
        for pod in pods:
            if not await evictor.evict(pod, reason, dry_run=dry_run):
                if cordons:
                    await writer.uncordon(node)
                return
