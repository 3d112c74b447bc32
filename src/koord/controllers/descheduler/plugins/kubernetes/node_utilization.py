# SPDX-License-Identifier: Apache-2.0
"""LowNodeUtilization and HighNodeUtilization: requests moved from full nodes to empty ones, or from
nearly empty nodes to the rest.

Rules: docs/reference/descheduling-plugins.md#lownodeutilization,
docs/reference/descheduling-plugins.md#highnodeutilization.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api import requests
from koord.api.tolerations import tolerates
from koord.base.errors import Code, KoordError
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import Namespaces, check_words
from koord.controllers.descheduler.predicates.pod_order import by_priority
from koord.controllers.scheduler.config.plugin_args import ConfigStruct, PluginArgs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.config.field_path import FieldPath

Percentages = dict[str, float]
_ALWAYS = (requests.CPU, requests.MEMORY, requests.PODS)
ONLY_THRESHOLDING = "OnlyThresholdingResources"


class EvictionLimit(ConfigStruct, frozen=True):
    """The most evictions of one run of the strategy."""

    node: int | None = None


class NodeUtilizationArgs(PluginArgs, frozen=True):
    """What both strategies take."""

    thresholds: Percentages = {}
    number_of_nodes: int = 0
    evictable_namespaces: Namespaces | None = None

    def check(self, at: FieldPath) -> None:
        """Thresholds are percentages; of namespaces only some can be left out."""
        check_percentages(self.thresholds, at.inside("thresholds"))
        at.inside("numberOfNodes").at_least(self.number_of_nodes, 0)
        if self.evictable_namespaces is not None:
            include = self.evictable_namespaces.include
            spot = at.inside("evictableNamespaces", "include")
            spot.need(not include, include, "nothing: only exclude is known here")

    def excludes(self, pod: Pod) -> bool:
        """Whether a pod's namespace is left out."""
        namespaces = self.evictable_namespaces
        return namespaces is not None and pod.metadata.namespace in namespaces.exclude


class LowNodeUtilizationArgs(NodeUtilizationArgs, frozen=True):
    """Below what a node is underutilized and above what overutilized, in percent."""

    use_deviation_thresholds: bool = False
    target_thresholds: Percentages = {}
    eviction_limits: EvictionLimit | None = None
    metrics_utilization: dict[str, Any] | None = None

    def check(self, at: FieldPath) -> None:
        """Both maps name the same resources, the lower percentage in the first."""
        super().check(at)
        spot = at.inside("targetThresholds")
        check_percentages(self.target_thresholds, spot)
        names, targets = sorted(self.thresholds), sorted(self.target_thresholds)
        spot.need(names == targets, targets, f"the resources of thresholds, which are {names}")
        for name, low in self.thresholds.items():
            high = self.target_thresholds[name]
            ordered = self.use_deviation_thresholds or low <= high
            expected = f"at most the {high:g} of targetThresholds"
            at.inside("thresholds", f'"{name}"').need(ordered, low, expected)
        if self.metrics_utilization is not None:
            expected = "none: utilization is that of requests; LowNodeLoad goes by measured usage"
            field = at.inside("metricsUtilization").path
            raise KoordError(at.source, field, "a value", expected, Code.UNSUPPORTED)


class HighNodeUtilizationArgs(NodeUtilizationArgs, frozen=True):
    """Below what a node is to be emptied, in percent."""

    eviction_modes: list[str] = []

    def check(self, at: FieldPath) -> None:
        """Modes are known."""
        super().check(at)
        check_words(self.eviction_modes, (ONLY_THRESHOLDING,), at.inside("evictionModes"))


@dataclass
class RequestedUsage:
    """What is requested of a node.

    Attributes:
        usage: requests of the pods on it, by resource; CPU in milli, pods counted.
        capacity: what it offers, in the same units.
        most: what it should not exceed, in the same units.
    """

    node: Node
    usage: dict[str, int]
    capacity: Mapping[str, int]
    most: dict[str, int]

    def percent(self, resource: str) -> float:
        """Share of the capacity that is requested; 0 of what the node does not have."""
        capacity = self.capacity.get(resource, 0)
        return self.usage.get(resource, 0) / capacity * 100 if capacity else 0.0

    def exceeds(self) -> bool:
        """Whether any resource is above what it should not exceed."""
        return any(self.usage.get(name, 0) > most for name, most in self.most.items())

    def total(self) -> int:
        """The sum by which nodes are put in order: of milli CPU, bytes and whatever else."""
        return sum(self.usage.values())


class _NodeUtilization(DeschedulerPlugin):
    """What both strategies do with nodes that give and nodes that take."""

    args: NodeUtilizationArgs

    def _usages(self, nodes: Sequence[Node]) -> list[RequestedUsage]:
        names = {*self.args.thresholds, *_ALWAYS}
        return [self._usage(node, names) for node in nodes]

    def _usage(self, node: Node, names: Collection[str]) -> RequestedUsage:
        usage = dict.fromkeys(sorted(names), 0)
        for pod in self.handle.snapshot.pods_on(node.metadata.name):
            for resource, amount in requests.requested(pod).items():
                if resource in usage:
                    usage[resource] += amount
        return RequestedUsage(node, usage, offered(node), {})

    async def _empty(
        self,
        sources: Sequence[RequestedUsage],
        targets: Sequence[RequestedUsage],
        removable: Callable[[Pod], bool],
        goes_on: Callable[[RequestedUsage], bool],
        limit: int | None = None,
    ) -> None:
        """Evicts from each source in order, as long as the targets have something of everything."""
        available = _available(targets)
        for source in sources:
            name = source.node.metadata.name
            pods = by_priority(pod for pod in self.handle.snapshot.pods_on(name) if removable(pod))
            evicted = 0
            for pod in pods:
                exhausted = any(left <= 0 for left in available.values())
                if exhausted or not goes_on(source) or (limit is not None and evicted >= limit):
                    break
                if self._may_move(pod, targets) and await self.handle.evictor.evict(pod):
                    evicted += 1
                    _subtract(pod, source.usage, available)

    def _may_move(self, pod: Pod, targets: Sequence[RequestedUsage]) -> bool:
        return (
            any(_tolerates_all(pod, target.node) for target in targets)
            and not self.args.excludes(pod)
            and self.handle.evictor.pre_eviction_filter(pod)
        )


class LowNodeUtilization(_NodeUtilization):
    """From nodes above the target thresholds to those below the thresholds."""

    name = "LowNodeUtilization"
    args_type = LowNodeUtilizationArgs
    args: LowNodeUtilizationArgs

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evicts until no source exceeds its target, or the targets are full."""
        usages = self._usages(nodes)
        low, high = self._thresholds(usages)
        under = [usage for usage in usages if _is_under(usage, low, schedulable=True)]
        over = [
            usage
            for usage in usages
            if usage not in under and any(usage.percent(name) > high[name] for name in high)
        ]
        if not under or not over or len(under) <= self.args.number_of_nodes:
            return
        if len(under) == len(usages):
            return
        for usage in (*under, *over):
            usage.most = _most(usage, high)
        over.sort(key=lambda usage: (-usage.total(), usage.node.metadata.name))
        limits = self.args.eviction_limits
        await self._empty(
            over,
            under,
            self.handle.evictor.filter,
            RequestedUsage.exceeds,
            limits.node if limits is not None else None,
        )

    def _thresholds(self, usages: Sequence[RequestedUsage]) -> tuple[Percentages, Percentages]:
        low, high = self.args.thresholds, self.args.target_thresholds
        if not self.args.use_deviation_thresholds:
            return low, high
        averages = {
            name: sum(usage.percent(name) for usage in usages) / len(usages) for name in low
        }
        return (
            {name: _clamp(averages[name] - value) for name, value in low.items()},
            {name: _clamp(averages[name] + value) for name, value in high.items()},
        )


class HighNodeUtilization(_NodeUtilization):
    """From nodes below the thresholds to all others, so that the former become empty."""

    name = "HighNodeUtilization"
    args_type = HighNodeUtilizationArgs
    args: HighNodeUtilizationArgs

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evicts all that may go, until the targets are full."""
        usages = self._usages(nodes)
        thresholds = self.args.thresholds
        under = [usage for usage in usages if _is_under(usage, thresholds, schedulable=False)]
        targets = [
            usage for usage in usages if usage not in under and not usage.node.spec.unschedulable
        ]
        if not under or not targets or len(under) <= self.args.number_of_nodes:
            return
        if len(under) == len(usages):
            return
        for usage in targets:
            usage.most = _most(usage, dict.fromkeys(thresholds, 100.0))
        under.sort(key=lambda usage: (usage.total(), usage.node.metadata.name))
        await self._empty(under, targets, self._is_removable, lambda usage: True)

    def _is_removable(self, pod: Pod) -> bool:
        only = ONLY_THRESHOLDING in self.args.eviction_modes
        if only and not _asks_for(pod, self.args.thresholds):
            return False
        return self.handle.evictor.filter(pod)


def check_percentages(thresholds: Percentages, at: FieldPath) -> None:
    """Refuses an empty map, and what is no percentage."""
    at.need(bool(thresholds), {}, "a percentage for one resource at least")
    for name, value in thresholds.items():
        at.inside(f'"{name}"').need(0 <= value <= 100, value, "a number from 0 to 100")


def offered(node: Node) -> Mapping[str, int]:
    """Allocatable, or capacity where a node says nothing of that."""
    if node.status.allocatable:
        return requests.offered(node)
    status = msgspec.structs.replace(node.status, allocatable=node.status.capacity)
    return requests.offered(msgspec.structs.replace(node, status=status))


def _is_under(usage: RequestedUsage, thresholds: Percentages, *, schedulable: bool) -> bool:
    if schedulable and usage.node.spec.unschedulable:
        return False
    return all(usage.percent(name) <= value for name, value in thresholds.items())


def _most(usage: RequestedUsage, percentages: Percentages) -> dict[str, int]:
    """By resource what a node may hold: of its thresholds their share, of the others all."""
    return {
        name: int(percentages[name] * 0.01 * usage.capacity.get(name, 0))
        if name in percentages
        else usage.capacity.get(name, 0)
        for name in usage.usage
    }


def _available(targets: Sequence[RequestedUsage]) -> dict[str, int]:
    available: dict[str, int] = {}
    for target in targets:
        for name, most in target.most.items():
            available[name] = available.get(name, 0) + most - target.usage[name]
    return available


def _subtract(pod: Pod, *amounts: dict[str, int]) -> None:
    asked = requests.requested(pod)
    for amount in amounts:
        for name in amount:
            amount[name] -= asked.get(name, 0)


def _tolerates_all(pod: Pod, node: Node) -> bool:
    """Whether every taint of the node is tolerated, whatever its effect.

    With fewer tolerations than taints the answer is no, even if one covers several.
    """
    tolerations, taints = pod.spec.tolerations, node.spec.taints
    return len(tolerations) >= len(taints) and all(tolerates(tolerations, t) for t in taints)


def _asks_for(pod: Pod, resources: Collection[str]) -> bool:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return any(not set(c.resources.requests).isdisjoint(resources) for c in containers)


def _clamp(percent: float) -> float:
    return min(max(percent, 0.0), 100.0)
