# SPDX-License-Identifier: Apache-2.0
"""The containers that burst is for, and the state of the shared CPUs, from a tick."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import astuple

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.states.pod_state import ContainerKind
from koord.agent.strategies import one_node, pod_resources, readings
from koord.agent.strategies.cpuburst import decision
from koord.agent.strategies.pod_overlay import lenient, overlaid
from koord.api import requests
from koord.api.protocol.agent import cpu_burst
from koord.api.protocol.qos import QoSClass
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.agent.states.pod_state import ContainerState, PodState
    from koord.agent.strategies.strategy import Tick
    from koord.api.kinds.slo_strategies import CPUBurstStrategy

    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

NOT_BURSTABLE = (QoSClass.LSE, QoSClass.LSR, QoSClass.BE)
PINNED = (QoSClass.LSE, QoSClass.LSR)
_BURSTS = ("cpuBurstOnly", "auto")
RAISES = ("cfsQuotaBurstOnly", "auto")
_WINDOW_MAX_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class BurstContainer:
    """A container with an id, and the settings of its pod."""

    pod: PodState
    container: ContainerState
    config: CPUBurstStrategy
    limit_milli: int

    @property
    def bursts(self) -> bool:
        """Whether the kernel's burst allowance is on."""
        return self.config.policy in _BURSTS

    @property
    def raises(self) -> bool:
        """Whether the quota may be raised."""
        return self.config.policy in RAISES


@dataclass(frozen=True, slots=True, eq=False)
class BurstColumns:
    """What follows from the pods and the settings alone; the same object while they are the same.

    Columns have a row a member, those that begin with ``pod_`` a row a pod of the snapshot.

    Attributes:
        pods: of the snapshot.
        settings: of the node, by value.
        members: containers that burst is for.
        rows: of each pod's members, by UID; pods that have none are left out.
        directories: of the members; then of the pods in ``rows``, in their order.
        limited: running, with a CPU limit; the others' quotas are left alone.
        limit_milli, percent: CPU limit, and how far it may be exceeded.
        quota_milli: a row of ``directories`` each: the CPU limit that the kubelet makes a quota
            of, 0 for none.
        raises: whether the quota may be raised.
        bursts: the kernel's burst allowance in microseconds, as it is wanted.
        pod_rows: what was measured of all pods.
        pod_request_milli, pod_pinned, pod_be: what the shared CPUs are worked out from.
    """

    pods: tuple[PodState, ...]
    settings: tuple[object, ...]
    members: list[BurstContainer]
    rows: dict[str, list[int]]
    directories: list[str]
    limited: Bools
    limit_milli: Ints
    percent: Ints
    quota_milli: list[int]
    raises: Bools
    bursts: Ints
    pod_rows: readings.AlignedRows
    pod_request_milli: Ints
    pod_pinned: Bools
    pod_be: Bools


def burst_columns(
    tick: Tick, config: CPUBurstStrategy, before: BurstColumns | None = None
) -> BurstColumns:
    """The roster of this round: that of the round before if nothing changed."""
    pods, settings = tick.snapshot.pods.value, astuple(config)
    if before is not None and before.pods is pods and before.settings == settings:
        return before
    found = members(pods, config)
    rows: dict[str, list[int]] = {}
    for at, member in enumerate(found):
        rows.setdefault(member.pod.uid, []).append(at)
    limit_milli = np.array([member.limit_milli for member in found], np.int64)
    return BurstColumns(
        pods=pods,
        settings=settings,
        members=found,
        rows=rows,
        directories=[
            *(member.container.directory for member in found),
            *(found[places[0]].pod.directory for places in rows.values()),
        ],
        limited=np.array([m.container.running and m.limit_milli > 0 for m in found], np.bool_),
        limit_milli=limit_milli,
        percent=np.array([m.config.cfs_quota_burst_percent or 0 for m in found], np.int64),
        quota_milli=[
            *(member.limit_milli for member in found),
            *(pod_resources.kubelet_quota_milli(found[p[0]].pod.pod) or 0 for p in rows.values()),
        ],
        raises=np.array([member.raises for member in found], np.bool_),
        bursts=decision.bursts(
            limit_milli,
            np.array([member.config.cpu_burst_percent or 0 for member in found], np.int64),
            np.array([member.bursts for member in found], np.bool_),
        ),
        pod_rows=readings.AlignedRows([pod.uid for pod in pods]),
        pod_request_milli=np.array(
            [requests.effective(pod.pod).get("cpu", 0) for pod in pods], np.int64
        ),
        pod_pinned=np.array([pod.qos in PINNED for pod in pods], np.bool_),
        pod_be=np.array([pod.qos is QoSClass.BE for pod in pods], np.bool_),
    )


def members(pods: Sequence[PodState], config: CPUBurstStrategy) -> list[BurstContainer]:
    """Containers of the pod's own list that have an id, of pods that may burst, in their order."""
    return [
        BurstContainer(pod, container, own, pod_resources.cpu_limit_milli(container.spec))
        for pod in pods
        if pod.active and pod.qos not in NOT_BURSTABLE
        for own in (pod_config(pod, config),)
        for container in pod.containers
        if container.kind is ContainerKind.REGULAR and container.id and container.spec
    ]


def pod_config(pod: PodState, config: CPUBurstStrategy) -> CPUBurstStrategy:
    """The node's settings overlaid by the pod's; a malformed annotation counts as absent."""
    own = lenient(cpu_burst, pod.pod)
    return config if own is None else overlaid(config, own)


def node_state(
    tick: Tick, config: CPUBurstStrategy, who: BurstColumns, interval_seconds: float
) -> decision.CPUPoolState:
    """How busy the shared CPUs are, over the last few rounds."""
    seconds = min(5 * interval_seconds, _WINDOW_MAX_SECONDS)
    usage = readings.over(tick, MetricKind.POD_CPU_USAGE, seconds)
    try:
        node = readings.node_average(tick, MetricKind.NODE_CPU_USAGE, seconds)
    except KoordError:
        node = math.nan
    ratio = decision.pool_ratios(
        one_node.float_row(node),
        one_node.row(len(tick.machine.topology.online)),
        one_node.node_rows(len(who.pod_be)),
        who.pod_rows.of(usage.labels, usage.avg),
        who.pod_request_milli,
        who.pod_pinned,
        who.pod_be,
    )
    threshold = config.share_pool_threshold_percent
    if threshold is None:
        return decision.CPUPoolState.UNKNOWN
    states = decision.node_states(ratio, one_node.row(threshold))
    return decision.CPUPoolState(int(states[0]))
