# SPDX-License-Identifier: Apache-2.0
"""What every pod and machine uses at a moment: columns, a row a pod, a row a machine.

A machine gives services what they want first and batch pods what is left; so a batch pod's use
falls as the services around it rise, as under a kernel that prefers them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api.protocol import annotation
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.api.protocol.qos import QoSClass, kubernetes_qos, qos_with_default
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY
from koord.api.protocol.scheduling import device_allocated
from koord.base import rng
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity, Rounding
from koord.simulator.nodes.demand import NOISE_PERIODS_SECONDS, DemandModel, UsageDemand, wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.pod import Pod
    from koord.api.protocol.scheduling import AllocatedDevice

    Column = NDArray[np.float64]

USAGE = "simulator.koord/usage"

_BATCH_CLASSES = (PriorityClass.BATCH, PriorityClass.FREE)
_ZERO = Quantity()


class CPUAndMemory(NamedTuple):
    """CPU in milli-cores and memory in bytes."""

    cpu_milli: int
    memory: int


@dataclass(frozen=True, slots=True)
class PodLoad:
    """What the usage of one running pod stems from.

    Attributes:
        node: row of its machine.
        best_effort: gets what others leave.
        eligible: its unused request counts as reclaimable.
        limits: 0 for none.
        cards: what it holds of its machine's GPUs.
        tier: lies in the cgroup of best-effort pods, which agents may hold down.
    """

    namespace: str
    name: str
    uid: str
    node: int
    qos: QoSClass
    priority_class: PriorityClass
    best_effort: bool
    eligible: bool
    requests: CPUAndMemory
    limits: CPUAndMemory
    demand: UsageDemand
    phases: tuple[float, ...]
    created_seconds: float
    containers: tuple[tuple[str, CPUAndMemory, CPUAndMemory], ...]
    cards: tuple[AllocatedDevice, ...]
    tier: bool = False


def pod_load(pod: Pod, node: int, model: DemandModel, seed: int) -> PodLoad:
    """What a pod's usage stems from: its requests, its class, its annotation."""
    priority_class = class_with_default(pod)
    best_effort = qos_with_default(pod) is QoSClass.BE
    requests = _total(pod, lambda container: container.resources.requests)
    containers = tuple(
        (each.name, _amounts(each.resources.requests), _amounts(each.resources.limits))
        for each in pod.spec.containers
    )
    limits = [limit for _, _, limit in containers]
    phases = rng.stream(seed, "usage", pod.metadata.uid)
    created = pod.metadata.creation_timestamp
    return PodLoad(
        namespace=pod.metadata.namespace,
        name=pod.metadata.name,
        uid=pod.metadata.uid,
        node=node,
        qos=qos_with_default(pod),
        priority_class=priority_class,
        best_effort=best_effort,
        eligible=priority_class in (PriorityClass.PROD, PriorityClass.NONE),
        requests=requests,
        limits=CPUAndMemory(
            sum(each.cpu_milli for each in limits) if all(x.cpu_milli for x in limits) else 0,
            sum(each.memory for each in limits) if all(x.memory for x in limits) else 0,
        ),
        demand=_demand(pod, model, best_effort or priority_class in _BATCH_CLASSES),
        phases=tuple(phases.random() for _ in NOISE_PERIODS_SECONDS),
        created_seconds=created.timestamp() if created else 0.0,
        containers=containers,
        cards=_cards(pod),
        tier=kubernetes_qos(pod) == "BestEffort",
    )


@dataclass(frozen=True, slots=True, eq=False)
class UsageReading:
    """Usage at one moment: CPU in cores, memory in bytes; rows are pods, or machines.

    ``pod_throttled`` is the share of what a pod wants that its limit keeps from it.
    """

    pod_cpu: Column
    pod_memory: Column
    pod_throttled: Column
    node_cpu: Column
    node_memory: Column
    system_cpu: Column
    system_memory: Column


class GrantedCPU(NamedTuple):
    """How much of the CPU that is wanted there is, as shares, a row a machine.

    Attributes:
        tier: of what best-effort pods want together, what agents let them have.
        services: of what all other pods want.
    """

    tier: Column
    services: Column


class PodUsageModel:
    """All pods' and machines' usage as a function of time.

    Args:
        cpus: logical CPUs of each machine.
        memory: bytes of each machine.
        model: what pods want that say nothing themselves.
        seed: of the machines' noise.
    """

    def __init__(
        self, cpus: Sequence[int], memory: Sequence[int], model: DemandModel, seed: int
    ) -> None:
        self._model = model
        self._cpus = np.asarray(cpus, np.float64)
        self._memory = np.asarray(memory, np.float64)
        self._phases = rng.numpy_stream(seed, "system").random((len(cpus), 3))
        self._pods: list[PodLoad] = []
        self._tier_cores: Column = np.full(len(cpus), np.inf)
        self.set_pods([])

    @property
    def pods(self) -> Sequence[PodLoad]:
        """The pods, in the order of the rows."""
        return self._pods

    @property
    def tier_cores(self) -> Column:
        """What :meth:`hold` has set."""
        return self._tier_cores

    def set_pods(self, pods: Iterable[PodLoad]) -> None:
        """Replaces all pods."""
        self._pods = list(pods)

        def column(read: Callable[[PodLoad], float]) -> Column:
            return np.fromiter(map(read, self._pods), np.float64, len(self._pods))

        default_cpu, default_memory = self._model.default_cpu_milli, self._model.default_memory
        self._node = column(lambda pod: pod.node).astype(np.intp)
        self._best_effort = column(lambda pod: pod.best_effort).astype(bool)
        self._requested_cpu = column(lambda pod: pod.requests.cpu_milli or default_cpu) / 1000
        self._requested_memory = column(lambda pod: pod.requests.memory or default_memory)
        self._most_cpu = column(lambda pod: pod.limits.cpu_milli / 1000 or np.inf)
        self._most_memory = column(lambda pod: pod.limits.memory or np.inf)
        self._mean = column(lambda pod: pod.demand.cpu)
        self._amplitude = column(lambda pod: pod.demand.amplitude)
        self._peak_hour = column(lambda pod: pod.demand.peak_hour)
        self._noise = column(lambda pod: pod.demand.noise)
        self._memory_share = column(lambda pod: pod.demand.memory)
        self._pod_phases = np.array([pod.phases for pod in self._pods]).reshape(-1, 3)
        self._tier = column(lambda pod: pod.tier).astype(bool)
        self._raised: Column = np.ones(len(self._pods))

    def release(self) -> None:
        """No agent holds anything down or up any more."""
        self.hold(np.full(len(self._cpus), np.inf), np.ones(len(self._pods)))

    def hold(self, tier_cores: Column, raised: Column) -> None:
        """What agents have set on their machines, from now on.

        Args:
            tier_cores: the most that best-effort pods of a machine get together, a row a machine;
                infinity for no limit.
            raised: how far the CPU limit of each pod is raised, a row a pod; infinity for no limit.
                Forgotten when the pods are replaced.
        """
        self._tier_cores, self._raised = tier_cores, raised

    def read(self, now: float) -> UsageReading:
        """The usage at a moment.

        Args:
            now: wall time in seconds.
        """
        cpu = self._wanted(now)
        most = self._most_cpu * self._raised
        throttled = 1.0 - _granted(cpu, most)
        cpu = np.minimum(cpu, most)
        cpu = np.where(self._tier, cpu * self._held(cpu)[self._node], cpu)
        memory = np.minimum(self._requested_memory * self._memory_share, self._most_memory)
        system_cpu, system_memory = self._system(now)
        services = self._by_node(np.where(self._best_effort, 0.0, cpu))
        batch = self._by_node(np.where(self._best_effort, cpu, 0.0))
        free_cpu = np.maximum(self._cpus - system_cpu, 0.0)
        of_services = _granted(services, free_cpu)
        of_batch = _granted(batch, np.maximum(free_cpu - services, 0.0))
        cpu *= np.where(self._best_effort, of_batch[self._node], of_services[self._node])
        return UsageReading(
            pod_cpu=cpu,
            pod_memory=memory,
            pod_throttled=throttled,
            node_cpu=self._by_node(cpu) + system_cpu,
            node_memory=np.minimum(self._by_node(memory) + system_memory, self._memory),
            system_cpu=system_cpu,
            system_memory=system_memory,
        )

    def granted(self, now: float) -> GrantedCPU:
        """Who gets less than it wants at a moment.

        Args:
            now: wall time in seconds.
        """
        cpu = np.minimum(self._wanted(now), self._most_cpu * self._raised)
        held = self._held(cpu)
        cpu = np.where(self._tier, cpu * held[self._node], cpu)
        services = self._by_node(np.where(self._best_effort, 0.0, cpu))
        free_cpu = np.maximum(self._cpus - self._system(now)[0], 0.0)
        return GrantedCPU(held, _granted(services, free_cpu))

    def _wanted(self, now: float) -> Column:
        return self._requested_cpu * wanted(
            self._mean, self._amplitude, self._peak_hour, self._noise, self._pod_phases, now
        )

    def _held(self, cpu: Column) -> Column:
        """What agents let the best-effort pods of each machine have of what they want."""
        return _granted(self._by_node(np.where(self._tier, cpu, 0.0)), self._tier_cores)

    def system_peak(self, node: int) -> CPUAndMemory:
        """The most that a machine's own programs ever use."""
        system = self._model.system
        cpu = self._cpus[node] * 1000 * system.peak_cpu
        return CPUAndMemory(int(cpu), int(self._memory[node] * system.memory))

    def _system(self, now: float) -> tuple[Column, Column]:
        system = self._model.system
        ones = np.ones_like(self._cpus)
        share = wanted(
            system.cpu * ones, system.amplitude * ones, system.peak_hour * ones,
            system.noise * ones, self._phases, now,
        )  # fmt: skip
        return self._cpus * share, self._memory * system.memory

    def _by_node(self, amounts: Column) -> Column:
        return np.asarray(np.bincount(self._node, amounts, len(self._cpus)), np.float64)


def _granted(wants: Column, free_cpu: Column) -> Column:
    """The share of what is wanted that there is room for."""
    return np.divide(free_cpu, wants, out=np.ones_like(wants), where=wants > free_cpu)


def _total(pod: Pod, read: Callable[..., ResourceList]) -> CPUAndMemory:
    """The effective request of a pod: its containers together, or its largest init container."""
    containers = [_amounts(read(each)) for each in pod.spec.containers]
    first = [_amounts(read(each)) for each in pod.spec.init_containers]
    return CPUAndMemory(
        max(sum(x.cpu_milli for x in containers), *(x.cpu_milli for x in first), 0),
        max(sum(x.memory for x in containers), *(x.memory for x in first), 0),
    )


def _amounts(amounts: Mapping[str, Quantity]) -> CPUAndMemory:
    """CPU and memory of a container, whichever class they are asked of."""
    cpu = amounts.get(CPU, _ZERO).milli(Rounding.UP)
    for name in (BATCH_CPU, MID_CPU):
        cpu = cpu or amounts.get(name, _ZERO).value(Rounding.UP)
    memory = next(
        (amounts[name] for name in (MEMORY, BATCH_MEMORY, MID_MEMORY) if name in amounts), _ZERO
    )
    return CPUAndMemory(cpu, memory.value(Rounding.UP))


def _demand(pod: Pod, model: DemandModel, batch: bool) -> UsageDemand:
    """What the pod says it wants; where that makes no sense, what its class wants."""
    default = model.batch if batch else model.services
    text = pod.metadata.annotations.get(USAGE)
    if text is None:
        return default
    try:
        said = annotation.parse(text, dict[str, float], pod.title, annotation.field_of(USAGE))
        merged = {name: said.get(name, value) for name, value in _fields(default).items()}
        demand = UsageDemand(*merged.values())
        demand.check(pod.title, annotation.field_of(USAGE))
    except KoordError:
        return default
    return demand


def _fields(demand: UsageDemand) -> dict[str, float]:
    return {
        "cpu": demand.cpu,
        "amplitude": demand.amplitude,
        "peakHour": demand.peak_hour,
        "noise": demand.noise,
        "memory": demand.memory,
    }


def _cards(pod: Pod) -> tuple[AllocatedDevice, ...]:
    try:
        return tuple(device_allocated(pod).get("gpu", []))
    except KoordError:
        return ()
