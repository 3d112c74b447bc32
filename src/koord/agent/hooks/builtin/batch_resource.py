# SPDX-License-Identifier: Apache-2.0
"""BatchResource: limits of BE pods from the batch resources they ask for.

Rule: docs/reference/hooks.md#batchresource.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from koord.agent.executor.target import QUOTA
from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import (
    ContainerContext,
    ExtendedResources,
    HookResponse,
    HookStage,
    PodContext,
)
from koord.agent.states.snapshot import Snapshot, SnapshotPart
from koord.api.protocol.nodes import NO_RATIO, cpu_normalization_ratio
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY
from koord.api.requests import amount
from koord.kernels.cgroup_parse import milli_cpu_to_quota_us, milli_cpu_to_shares

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.agent.hooks.options import HookOptions
    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.nodeslo import NodeSLOSpec

SHARES, MEMORY = "cpu.shares", "memory.limit_in_bytes"
RATIO_STEP = 0.01
_NO_LIMIT = -1


@dataclass(frozen=True)
class BatchResourceRule:
    """What of the node counts.

    Attributes:
        quota_off: suppression limits the quota of all BE pods together, so pods have none.
        ratio: how fast the CPUs are; -1 without normalization.
    """

    quota_off: bool = False
    ratio: float = NO_RATIO


def quota_off(slo: NodeSLOSpec | None) -> bool:
    """Whether BE pods are suppressed by quota."""
    threshold = slo.resource_used_threshold_with_be if slo else None
    return bool(threshold and threshold.enable and threshold.cpu_suppress_policy == "cfsQuota")


def ratio_moved(before: float, after: float) -> bool:
    """Whether a ratio is another: switched on or off, or at least 0.01 away."""
    switched = (before == NO_RATIO) != (after == NO_RATIO)
    return switched or abs(after - before) >= RATIO_STEP


def pod_values(rows: Iterable[ExtendedResources], rule: BatchResourceRule) -> dict[str, str | int]:
    """Shares, quota and memory limit of a pod, the quota before normalization.

    Args:
        rows: its containers.
        rule: of the node.
    """
    containers = list(rows)
    requests = sum(max(_of(row.requests, BATCH_CPU), 0) for row in containers)
    return {
        SHARES: milli_cpu_to_shares(requests),
        QUOTA: _quota(_limit(containers, BATCH_CPU), rule),
        MEMORY: _limit(containers, BATCH_MEMORY),
    }


def container_values(row: ExtendedResources, rule: BatchResourceRule) -> dict[str, str | int]:
    """The same of one container."""
    memory = _of(row.limits, BATCH_MEMORY)
    return {
        SHARES: milli_cpu_to_shares(_of(row.requests, BATCH_CPU)),
        QUOTA: _quota(_of(row.limits, BATCH_CPU), rule),
        MEMORY: memory if memory > 0 else _NO_LIMIT,
    }


def _of(amounts: ResourceList, name: str) -> int:
    return amount(name, amounts[name]) if name in amounts else 0


def _limit(rows: list[ExtendedResources], name: str) -> int:
    limits = [_of(row.limits, name) for row in rows]
    return _NO_LIMIT if any(limit <= 0 for limit in limits) else sum(limits)


def _quota(limit_milli: int, rule: BatchResourceRule) -> int:
    return _NO_LIMIT if rule.quota_off else milli_cpu_to_quota_us(limit_milli)


class BatchResource(BaseHook):
    """Answers CPU shares, CPU quota and memory limit of pods and containers on batch resources."""

    name = "BatchResource"
    gate = "BatchResource"
    stages = frozenset(
        {
            HookStage.PRE_RUN_POD_SANDBOX,
            HookStage.PRE_CREATE_CONTAINER,
            HookStage.PRE_UPDATE_CONTAINER_RESOURCES,
        }
    )
    follows = SnapshotPart.SLO | SnapshotPart.NODE

    def __init__(self, options: HookOptions) -> None:
        self._rule = BatchResourceRule()

    def learn(self, snapshot: Snapshot) -> bool:
        """From the NodeSLO and the Node; a malformed ratio leaves the last good one."""
        before, node = self._rule, snapshot.node.value
        # First: what the NodeSLO says holds whatever the Node says.
        self._rule = replace(before, quota_off=quota_off(snapshot.slo.value))
        ratio = cpu_normalization_ratio(node) if node else NO_RATIO
        if ratio_moved(before.ratio, ratio):
            self._rule = replace(self._rule, ratio=ratio)
        return self._rule != before

    def pod(self, context: PodContext) -> HookResponse | None:
        """Limits of the whole pod."""
        if context.qos is not QoSClass.BE or context.extended is None:
            return None
        return self._answer(pod_values(context.extended.values(), self._rule))

    def container(self, context: ContainerContext) -> HookResponse | None:
        """Limits of one that asks for batch resources."""
        pod = context.pod
        if pod.qos is not QoSClass.BE or pod.extended is None or context.name not in pod.extended:
            return None
        return self._answer(container_values(pod.extended[context.name], self._rule))

    def _answer(self, values: dict[str, str | int]) -> HookResponse:
        ratio = self._rule.ratio if self._rule.ratio != NO_RATIO else None
        return HookResponse(values, quota_ratio=ratio, reason="batch resources")
