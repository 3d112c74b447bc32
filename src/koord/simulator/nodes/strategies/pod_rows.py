# SPDX-License-Identifier: Apache-2.0
"""The running pods of all machines as strategies see them: columns, a row a pod.

What follows from one pod is worked out once, when the pod changes, by the agent's own functions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.states.pod_state import PodState
from koord.agent.strategies import pod_resources
from koord.agent.strategies.cpuburst.burst_containers import NOT_BURSTABLE, PINNED
from koord.agent.strategies.cpusuppress.usage_columns import is_best_effort
from koord.agent.strategies.eviction import victims
from koord.agent.strategies.pod_overlay import lenient
from koord.api.protocol.agent import cpu_burst
from koord.api.protocol.eviction import allows_eviction_by, eviction_enabled
from koord.api.protocol.priority import PriorityClass, class_with_default, priority_with_default
from koord.api.protocol.qos import QoSClass, kubernetes_qos, qos_with_default, raw_qos
from koord.api.protocol.resources import CPU, MEMORY
from koord.api.requests import effective
from koord.kernels.cgroup_path import KubeQos
from koord.simulator.nodes.strategies.column_table import ColumnTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.slo_strategies import CPUBurstStrategy
    from koord.simulator.nodes.strategies.column_table import Ints

FEATURES = (
    "BECPUEvict",
    "CPUAllocatableEvict",
    "CPUEvict",
    "BEMemoryEvict",
    "MemoryAllocatableEvict",
    "MemoryEvict",
)
"""What evicts; a bit of :attr:`PodRow.allowed` each, in this order."""
NATIVE, MID, BATCH = range(3)
"""Under which of three names a pod's class asks for CPU and memory."""


class PodRow(NamedTuple):
    """A pod in whole numbers: milli-cores, bytes, 1 for yes.

    Attributes:
        spared: does not count as a service.
        labelled: has the label of BE.
        tier: lies in the cgroup that suppression limits.
        pinned: has CPUs of its own.
        limit_milli: the CPU limit that may be raised; 0 for none.
        request_milli: effective native CPU request.
        asks: :data:`NATIVE`, :data:`MID` or :data:`BATCH`.
        cpu, memory: what it asks under that name.
        agreed: lets itself be evicted by usage and requests.
        allowed: by which of :data:`FEATURES`.
    """

    spared: int
    labelled: int
    tier: int
    pinned: int
    limit_milli: int
    request_milli: int
    batch_milli: int
    asks: int
    cpu: int
    memory: int
    priority: int
    own_priority: int
    eviction_priority: int
    label_priority: int
    agreed: int
    allowed: int


class StrategyPod(NamedTuple):
    """A pod, what follows from it, and its own settings of bursts."""

    state: PodState
    row: PodRow
    burst: CPUBurstStrategy | None


_ASKS = {PriorityClass.MID: MID, PriorityClass.BATCH: BATCH}


def pod_view(pod: Pod) -> PodState:
    """A pod as the agent sees it, but for directories and containers, which no machine here has."""
    return PodState(
        pod=pod,
        qos=raw_qos(pod.metadata.labels),
        qos_default=qos_with_default(pod),
        kube_qos=KubeQos(kubernetes_qos(pod)),
        priority_class=class_with_default(pod),
        priority=priority_with_default(pod),
        directory="",
        containers=(),
    )


def strategy_pod(pod: Pod) -> StrategyPod:
    """A pod with its row of numbers; also what the agent's strategies keep of it."""
    state = pod_view(pod)
    allowed = sum(allows_eviction_by(pod, name) << at for at, name in enumerate(FEATURES))
    row = PodRow(
        spared=is_best_effort(state),
        labelled=state.qos is QoSClass.BE,
        tier=state.kube_qos is KubeQos.BEST_EFFORT,
        pinned=state.qos in PINNED,
        limit_milli=0 if state.qos in NOT_BURSTABLE else _limit_milli(pod),
        request_milli=effective(pod).get(CPU, 0),
        batch_milli=pod_resources.batch_cpu_milli(pod),
        asks=_ASKS.get(state.priority_class, NATIVE),
        cpu=pod_resources.own_request(state, CPU)[1],
        memory=pod_resources.own_request(state, MEMORY)[1],
        priority=state.priority,
        own_priority=victims.own_priority(state),
        eviction_priority=victims.annotated_priority(state),
        label_priority=victims.label_priority(state),
        agreed=eviction_enabled(pod),
        allowed=allowed,
    )
    return StrategyPod(state, row, lenient(cpu_burst, pod))


class StrategyPods:
    """All running pods.

    Args:
        pods: in the order of the rows.
        node: row of the machine, a pod a row.
    """

    def __init__(self, pods: Sequence[StrategyPod], node: Sequence[int]) -> None:
        self.pods = pods
        self.node = np.array(node, np.int64)
        self.columns = ColumnTable(PodRow._fields, [each.row for each in pods])
        self.row: Mapping[str, int] = {each.state.uid: at for at, each in enumerate(pods)}

    def __len__(self) -> int:
        return len(self.pods)

    def rows_before(self, other: StrategyPods) -> Ints:
        """Where each pod was in another table; -1 where it was not."""
        known = other.row
        rows = (known.get(uid, -1) for uid in self.row)
        return np.fromiter(rows, np.int64, len(self))


def _limit_milli(pod: Pod) -> int:
    """The CPU limit of a pod as one container: none unless each of its containers has one."""
    limits = [pod_resources.cpu_limit_milli(each) for each in pod.spec.containers]
    return sum(limits) if all(limits) else 0
