# SPDX-License-Identifier: Apache-2.0
"""The Prometheus series of what is measured, made when they are asked for.

Nothing is kept up to date between two scrapes: each one clears the gauges and fills them from the
metric cache and the snapshot, so that series of pods, containers and host applications that are
gone vanish, and there are never more than what lives on the node.

Rule: docs/reference/reports.md#prometheus-series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.metrics.exports_hooks import HookExports
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.prometheus.pod_exporter import LastValues, PodExporter
from koord.agent.metrics.prometheus.report_exporter import ReportExporter
from koord.agent.metrics.reader import Window
from koord.api.protocol.topology import shared_pools
from koord.base.errors import KoordError
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.metrics.collection_loop import CollectorState
    from koord.agent.metrics.exports_hooks import WrittenValues
    from koord.agent.metrics.options import MetricsOptions
    from koord.agent.metrics.reader import MetricReader
    from koord.agent.states.snapshot import Snapshot
    from koord.api.kinds.nodemetric import NodeMetricStatus
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.base.metrics import Metric, MetricRegistry

_ROUNDS = {
    "cpu-info": "koordlet_collect_node_cpu_info_status",
    "numa-info": "koordlet_collect_node_numa_info_status",
    "storage": "koordlet_collect_node_local_storage_info_status",
}
_POOLS = {
    False: ("koordlet_cpuset_share_pool_cpu_cores", "koordlet_cpuset_share_pool_info"),
    True: ("koordlet_cpuset_be_share_pool_cpu_cores", "koordlet_cpuset_be_share_pool_info"),
}
_APPLICATION = ("host_application_name", "resource", "priority_class", "qos")


class AgentExporter:
    """Gauges over what is measured.

    Args:
        registry: of the agent.
        node: the label that every series carries.
        per_cpu: whether each CPU of the shared pools is told (gate PerCPUMetric).
        reported: whether the reported usage is told (gate NodeMetricPromMetrics).
    """

    def __init__(
        self, registry: MetricRegistry, node: str, *, per_cpu: bool = False, reported: bool = False
    ) -> None:
        self._node = node
        self._gauges: list[Metric] = []

        def gauge(name: str, doc: str, labels: tuple[str, ...] = ()) -> Metric:
            made = registry.gauge(name, doc, ("node", *labels))
            self._gauges.append(made)
            return made

        # Gauges that only grow: the text format would give counters the suffix _total.
        self._rounds = {
            collector: gauge(name, f"Rounds of the collector {collector}, by status.", ("status",))
            for collector, name in _ROUNDS.items()
        }
        self._cpu = gauge("koordlet_node_used_cpu_cores", "CPU that the node uses.")
        self._memory = gauge("koordlet_node_used_memory_bytes", "Memory that the node uses.")
        self._cache = gauge(
            "koordlet_resctrl_llc_occupancy", "Bytes in the cache, by class.", ("qos", "cache_id")
        )
        self._bandwidth = gauge(
            "koordlet_resctrl_memory_bandwidth", "Bytes a second to and from memory, by class.",
            ("qos", "cache_id", "mb_type"),
        )  # fmt: skip
        self._applications = gauge(
            "koordlet_host_application_resource_usage", "Use by host applications.", _APPLICATION
        )
        self._pools = {
            be: gauge(names[0], "CPUs of the shared pools.") for be, names in _POOLS.items()
        }
        self._pool_cpus = {
            be: gauge(names[1], "1 for a CPU of the shared pools.", ("cpu",))
            for be, names in (_POOLS.items() if per_cpu else ())
        }
        self._pods = PodExporter(gauge, node)
        self._hooks = HookExports(gauge, node)
        self._report = ReportExporter(gauge, node, usage=reported)

    def refresh(
        self,
        collector_states: Mapping[str, CollectorState],
        cache: MetricReader,
        snapshot: Snapshot,
        settings: MetricsOptions,
        now_ms: int,
        reported: NodeMetricStatus | None = None,
        executor: WrittenValues | None = None,
    ) -> None:
        """Everything anew.

        Args:
            collector_states: how collectors do, by name.
            cache: what was measured.
            snapshot: what the cluster says.
            settings: the intervals: a value older than two of them is none.
            now_ms: wall time.
            reported: the newest report.
            executor: who sets what hooks ask for.
        """
        for each in self._gauges:
            each.clear()

        def last(kind: MetricKind) -> dict[tuple[str, ...], float]:
            since = now_ms - round(2000 * settings.interval_seconds(kind))
            rows = cache.read(kind, Window(since, now_ms))
            return dict(zip(rows.labels, rows.last.tolist(), strict=True))

        self._refresh_rounds(collector_states)
        self._refresh_node(last)
        self._refresh_applications(last, snapshot)
        self._refresh_pools(snapshot.topology.value)
        self._pods.refresh(last, snapshot)
        self._report.refresh(reported)
        if executor is not None:
            self._hooks.refresh(executor, snapshot)

    def _refresh_rounds(self, collector_states: Mapping[str, CollectorState]) -> None:
        for name, gauge in self._rounds.items():
            standing = collector_states.get(name)
            if standing is not None:
                gauge.labels(self._node, "succeeded").set(standing.good_rounds)
                gauge.labels(self._node, "failed").set(standing.failed_rounds)

    def _refresh_node(self, last: LastValues) -> None:
        for gauge, kind in (
            (self._cpu, MetricKind.NODE_CPU_USAGE),
            (self._memory, MetricKind.NODE_MEMORY_USAGE),
            (self._cache, MetricKind.RESCTRL_LLC),
            (self._bandwidth, MetricKind.RESCTRL_MB),
        ):
            for labels, value in last(kind).items():
                gauge.labels(self._node, *labels).set(value)

    def _refresh_applications(self, last: LastValues, snapshot: Snapshot) -> None:
        slo = snapshot.slo.value
        known = {each.name: each for each in slo.host_applications} if slo else {}
        for resource, kind in (
            ("cpu", MetricKind.HOST_APPLICATION_CPU_USAGE),
            ("memory", MetricKind.HOST_APPLICATION_MEMORY_USAGE),
        ):
            for (name,), value in last(kind).items():
                if application := known.get(name):
                    labels = (name, resource, application.priority, application.qos)
                    self._applications.labels(self._node, *labels).set(value)

    def _refresh_pools(self, topology: NodeResourceTopology | None) -> None:
        if topology is None:
            return
        for best_effort, gauge in self._pools.items():
            cpus = _pool(topology, best_effort)
            gauge.labels(self._node).set(len(cpus))
            for cpu in cpus if best_effort in self._pool_cpus else ():
                self._pool_cpus[best_effort].labels(self._node, str(cpu)).set(1)


def _pool(topology: NodeResourceTopology, best_effort: bool) -> list[int]:
    """CPUs of all pools of a sort; none where the annotation is malformed."""
    found: set[int] = set()
    try:
        for pool in shared_pools(topology, be=best_effort):
            found.update(CPUSet.parse_wire(pool.cpuset))
    except (KoordError, ValueError):
        return []
    return sorted(found)
