# SPDX-License-Identifier: Apache-2.0
"""The Prometheus series of strategies, under the original's names and with its labels.

Rule: docs/reference/reports.md#prometheus-series. ``koordlet_pod_eviction`` is a gauge that only
grows, since the text format would give a counter the suffix ``_total``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.agent.states.pod_state import ContainerState, PodState
    from koord.base.metrics import MetricRegistry

_CONTAINER = ("node", "pod_namespace", "pod_name", "container_id", "container_name")


class StrategyMetrics:
    """Where strategies note figures.

    Args:
        registry: of the agent.
        node: the label that every series carries.
    """

    def __init__(self, registry: MetricRegistry, node: str) -> None:
        self._node = node
        gauge = registry.gauge
        self._suppressed = gauge(
            "koordlet_be_suppress_cpu_cores", "CPU left to best-effort pods.", ("node", "type")
        )
        self._ls_used = gauge(
            "koordlet_be_suppress_ls_used_cpu_cores", "CPU that services use.", ("node",)
        )
        self._be_used = gauge(
            "koordlet_be_suppress_be_used_cpu_cores", "CPU that best-effort pods use.", ("node",)
        )
        self._burst = gauge(
            "koordlet_container_scaled_cfs_burst_us", "Burst that was set.", _CONTAINER
        )
        self._quota = gauge(
            "koordlet_container_scaled_cfs_quota_us", "Quota that was raised to.", _CONTAINER
        )
        self._evicted = gauge("koordlet_pod_eviction", "Evictions begun.", ("node", "reason"))
        self._evicted_pod = gauge(
            "koordlet_pod_eviction_detail",
            "Evictions begun, by pod.",
            ("node", "pod_namespace", "pod_name", "reason"),
        )
        self._failed = registry.counter(
            "koord_koordlet_strategy_failures", "Rounds given up.", ("node", "strategy", "code")
        )

    def suppressed(self, policy: str, cores: float) -> None:
        """CPU that is left to best-effort pods under a policy."""
        self._suppressed.labels(self._node, policy).set(cores)

    def used(self, ls_cores: float, be_cores: float) -> None:
        """CPU in use by services and by best-effort pods."""
        self._ls_used.labels(self._node).set(ls_cores)
        self._be_used.labels(self._node).set(be_cores)

    def forget_bursts(self) -> None:
        """Drops the bursts of all containers."""
        self._burst.clear()

    def forget_quotas(self) -> None:
        """Drops the raised quotas of all containers."""
        self._quota.clear()

    def burst(self, pod: PodState, container: ContainerState, burst_us: int) -> None:
        """The burst that a container's file says."""
        self._burst.labels(*self._labels(pod, container)).set(burst_us)

    def quota(self, pod: PodState, container: ContainerState, quota_us: int) -> None:
        """The raised quota of a container."""
        self._quota.labels(*self._labels(pod, container)).set(quota_us)

    def evicted(self, pod: PodState, reason: str) -> None:
        """An eviction was begun."""
        meta = pod.pod.metadata
        self._evicted.labels(self._node, reason).inc()
        self._evicted_pod.labels(self._node, meta.namespace, meta.name, reason).inc()

    def forget_evicted(self, pod: PodState, reason: str) -> None:
        """Drops the series of one pod, so that they do not pile up."""
        meta = pod.pod.metadata
        self._evicted_pod.remove(self._node, meta.namespace, meta.name, reason)

    def failed(self, strategy: str, code: str) -> None:
        """A strategy gave a round up."""
        self._failed.labels(self._node, strategy, code).inc()

    def _labels(self, pod: PodState, container: ContainerState) -> tuple[str, ...]:
        meta = pod.pod.metadata
        return self._node, meta.namespace, meta.name, container.id, container.name
