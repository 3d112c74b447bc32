# SPDX-License-Identifier: Apache-2.0
"""The NodeMetric status: windows over what was measured.

Rule: docs/reference/reports.md#fields-of-the-status.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.reader import Window
from koord.agent.report.class_summaries import add_summaries
from koord.agent.report.memory_kinds import memory_kinds
from koord.agent.report.resource_maps import pairs, resources
from koord.api.duration import Duration
from koord.api.kinds.device import DeviceInfo
from koord.api.kinds.nodemetric import (
    AggregatedUsage,
    HostApplicationMetricInfo,
    NodeMetricInfo,
    NodeMetricStatus,
    NUMAUsage,
    PodMetricInfo,
    Prediction,
    ResourceMap,
)
from koord.api.protocol.resources import CPU, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord.kernels.quantity import Format, Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.agent.metrics.reader import MetricReader, SeriesRows
    from koord.agent.prediction.reclaimable import Reclaimable
    from koord.agent.report.memory_kinds import MemoryKinds
    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.nodemetric import NodeMetricCollectPolicy, NodeMetricSpec
    from koord.api.kinds.slo_strategies import HostApplication

_STATISTICS = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_MILLI = 1000
_PERCENT = 100


@dataclass(frozen=True)
class NodeMetricInputs:
    """What a report is made from.

    Attributes:
        spec: with its defaults.
        pods: of the node.
        applications: of the host, from the NodeSLO.
        metrics: what was measured.
        cold_pages: whether pages are told apart by how long they were not touched.
        summaries: whether the sums by class are filled in too.
        predicted: what prod pods leave; None if that could not be told.
    """

    spec: NodeMetricSpec
    pods: Sequence[PodState]
    applications: Sequence[HostApplication]
    metrics: MetricReader
    cold_pages: bool = False
    summaries: bool = False
    predicted: Reclaimable | None = None


def status(reported: NodeMetricInputs, now_ms: int) -> NodeMetricStatus | None:
    """The status; None as long as the node itself was not measured in the window."""
    policy, memory, window = _requested(reported, now_ms)
    metrics = reported.metrics
    node = _single(metrics, MetricKind.NODE_CPU_USAGE, memory.node, window)
    if node is None:
        return None
    durations = policy.node_aggregate_policy.durations if policy.node_aggregate_policy else []
    system = _single(metrics, MetricKind.SYS_CPU_USAGE, MetricKind.SYS_MEMORY_USAGE, window)
    node.devices = _node_cards(metrics, window)(None)
    whole = (MetricKind.NODE_CPU_USAGE, memory.node)
    # Of what neither pods nor applications use there is one series, whatever the policy.
    rest = (MetricKind.SYS_CPU_USAGE, MetricKind.SYS_MEMORY_USAGE)
    found = NodeMetricStatus(
        update_time=datetime.fromtimestamp(now_ms // _MILLI, UTC),
        node_metric=NodeMetricInfo(
            node_usage=node,
            system_usage=system,
            aggregated_node_usages=[
                _aggregated(metrics, *whole, d, now_ms, cards=True) for d in durations
            ],
            aggregated_system_usages=[_aggregated(metrics, *rest, d, now_ms) for d in durations],
            numa_usages=_numa(metrics, window),
        ),
        pods_metric=_pods(reported, memory.pod, window),
        host_application_metric=_applications(reported, memory.application, window),
    )
    _add_prediction(found, reported.predicted)
    if reported.summaries:
        add_summaries(found, reported.pods, metrics, memory, window)
    return found


def measured_pods(reported: NodeMetricInputs, now_ms: int) -> list[PodState]:
    """The pods that a status speaks of: those of which CPU and memory were measured."""
    _, memory, window = _requested(reported, now_ms)
    used = pairs(reported.metrics, MetricKind.POD_CPU_USAGE, memory.pod, window)
    return [pod for pod in reported.pods if pod.uid in used]


def _requested(
    reported: NodeMetricInputs, now_ms: int
) -> tuple[NodeMetricCollectPolicy, MemoryKinds, Window]:
    policy = reported.spec.metric_collect_policy
    assert policy is not None
    memory = memory_kinds(policy.node_memory_collect_policy, reported.cold_pages)
    seconds = policy.aggregate_duration_seconds or 0
    return policy, memory, Window(now_ms - seconds * _MILLI, now_ms)


def _single(
    metrics: MetricReader, cpu_kind: MetricKind, memory_kind: MetricKind, window: Window
) -> ResourceMap | None:
    cpu, memory = metrics.read(cpu_kind, window), metrics.read(memory_kind, window)
    if not cpu.labels or not memory.labels:
        return None
    return ResourceMap(resources=resources(float(cpu.avg[0]), float(memory.avg[0])))


def _aggregated(
    metrics: MetricReader,
    cpu_kind: MetricKind,
    memory_kind: MetricKind,
    duration: Duration,
    now_ms: int,
    *,
    cards: bool = False,
) -> AggregatedUsage:
    """Statistics of one window; empty ones unless samples of CPU cover half of it."""
    span_ms = duration.nanoseconds // 1_000_000
    window = Window(now_ms - span_ms, now_ms)
    shares = tuple(_STATISTICS.values())
    cpu = metrics.read(cpu_kind, window, shares)
    memory = metrics.read(memory_kind, window, shares)
    usage = {name: ResourceMap() for name in ("avg", *_STATISTICS)}
    if cpu.labels and memory.labels and 2 * (cpu.newest_ms[0] - cpu.oldest_ms[0]) >= span_ms:
        usage["avg"] = ResourceMap(resources=resources(float(cpu.avg[0]), float(memory.avg[0])))
        for at, name in enumerate(_STATISTICS):
            pair = float(cpu.percentiles[0, at]), float(memory.percentiles[0, at])
            usage[name] = ResourceMap(resources=resources(*pair))
        if cards:
            cards_at = _node_cards(metrics, window, shares)
            for at, name in enumerate(usage):
                usage[name].devices = cards_at(at - 1 if at else None)
    return AggregatedUsage(usage=usage, duration=Duration(duration.nanoseconds))


def _numa(metrics: MetricReader, window: Window) -> list[NUMAUsage]:
    """By NUMA node, in the order of their numbers; one that lacks CPU or memory is left out."""
    whole = pairs(
        metrics, MetricKind.NODE_NUMA_CPU_USAGE, MetricKind.NODE_NUMA_MEMORY_USAGE, window
    )
    rest = pairs(metrics, MetricKind.SYS_NUMA_CPU_USAGE, MetricKind.SYS_NUMA_MEMORY_USAGE, window)
    return [
        NUMAUsage(
            numa_node_id=int(zone),
            node_usage=ResourceMap(resources=resources(*whole[zone])),
            system_usage=ResourceMap(resources=resources(*rest[zone])) if zone in rest else None,
        )
        for zone in sorted(whole, key=int)
    ]


def _pods(
    reported: NodeMetricInputs, memory_kind: MetricKind, window: Window
) -> list[PodMetricInfo]:
    metrics = reported.metrics
    used = pairs(metrics, MetricKind.POD_CPU_USAGE, memory_kind, window)
    cards = _pod_devices(metrics, window)
    found = [
        PodMetricInfo(
            namespace=pod.pod.metadata.namespace,
            name=pod.pod.metadata.name,
            priority=str(pod.priority_class),
            qos=str(pod.qos_default),
            pod_usage=ResourceMap(
                resources=resources(*used[pod.uid]), devices=cards.get(pod.uid, [])
            ),
        )
        for pod in reported.pods
        if pod.uid in used
    ]
    return sorted(found, key=lambda pod: (pod.namespace, pod.name))


def _applications(
    reported: NodeMetricInputs, memory_kind: MetricKind, window: Window
) -> list[HostApplicationMetricInfo]:
    used = pairs(reported.metrics, MetricKind.HOST_APPLICATION_CPU_USAGE, memory_kind, window)
    return [
        HostApplicationMetricInfo(
            name=application.name,
            usage=ResourceMap(resources=resources(*used[application.name])),
            priority=application.priority,
            qos=application.qos,
        )
        for application in sorted(reported.applications, key=lambda each: each.name)
        if application.name in used
    ]


def _node_cards(
    metrics: MetricReader, window: Window, shares: Sequence[float] = ()
) -> Callable[[int | None], list[DeviceInfo]]:
    """The node's cards by average (None) or by the statistic at a place among the shares."""
    core = metrics.read(MetricKind.NODE_GPU_CORE_USAGE, window, shares)
    memory = metrics.read(MetricKind.NODE_GPU_MEMORY_USAGE, window, shares)
    totals = _totals(metrics, window)
    return lambda at: _cards(core, memory, totals, 0, at).get("", [])


def _pod_devices(metrics: MetricReader, window: Window) -> dict[str, list[DeviceInfo]]:
    core = metrics.read(MetricKind.POD_GPU_CORE_USAGE, window)
    memory = metrics.read(MetricKind.POD_GPU_MEMORY_USAGE, window)
    return _cards(core, memory, _totals(metrics, window), 1, None)


def _totals(metrics: MetricReader, window: Window) -> dict[tuple[str, ...], float]:
    total = metrics.read(MetricKind.NODE_GPU_MEMORY_TOTAL, window)
    return dict(zip(total.labels, total.last.tolist(), strict=True))


def _cards(
    core: SeriesRows,
    memory: SeriesRows,
    totals: dict[tuple[str, ...], float],
    labels: int,
    at: int | None,
) -> dict[str, list[DeviceInfo]]:
    """Usage of cards by who uses them; ``labels`` stand before minor and UUID."""
    percents, amounts_used = (
        rows.avg if at is None else rows.percentiles[:, at] for rows in (core, memory)
    )
    used = dict(zip(memory.labels, amounts_used.tolist(), strict=True))
    found: dict[str, list[DeviceInfo]] = defaultdict(list)
    for row, percent in zip(core.labels, percents.tolist(), strict=True):
        total = totals.get(row[labels:])
        if row not in used or not total:
            continue
        minor, uuid = row[labels:]
        amounts = {
            GPU_CORE: Quantity.from_value(int(percent)),
            GPU_MEMORY: Quantity.from_value(int(used[row]), Format.BINARY_SI),
            GPU_MEMORY_RATIO: Quantity.from_value(int(_PERCENT * used[row] / total)),
        }
        # Health is told in the Device; here it says nothing.
        card = DeviceInfo(type="gpu", id=uuid, minor=int(minor), health=False, resources=amounts)
        found["".join(row[:labels])].append(card)
    return {who: sorted(cards, key=lambda card: card.minor or 0) for who, cards in found.items()}


def _add_prediction(status: NodeMetricStatus, predicted: Reclaimable | None) -> None:
    if predicted is None:
        status.prod_reclaimable_metric = Prediction(resource=ResourceMap())
        return
    for name in ("reclaimable", "peak"):
        amount = getattr(predicted, name)
        listed = resources(amount.cpu_milli / _MILLI, amount.memory_bytes)
        listed[CPU] = Quantity.from_milli(amount.cpu_milli)
        told = Prediction(resource=ResourceMap(resources=listed))
        setattr(status, f"prod_{name}_metric", told)
