# SPDX-License-Identifier: Apache-2.0
"""The Prometheus series of pods and containers, and of what was lent to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from koord.agent.metrics.metric_kinds import MetricKind
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY, MID_CPU, MID_MEMORY

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.agent.states.pod_state import ContainerState, PodState
    from koord.agent.states.snapshot import Snapshot
    from koord.base.metrics import Metric
    from koord.kernels.quantity import Quantity

UNITS = {BATCH_CPU: "integer", BATCH_MEMORY: "byte", MID_CPU: "integer", MID_MEMORY: "byte"}
"""Resources that koord itself puts on nodes and pods, with their units."""
OWN_UNITS = {"cpu": "core", "memory": "byte"}
"""Resources that nodes have without koord, with their units."""
_POD = ("pod_uid", "pod_name", "pod_namespace")
_CONTAINER = ("container_id", "container_name", *_POD)
_PSI = ("psi_resource_type", "psi_precision", "psi_degree", "cpu_full_supported")
# In the original's words, which differ from those of its metric cache.
_CPI_FIELDS = {"cycle": "cycles", "instruction": "instructions"}


class LastValues(Protocol):
    """The newest value of each series of a kind, by its labels."""

    def __call__(self, kind: MetricKind, /) -> dict[tuple[str, ...], float]:
        """Only values that are new enough."""
        ...


class MakeGauge(Protocol):
    """Declares a gauge whose first label is the node."""

    def __call__(self, name: str, doc: str, labels: tuple[str, ...] = (), /) -> Metric:
        """The gauge."""
        ...


class PodExporter:
    """Gauges over pods and containers; whoever owns them clears them.

    Args:
        gauge: declares one.
        node: the first label's value.
    """

    def __init__(self, gauge: MakeGauge, node: str) -> None:
        self._node = node
        self._cpi = gauge(
            "koordlet_container_cpi", "Cycles and instructions of a window.",
            (*_CONTAINER, "cpi_field"),
        )  # fmt: skip
        self._container_psi = gauge(
            "koordlet_container_psi", "Percent of time stalled.", (*_CONTAINER, *_PSI)
        )
        self._pod_psi = gauge("koordlet_pod_psi", "Percent of time stalled.", (*_POD, *_PSI))
        self._allocatable = gauge(
            "koordlet_node_resource_allocatable", "What the node lends.", ("resource", "unit")
        )
        self._capacity = gauge(
            "koord_koordlet_node_capacity",
            "CPU in cores and memory in bytes that pods of the node can have.",
            ("resource", "unit"),
        )
        asked = ("resource", "unit", *_POD, "container_id", "container_name")
        self._requests = gauge(
            "koordlet_container_resource_requests", "Requests of what is lent.", asked
        )
        self._limits = gauge("koordlet_container_resource_limits", "Limits of what is lent.", asked)

    def refresh(self, last: LastValues, snapshot: Snapshot) -> None:
        """Fills them; pods that are not in the snapshot any more have no series."""
        pods = {pod.uid: pod for pod in snapshot.pods.value}
        containers = {
            container.id: (pod, container)
            for pod in pods.values()
            for container in pod.containers
            if container.id
        }
        for (_, container_id, field), value in last(MetricKind.CONTAINER_CPI).items():
            if found := containers.get(container_id):
                labels = (*_container_labels(*found), _CPI_FIELDS[field])
                self._cpi.labels(self._node, *labels).set(value)
        self._pod_pressure(last, pods)
        self._container_pressure(last, containers)
        self._resources(snapshot, containers)

    def _pod_pressure(self, last: LastValues, pods: Mapping[str, PodState]) -> None:
        full = last(MetricKind.POD_PSI_CPU_FULL_SUPPORTED)
        for (uid, *rest), value in last(MetricKind.POD_PSI).items():
            if uid in pods:
                told = _pressure_labels(rest, full.get((uid,)))
                if told:
                    self._pod_psi.labels(self._node, *_pod_labels(pods[uid]), *told).set(value)

    def _container_pressure(
        self, last: LastValues, containers: Mapping[str, tuple[PodState, ContainerState]]
    ) -> None:
        full = last(MetricKind.CONTAINER_PSI_CPU_FULL_SUPPORTED)
        for (uid, container_id, *rest), value in last(MetricKind.CONTAINER_PSI).items():
            if found := containers.get(container_id):
                told = _pressure_labels(rest, full.get((uid, container_id)))
                if told:
                    labels = (*_container_labels(*found), *told)
                    self._container_psi.labels(self._node, *labels).set(value)

    def _resources(
        self, snapshot: Snapshot, containers: Mapping[str, tuple[PodState, ContainerState]]
    ) -> None:
        node = snapshot.node.value
        allocatable = node.status.allocatable if node else {}
        for resource, value in own_capacity(allocatable):
            self._capacity.labels(self._node, resource, OWN_UNITS[resource]).set(value)
        for resource, value in _lent(allocatable):
            self._allocatable.labels(self._node, resource, UNITS[resource]).set(value)
        for pod, container in containers.values():
            if container.spec is None:
                continue
            owner = (*_pod_labels(pod), container.id, container.name)
            needs = container.spec.resources
            for gauge, amounts in ((self._requests, needs.requests), (self._limits, needs.limits)):
                for resource, value in _lent(amounts):
                    gauge.labels(self._node, resource, UNITS[resource], *owner).set(value)


def own_capacity(amounts: Mapping[str, Quantity]) -> list[tuple[str, float]]:
    """A node's own resources, of its allocatable ones, in the units of :data:`OWN_UNITS`."""
    return [(name, amounts[name].milli() / 1000) for name in OWN_UNITS if name in amounts]


def _lent(amounts: Mapping[str, Quantity]) -> list[tuple[str, int]]:
    return [(name, amounts[name].value()) for name in UNITS if name in amounts]


def _pod_labels(pod: PodState) -> tuple[str, ...]:
    meta = pod.pod.metadata
    return pod.uid, meta.name, meta.namespace


def _container_labels(pod: PodState, container: ContainerState) -> tuple[str, ...]:
    return container.id, container.name, *_pod_labels(pod)


def _pressure_labels(rest: list[str], full: float | None) -> tuple[str, ...]:
    """Labels of a figure; none for one that the kernel does not give.

    The last label is of the resource itself: memory and I/O always have their full figures.
    """
    resource, precision, degree = rest
    supported = resource != "cpu" or full == 1.0
    if degree == "full" and not supported:
        return ()
    return resource, f"avg{precision}", degree, "true" if supported else "false"
