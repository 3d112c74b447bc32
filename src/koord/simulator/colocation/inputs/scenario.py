# SPDX-License-Identifier: Apache-2.0
"""A scenario: machines, services, batch jobs, what a busy machine costs, settings.

Unknown keys are refused. Durations and quantities stay the text that was written; properties give
them as numbers. :mod:`koord.simulator.colocation.inputs.scenario_file` reads and changes scenarios.
"""

from __future__ import annotations

import msgspec

from koord.api.duration import Duration
from koord.kernels.quantity import Quantity, Rounding

# Quantities, which YAML may read as numbers.
Amount = str | int | float


class _ScenarioMapping(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A mapping whose keys are all known."""


class ScenarioMetadata(_ScenarioMapping, frozen=True):
    """What the scenario is called."""

    name: str


class GPUSpec(_ScenarioMapping, frozen=True):
    """The GPUs of each machine of a group."""

    count: int
    model: str = "A100-SXM4-80GB"
    memory: Amount = "80Gi"


class MachineGroup(_ScenarioMapping, frozen=True):
    """Machines that are alike."""

    count: int
    cpu: int
    memory: Amount
    sockets: int = 2
    numa_nodes_per_socket: int = 1
    threads_per_core: int = 2
    gpus: GPUSpec | None = None

    @property
    def memory_bytes(self) -> int:
        """Of each machine."""
        return whole(self.memory)


class Resources(_ScenarioMapping, frozen=True):
    """CPU, memory and, of batch tasks, whole GPUs."""

    cpu: Amount
    memory: Amount
    gpu: int = 0

    @property
    def cpu_milli(self) -> int:
        """Milli-cores, rounded up."""
        return Quantity.parse(self.cpu).milli(Rounding.UP)

    @property
    def memory_bytes(self) -> int:
        """Bytes, rounded up."""
        return whole(self.memory)


class NoiseSpec(_ScenarioMapping, frozen=True):
    """Multiplicative noise, first-order autoregressive, a draw a pod.

    Attributes:
        sigma: standard deviation of the factor's logarithm.
        correlation: the time after which a deviation has fallen to 1/e.
    """

    sigma: float
    correlation: str

    @property
    def correlation_seconds(self) -> float:
        """As a number."""
        return Duration.parse(self.correlation).seconds


class Diurnal(_ScenarioMapping, frozen=True):
    """The daily swing: 1 + amplitude * cos(...), highest at the hour of the day."""

    amplitude: float
    peak_hour: float


class BurstSpec(_ScenarioMapping, frozen=True):
    """Now and then a pod wants ``factor`` times as much for ``seconds``."""

    per_hour: float
    factor: float
    seconds: float


class CPUDemand(_ScenarioMapping, frozen=True):
    """What a pod wants, as a share of its request."""

    mean: float
    diurnal: Diurnal = Diurnal(0.0, 0.0)
    noise: NoiseSpec = NoiseSpec(0.0, "5m")
    bursts: BurstSpec = BurstSpec(0.0, 1.0, 60.0)


class MemoryDemand(_ScenarioMapping, frozen=True):
    """What a pod holds, as a share of its request.

    Attributes:
        leak_per_hour: bytes that are never given back; at the limit the kernel kills the pod and it
            starts anew.
    """

    mean: float
    noise: NoiseSpec = NoiseSpec(0.0, "1h")
    leak_per_hour: Amount = 0

    @property
    def leak_bytes_per_hour(self) -> int:
        """As a number."""
        return whole(self.leak_per_hour)


class LatencySensitiveService(_ScenarioMapping, frozen=True):
    """A latency-sensitive service; its pods are there from the start, spread over the machines.

    Attributes:
        qos: LS, or LSR: bound to CPUs of its own.
        share_of_requested_cpu: of all that services request.
    """

    name: str
    qos: str
    share_of_requested_cpu: float = msgspec.field(name="shareOfRequestedCPU")
    request: Resources
    limit: Resources
    cpu_demand: CPUDemand
    memory_demand: MemoryDemand


class TaskCountSpec(_ScenarioMapping, frozen=True):
    """Tasks of a job: Pareto, truncated; rounded down to whole ones."""

    min: int
    max: int
    shape: float


class UsageShare(_ScenarioMapping, frozen=True):
    """What a task uses of its request: normal, a draw a task, from 1 % to the whole request."""

    mean: float
    sigma: float = 0.0


class TaskDuration(_ScenarioMapping, frozen=True):
    """How long a task runs that gets all that it wants: lognormal, a draw a task."""

    median: float
    sigma: float = 0.0


class BatchJobSpec(_ScenarioMapping, frozen=True):
    """Jobs of one kind: equal, independent, best-effort tasks.

    Attributes:
        arrivals_per_hour: Poisson.
        arrivals_file: instead of that, with ``tasks`` and ``durationSeconds``, a CSV beside the
            scenario with the columns ``seconds,tasks,duration_seconds``.
        most_pending: how many tasks wait in the scheduler's queue at most; who submits the jobs
            holds back the rest, in the order of arrival. Tasks of a kind ask for the same, so that
            where one finds no machine no other does: who is held back loses nothing.
    """

    name: str
    request: Resources
    arrivals_per_hour: float = 0.0
    arrivals_file: str = ""
    tasks: TaskCountSpec = TaskCountSpec(1, 1, 1.0)
    cpu_use: UsageShare = UsageShare(1.0)
    memory_use: UsageShare = UsageShare(1.0)
    duration_seconds: TaskDuration = TaskDuration(600.0)
    most_pending: int = 10


class SchedulingDelay(_ScenarioMapping, frozen=True):
    """The share of wanted CPU that is lost, from 0 where enough CPUs are free to all of it."""

    free_cpus_below: float = msgspec.field(name="freeCPUsBelow")
    loss_at_zero: float


class SMTNeighbour(_ScenarioMapping, frozen=True):
    """How much slower batch work is while the other threads of all cores are busy."""

    loss: float = 0.0


class Contention(_ScenarioMapping, frozen=True):
    """What a busy machine costs."""

    scheduling_delay: SchedulingDelay
    smt_neighbour: SMTNeighbour = SMTNeighbour()


class ShortageSpec(_ScenarioMapping, frozen=True):
    """When a latency-sensitive pod is short: granted less than a share of min(demand, limit)."""

    granted_below: float = 0.95
    window: str = "60s"

    @property
    def window_seconds(self) -> float:
        """As a number."""
        return Duration.parse(self.window).seconds


class ReportSpec(_ScenarioMapping, frozen=True):
    """What is reported."""

    short: ShortageSpec = ShortageSpec()


class SystemUsage(_ScenarioMapping, frozen=True):
    """What a machine's own programs use, as shares of the machine."""

    cpu: float = 0.02
    memory: float = 0.03


class AgentFeatureGates(_ScenarioMapping, frozen=True):
    """The node agents: feature gates that are not as koordlet's defaults."""

    feature_gates: dict[str, bool] = {}


class HotSpotSpec(_ScenarioMapping, frozen=True):
    """A load that wanders: for a while the services of some neighbouring machines want more.

    It stays with the pods that were on these machines at the start, wherever they go.

    Attributes:
        machines: how many neighbours it takes in.
        every: after how long it goes elsewhere; where to, the seed draws.
        extra: what each pod of theirs wants beside, as a share of its request.
    """

    machines: int
    every: str
    extra: float

    @property
    def every_seconds(self) -> float:
        """As a number."""
        return Duration.parse(self.every).seconds


class Scenario(_ScenarioMapping, frozen=True):
    """A day of a cluster; see the module.

    Attributes:
        batch_request_share: (``batchRequestShareOfClusterCPU``) if above 0, the arrivals of all
            Poisson kinds are made more or fewer, by one factor, so that what tasks request while
            they run at full grant is on average that share of the cluster's CPU.
        slo_controller_config: data of the ConfigMap; what holds where it says nothing are the
            defaults, with co-location and suppression enabled.
        scheduler: a KubeSchedulerConfiguration; koord's own without.
        hot_spot: a load that wanders; None for none.
        descheduler: a DeschedulerConfiguration; koord's own for a simulation without.
    """

    metadata: ScenarioMetadata
    nodes: list[MachineGroup]
    services: list[LatencySensitiveService]
    services_request_share: float = msgspec.field(name="servicesRequestShareOfClusterCPU")
    contention: Contention
    batch: list[BatchJobSpec] = []
    batch_request_share: float = msgspec.field(name="batchRequestShareOfClusterCPU", default=0.0)
    hours: float = 24.0
    step: str = "10s"
    report: ReportSpec = ReportSpec()
    system: SystemUsage = SystemUsage()
    agents: AgentFeatureGates = AgentFeatureGates()
    slo_controller_config: dict[str, str] = {}
    scheduler: dict[str, object] = {}
    hot_spot: HotSpotSpec | None = None
    descheduler: dict[str, object] = {}

    @property
    def step_seconds(self) -> float:
        """Between two evaluations of what everybody wants."""
        return Duration.parse(self.step).seconds

    @property
    def steps(self) -> int:
        """Of the whole run."""
        return round(self.hours * 3600 / self.step_seconds)

    @property
    def minutes(self) -> int:
        """Of the whole run; the last may be a part of one."""
        return -(-self.steps // round(60 / self.step_seconds))

    @property
    def machines(self) -> int:
        """How many there are."""
        return sum(group.count for group in self.nodes)

    @property
    def cluster_cores(self) -> int:
        """Logical CPUs of all machines."""
        return sum(group.count * group.cpu for group in self.nodes)


def whole(amount: Amount) -> int:
    """A quantity as a whole number, rounded up. ValueError where it is none."""
    return Quantity.parse(amount).value(Rounding.UP)
