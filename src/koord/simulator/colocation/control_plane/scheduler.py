# SPDX-License-Identifier: Apache-2.0
"""The scheduler of the cluster: koord's whole profile over typed objects, without an API server.

Batch tasks are pods that go through the queue, every plugin and the binding. The services of a
machine, which never move, are one bound pod there that asks for what all of them ask for.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from koord.api.codec import convert
from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys, resources
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import decode, shipped
from koord.controllers.scheduler.plugins.loadaware.node_metric import NodeUsage
from koord.controllers.scheduler.plugins.loadaware.plugin import LoadAwareScheduling
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.kernels.quantity import Quantity
from koord.simulator.openb.kubernetes_objects import pod_object

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.controllers.scheduler.config.load import SchedulerConfiguration
    from koord.controllers.scheduler.decision.decider import Decision
    from koord.kube.client import Client
    from koord.simulator.colocation.inputs.scenario import BatchJobSpec, GPUSpec, Scenario
    from koord.simulator.colocation.workload.services import MachineCapacities, ServicePods

WALL_START_SECONDS = 1_767_225_600.0
"""Midnight, 1 January 2026: wall time at the start of every run."""
NAMESPACE = "default"
SERVICES = "services"
_FOR_EVER_SECONDS = 1e9
_MOST_PODS = 1 << 16
_SERVICE_PRIORITY, _BATCH_PRIORITY = 9500, 5500
_WHOLE_GPU_PERCENT = 100
_MEASURED = ("cpu", "memory")


class NodeUsageReport(NamedTuple):
    """What the agent of one machine reports, each as milli-cores and bytes.

    Attributes:
        used: by all.
        system: by the machine's own programs.
        services: by services.
        pods: by batch pods, by :func:`key_of`.
    """

    used: list[int]
    system: list[int]
    services: list[int]
    pods: dict[str, list[int]]


def key_of(name: str) -> str:
    """What reports call a pod."""
    return f"{NAMESPACE}/{name}"


class ScheduledCluster:
    """The nodes and pods of a run, and who places them.

    Args:
        scenario: machines, kinds of batch jobs, the scheduler's configuration.
        fleet: the machines.
        pods: of services.
        colocated: whether batch pods ask for batch resources, or for native ones.
        clock: of the scheduler; None for one of its own.
        client: writes about what is on an API server; None where nothing is.

    Attributes:
        clock: of the scheduler; whoever runs the loop moves it.
        attempts: decisions so far.
        scheduler_name: that pods name.
    """

    def __init__(
        self,
        scenario: Scenario,
        fleet: MachineCapacities,
        pods: ServicePods,
        *,
        colocated: bool,
        clock: VirtualClock | None = None,
        client: Client | None = None,
    ) -> None:
        self.clock = clock or VirtualClock(WALL_START_SECONDS)
        self._views = LocalViews()
        registry = Registry(outside=[])
        configuration = _configuration(scenario, registry)
        name = self.scheduler_name = configuration.profiles[0].scheduler_name
        self._world = ClusterState(self._views, self.clock, client, scheduler_name=name)
        self._scheduler = Scheduler(
            self._world, configuration.profiles, registry, configuration.queue,
            observers=(self._observed,),
        )  # fmt: skip
        self._load_aware = [
            each for each in self._scheduler.plugins if isinstance(each, LoadAwareScheduling)
        ]
        self._nodes: list[Node] = []
        self._row_of: dict[str, int] = {}
        self._placed: list[tuple[str, int]] = []
        self.attempts = 0
        self._add_machines(scenario, fleet)
        self._add_services(fleet, pods, name)
        self._templates = [_task_pod(kind, name, colocated) for kind in scenario.batch]

    # What happens to tasks.

    def submit(self, name: str, kind: int) -> None:
        """A task's pod is made."""
        self._views.view(Pod).put(pod_object(self._templates[kind], name))

    def remove(self, name: str) -> None:
        """A task's pod has ended, or was evicted."""
        self._views.view(Pod).remove(key_of(name))

    def pods(self, names: list[str]) -> list[Pod]:
        """The pods of tasks."""
        found = (self._views.view(Pod).get(key_of(name)) for name in names)
        return [pod for pod in found if pod is not None]

    async def place(self) -> list[tuple[str, int]]:
        """Decides who is due.

        Returns:
            Name and machine of the pods that are bound now.
        """
        self.decide()
        while self._scheduler.loop.binder.pending:
            await asyncio.sleep(0)
        placed, self._placed = self._placed, []
        return placed

    def decide(self) -> None:
        """Begins the bindings of who is due."""
        self._scheduler.queue.tick()
        self._scheduler.loop.schedule(_FOR_EVER_SECONDS)

    async def close(self) -> None:
        """Ends what still runs."""
        await self._scheduler.loop.binder.close()
        await self._scheduler.loop.failures.close()

    # What happens to machines.

    def offer(self, row: int, cpu_milli: int, memory_bytes: int) -> None:
        """The manager writes batch resources on a node, which is an update of its status."""
        node, status = self._nodes[row], self._nodes[row].status
        batch = {
            resources.BATCH_CPU: Quantity.from_value(cpu_milli),
            resources.BATCH_MEMORY: Quantity.from_value(memory_bytes),
        }
        changed = msgspec.structs.replace(
            status, allocatable=status.allocatable | batch, capacity=status.capacity | batch
        )
        self._nodes[row] = msgspec.structs.replace(node, status=changed)
        self._views.view(Node).put(self._nodes[row])

    def report(self, reports: Mapping[int, NodeUsageReport]) -> None:
        """Agents report, by machine; LoadAwareScheduling hears of it."""
        now = self.clock.wall_seconds()
        for plugin in self._load_aware:
            plugin.report(
                {
                    self._nodes[row].metadata.name: self._measured(each, plugin.names, now, row)
                    for row, each in reports.items()
                }
            )

    def _measured(
        self, report: NodeUsageReport, names: Sequence[str], now: float, row: int
    ) -> NodeUsage:
        """A report as the scheduler reads it; the services of a machine are one pod."""
        return _usage_of(report, names, now, row)

    def _observed(self, decision: Decision, message: str) -> None:
        self.attempts += 1
        if decision.row >= 0 and not message:
            name = self._world.table.name(decision.row)
            self._placed.append((decision.cycle.pod.uid, self._row_of[name]))

    def _add_machines(self, scenario: Scenario, fleet: MachineCapacities) -> None:
        gpus = [group.gpus for group in scenario.nodes for _ in range(group.count)]
        columns = zip(fleet.cpus.tolist(), fleet.memory_bytes.tolist(), gpus, strict=True)
        for row, (cpus, memory, cards) in enumerate(columns):
            node, device = _node(f"node-{row:05}", cpus, memory, cards)
            self._nodes.append(node)
            self._row_of[node.metadata.name] = row
            self._views.view(Node).put(node)
            if device is not None:
                self._views.view(Device).put(device)

    def _add_services(
        self, fleet: MachineCapacities, pods: ServicePods, scheduler_name: str
    ) -> None:
        rows = len(fleet.cpus)
        cpu = np.bincount(pods.machine, pods.request_milli, rows).astype(np.int64).tolist()
        memory = np.bincount(pods.machine, pods.request_bytes, rows).astype(np.int64).tolist()
        for row, node in enumerate(self._nodes):
            if cpu[row]:
                asked = {"cpu": f"{cpu[row]}m", "memory": str(memory[row])}
                self._views.view(Pod).put(
                    _pod(f"{SERVICES}-{row}", asked, "LS", _SERVICE_PRIORITY, scheduler_name,
                         node.metadata.name)
                )  # fmt: skip


def _configuration(scenario: Scenario, registry: Registry) -> SchedulerConfiguration:
    if not scenario.scheduler:
        return shipped(registry)
    return decode(scenario.scheduler, "scenario scheduler", registry)


def _usage_of(report: NodeUsageReport, names: Sequence[str], now: float, row: int) -> NodeUsage:
    """A report by the plugin's resources; of those other than CPU and memory nothing is used."""
    services = key_of(f"{SERVICES}-{row}")
    report.pods[services] = report.services
    measured = NodeUsage(
        updated=now, reported=True, node=report.used, system=report.system, pods=report.pods,
        prod=frozenset((services,)),
    )  # fmt: skip
    if tuple(names) == _MEASURED:
        return measured

    def amounts(pair: list[int]) -> list[int]:
        return [pair[_MEASURED.index(name)] if name in _MEASURED else 0 for name in names]

    return measured._replace(
        node=amounts(report.used),
        system=amounts(report.system),
        pods={key: amounts(pair) for key, pair in report.pods.items()},
    )


def _node(name: str, cpus: int, memory: int, gpus: GPUSpec | None) -> tuple[Node, Device | None]:
    """A node as the kubelet leaves it, and its cards as the agent reports them."""
    offered = {"cpu": str(cpus), "memory": str(memory), "pods": str(_MOST_PODS)}
    if gpus is not None:
        percent = str(gpus.count * _WHOLE_GPU_PERCENT)
        offered |= {
            resources.NVIDIA_GPU: str(gpus.count),
            resources.GPU: percent,
            resources.GPU_CORE: percent,
            resources.GPU_MEMORY_RATIO: percent,
        }
    labels = {"kubernetes.io/hostname": name}
    if gpus is not None:
        labels[keys.GPU_MODEL] = gpus.model
    made = {
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": offered, "capacity": offered},
    }
    node = convert(made, Node, f"Node {name}")
    if gpus is None:
        return node, None
    cards = [_card(minor, str(gpus.memory)) for minor in range(gpus.count)]
    document = {"metadata": {"name": name}, "spec": {"devices": cards}}
    return node, convert(document, Device, f"Device {name}")


def _card(minor: int, memory: str) -> dict[str, Any]:
    whole = str(_WHOLE_GPU_PERCENT)
    amounts = {
        resources.GPU_CORE: whole,
        resources.GPU_MEMORY: memory,
        resources.GPU_MEMORY_RATIO: whole,
    }
    return {
        "type": "gpu",
        "minor": minor,
        "id": f"GPU-{minor}",
        "health": True,
        "resources": amounts,
    }


def _task_pod(kind: BatchJobSpec, scheduler_name: str, colocated: bool) -> Pod:
    """What all tasks of a kind ask for; its limits are its requests."""
    asked = kind.request
    if colocated:
        amounts = {
            resources.BATCH_CPU: str(asked.cpu_milli),
            resources.BATCH_MEMORY: str(asked.memory_bytes),
        }
    else:
        amounts = {"cpu": f"{asked.cpu_milli}m", "memory": str(asked.memory_bytes)}
    if asked.gpu:
        amounts[resources.NVIDIA_GPU] = str(asked.gpu)
    qos = "BE" if colocated else "LS"
    return _pod(kind.name, amounts, qos, _BATCH_PRIORITY, scheduler_name)


def _pod(
    name: str,
    amounts: dict[str, str],
    qos: str,
    priority: int,
    scheduler_name: str,
    node: str = "",
) -> Pod:
    container = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    spec: dict[str, Any] = {
        "schedulerName": scheduler_name, "containers": [container], "priority": priority,
    }  # fmt: skip
    if node:
        spec["nodeName"] = node
    labels = {keys.QOS_CLASS: qos, keys.EVICTION_ENABLED: str(qos == "BE").lower()}
    meta = {"name": name, "uid": name, "namespace": NAMESPACE, "labels": labels}
    return convert({"metadata": meta, "spec": spec}, Pod, f"Pod {name}")
