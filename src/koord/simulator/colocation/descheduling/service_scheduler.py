# SPDX-License-Identifier: Apache-2.0
"""The scheduler of a day whose services may move: batch tasks as ever, services through the API."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from koord.api.codec import convert
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.nodemetric import (
    NodeMetric,
    NodeMetricInfo,
    NodeMetricStatus,
    PodMetricInfo,
    ResourceMap,
)
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.controllers.cluster.views import InformerViews
from koord.controllers.scheduler.cache.local_views import key_of as object_key
from koord.controllers.scheduler.plugins.loadaware.node_metric import NodeUsage
from koord.kernels.quantity import Quantity
from koord.kube.client import Client
from koord.simulator.colocation.control_plane import scheduler as day_scheduler
from koord.simulator.colocation.descheduling.workloads import NAMESPACE, pod_labels, pod_spec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.api.kinds.meta import Object
    from koord.api.kinds.node import Node
    from koord.base.clock import VirtualClock
    from koord.controllers.scheduler.decision.decider import Decision
    from koord.controllers.scheduler.scheduler import Scheduler
    from koord.simulator.colocation.control_plane.scheduler import NodeUsageReport
    from koord.simulator.colocation.descheduling.service_api import ServiceApi
    from koord.simulator.colocation.descheduling.service_replicas import ServiceSlots
    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import Ints
    from koord.simulator.colocation.workload.services import MachineCapacities, ServicePods

_TURN_SECONDS = 1.0
_PRIORITY = 9500


class ServiceClient(Client):
    """Writes about services and reservations; the API server knows no batch tasks."""

    async def bind(self, pod: Object, node: str, *, timeout_seconds: float | None = None) -> None:
        """Binds a pod of a service; one of a batch task is bound with the decision."""
        if pod.metadata.namespace != day_scheduler.NAMESPACE:
            await super().bind(pod, node, timeout_seconds=timeout_seconds)

    async def patch(
        self, target: Any, name: str, patch: Any, namespace: str = "", *args: Any, **options: Any
    ) -> Any:
        """The same of what is written."""
        if namespace != day_scheduler.NAMESPACE:
            return await super().patch(target, name, patch, namespace, *args, **options)
        return None


class ServiceScheduler(day_scheduler.ScheduledCluster):
    """Nodes, batch tasks, and the pods and reservations of an API server.

    Args:
        scenario: see :class:`ScheduledCluster`.
        fleet: likewise.
        pods: likewise; those that are bound to CPUs of their own stay where they are.
        slots: who serves what.
        api: has the rest.
        clock: of the loop.
    """

    def __init__(
        self,
        scenario: Scenario,
        fleet: MachineCapacities,
        pods: ServicePods,
        slots: ServiceSlots,
        api: ServiceApi,
        clock: VirtualClock,
    ) -> None:
        self._pods, self._scenario, self._api = pods, scenario, api
        self._slots = slots
        self._usage: Ints | None = None
        # Bound rows by machine, and the pods of movable rows by machine: keys as reports have them.
        self._fixed: dict[int, list[tuple[str, int]]] = {}
        self._service_pods: dict[str, Pod] = {}
        self._services: dict[int, frozenset[str]] = {}
        self.reports: dict[int, tuple[float, NodeUsageReport]] = {}
        self.fixed_pods: list[Pod] = []
        client = ServiceClient(api.transport(), "koord-scheduler", requests_per_second=None)
        client.prompt = True
        self._informers = InformerViews(client)
        super().__init__(scenario, fleet, pods, colocated=True, clock=clock, client=client)
        self._wake = asyncio.Event()

    async def start(self) -> None:
        """Follows the API server."""
        for kind in (Pod, Reservation):
            self._follow(kind)
        self._api.keep(self._informers.run)
        await self._informers.synced()
        for plugin in self._scheduler.plugins:
            for _, run in plugin.controllers():
                self._api.keep(run)
        self._api.keep(self._run)

    def _follow(self, kind: Any) -> None:
        """Puts objects of a kind where batch tasks are too."""
        local = self._views.view(kind)

        def put(value: Object) -> None:
            local.put(value)
            if isinstance(value, Pod):
                self._service_pods[value.metadata.uid] = value
            self._wake.set()

        def gone(last: Object, missed: bool) -> None:
            local.remove(object_key(last))
            if isinstance(last, Pod):
                self._service_pods.pop(last.metadata.uid, None)
            self._wake.set()

        self._informers.view(kind).on_change(put, lambda old, new: put(new), gone)

    @property
    def scheduler(self) -> Scheduler:
        """As a library: where pods would go."""
        return self._scheduler

    @property
    def nodes(self) -> Sequence[Node]:
        """As they are now, in the order of their names."""
        return self._nodes

    def measured(self, usage: Ints) -> None:
        """What each row of services used, milli-cores and bytes ``[2, rows]``."""
        self._usage = usage

    def node_metrics(self) -> dict[str, NodeMetric]:
        """What agents last reported, by node."""
        return {
            self._nodes[row].metadata.name: self._metric(row, at, report)
            for row, (at, report) in self.reports.items()
        }

    async def _run(self) -> None:
        """Decides about services whenever any of them has changed, until none waits."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            await asyncio.sleep(_TURN_SECONDS)
            self.decide()

    def _observed(self, decision: Decision, message: str) -> None:
        if decision.cycle.pod.pod.metadata.namespace == day_scheduler.NAMESPACE:
            super()._observed(decision, message)

    def _add_services(
        self, fleet: MachineCapacities, pods: ServicePods, scheduler_name: str
    ) -> None:
        """Those that never move."""
        for row in range(pods.rows):
            if pods.bound[row]:
                machine = int(pods.machine[row])
                service = self._scenario.services[int(pods.service[row])]
                pod = _fixed_pod(f"{service.name}-{row}", service, scheduler_name,
                                 self._nodes[machine].metadata.name)  # fmt: skip
                self._views.view(Pod).put(pod)
                self.fixed_pods.append(pod)
                key = object_key(pod)
                self._fixed.setdefault(machine, []).append((key, row))

    def report(self, reports: Mapping[int, NodeUsageReport]) -> None:
        """Agents report, by machine: scheduler and descheduler hear of it."""
        now = self.clock.wall_seconds()
        for row, each in reports.items():
            services = {key: self._amounts(at) for key, at in self._on(row)}
            self._services[row] = frozenset(services)
            each.pods.update(services)
            self.reports[row] = now, each
        super().report(reports)

    def _measured(
        self, report: NodeUsageReport, names: Sequence[str], now: float, row: int
    ) -> NodeUsage:
        return NodeUsage(
            updated=now, reported=True, node=report.used, system=report.system,
            pods=report.pods, prod=self._services[row],
        )  # fmt: skip

    def _on(self, row: int) -> Iterable[tuple[str, int]]:
        yield from self._fixed.get(row, ())
        for uid, at in self._slots.keys_on(row):
            pod = self._service_pods.get(uid)
            if pod is not None:
                yield object_key(pod), at

    def _amounts(self, row: int) -> list[int]:
        assert self._usage is not None, "measured before it is reported"
        found: list[int] = self._usage[:, row].tolist()
        return found

    def _metric(self, row: int, at: float, report: NodeUsageReport) -> NodeMetric:
        pods = []
        for key, amounts in report.pods.items():
            namespace, _, name = key.partition("/")
            pods.append(PodMetricInfo(name, namespace, _resources(amounts)))
        info = NodeMetricInfo(
            node_usage=_resources(report.used), system_usage=_resources(report.system)
        )
        status = NodeMetricStatus(datetime.fromtimestamp(at, UTC), info, pods)
        return NodeMetric(metadata=ObjectMeta(name=self._nodes[row].metadata.name), status=status)


def _resources(amounts: Sequence[int]) -> ResourceMap:
    cpu, memory = amounts
    return ResourceMap({"cpu": Quantity.from_milli(cpu), "memory": Quantity.from_value(memory)})


def _fixed_pod(name: str, service: Any, scheduler: str, node: str) -> Pod:
    spec = pod_spec(service, scheduler) | {"nodeName": node, "priority": _PRIORITY}
    meta = {
        "name": name, "uid": name, "namespace": NAMESPACE, "labels": pod_labels(service.qos),
    }  # fmt: skip
    status = {"phase": "Running"}
    return convert({"metadata": meta, "spec": spec, "status": status}, Pod, f"Pod {name}")
