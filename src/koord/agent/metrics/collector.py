# SPDX-License-Identifier: Apache-2.0
"""What a collector is, and what it is given each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from koord.agent.states.snapshot import NEVER, Timestamped

if TYPE_CHECKING:
    from koord.agent.host.devices.block import BlockStorage
    from koord.agent.host.devices.gpus import GPU
    from koord.agent.host.devices.rdma import RDMADevice
    from koord.agent.host.devices.xpu import XPUDevice
    from koord.agent.host.kernel.features import Feature
    from koord.agent.host.machine import Machine
    from koord.agent.host.procfs.cpuinfo import ProcessorInfo
    from koord.agent.host.procfs.meminfo import HugePages
    from koord.agent.host.procfs.proc_stat import CPUTicks
    from koord.agent.metrics.cgroup_tables import CgroupReading, CgroupRows, CgroupTables
    from koord.agent.metrics.samples import Samples
    from koord.agent.states.snapshot import Snapshot
    from koord.base.clock import Clock


_UNKNOWN: Timestamped[None] = Timestamped(None)
_NOTHING: Timestamped[tuple[()]] = Timestamped(())
_NO_TEXT: Timestamped[str] = Timestamped("")
_NO_FIGURES: Timestamped[dict[int, float]] = Timestamped({})


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """CPU in cores and memory in bytes."""

    cpu_cores: float
    memory_bytes: float


@dataclass(slots=True)
class SharedReadings:
    """What collectors tell each other, each entry with its age in monotonic seconds.

    Attributes:
        ticks, meminfo: /proc/stat and /proc/meminfo as read in the last round.
        node, pods, host_applications: usage of the whole machine, and sums over the others.
        node_numa_cpu, node_numa_memory, pods_numa_memory: by NUMA node; cores and bytes.
    """

    ticks: Timestamped[CPUTicks] | None = None
    meminfo: Timestamped[dict[str, int]] | None = None
    node: Timestamped[MeasuredUsage | None] = _UNKNOWN
    pods: Timestamped[MeasuredUsage | None] = _UNKNOWN
    host_applications: Timestamped[MeasuredUsage | None] = _UNKNOWN
    node_numa_cpu: Timestamped[dict[int, float]] = _NO_FIGURES
    node_numa_memory: Timestamped[dict[int, float]] = _NO_FIGURES
    pods_numa_memory: Timestamped[dict[int, float]] = _NO_FIGURES


@dataclass(frozen=True, slots=True)
class NUMAMemory:
    """A NUMA node's memory, in bytes as its ``meminfo`` says, and its huge pages."""

    node: int
    meminfo: dict[str, int]
    huge_pages: tuple[HugePages, ...]


@dataclass(slots=True)
class MachineInventory:
    """What is no series: facts of the machine that change seldom or never, each with its age.

    Attributes:
        cpu: the processor; topology is the Machine's.
        cbm_mask: cache ways that can be given out, in hex; empty without resctrl.
        numa: memory of each NUMA node, by id.
        gpus, gpu_driver: NVIDIA's; GPUs by index.
        xpus: accelerators that device-infos files tell of, in their order.
        rdma: by bus id.
        storage: block devices and mounts.
    """

    cpu: Timestamped[ProcessorInfo | None] = _UNKNOWN
    cbm_mask: Timestamped[str] = _NO_TEXT
    numa: Timestamped[tuple[NUMAMemory, ...]] = _NOTHING
    gpus: Timestamped[tuple[GPU, ...]] = _NOTHING
    gpu_driver: str = ""
    xpus: Timestamped[tuple[XPUDevice, ...]] = _NOTHING
    rdma: Timestamped[tuple[RDMADevice, ...]] = _NOTHING
    storage: Timestamped[BlockStorage | None] = _UNKNOWN

    def gpu_bytes(self, minor: int) -> int:
        """Memory of the GPU that the Device tells of by this minor; 0 where that is not known.

        Other accelerators than NVIDIA's take the place of these there, and their size is not known.
        """
        gpus = () if self.xpus.value else self.gpus.value
        return next((gpu.memory_bytes for gpu in gpus if gpu.minor == minor), 0)


@dataclass(frozen=True, slots=True)
class CollectionRound:
    """What a collector may look at; the same for all that are due at the same time.

    Attributes:
        now_seconds: monotonic, for ages and rates.
        now_ms: wall time, for samples.
        snapshot: what the cluster says.
        machine: what the host is.
        groups: the cgroups of pods and containers, each file of them read once a round.
        shared_readings: what other collectors found.
        facts: what is no series; collectors write here.
        clock: for readings that take their time within the round.
    """

    now_seconds: float
    now_ms: int
    snapshot: Snapshot
    machine: Machine
    groups: CgroupTables
    shared_readings: SharedReadings
    facts: MachineInventory
    clock: Clock

    def cgroup_rows(self) -> CgroupRows:
        """The cgroups of the round's pods and their containers."""
        return self.groups.rows(self.snapshot.pods.value)

    def read_cgroups(self, resource: str, pods_only: bool = False) -> CgroupReading:
        """One file of every pod and container, or of every pod; read once a round."""
        return self.groups.read(self.snapshot.pods.value, self.now_seconds, resource, pods_only)

    @property
    def knows_pods(self) -> bool:
        """Whether the list of pods was seen at all; before, nobody can tell what is missing."""
        return self.snapshot.pods.at_seconds != NEVER


class Collector(Protocol):
    """Measures one concern; registered by entry point group ``koord.agent.collectors``.

    An entry point is a callable ``(settings) -> Collector``. A class that names this one as its
    base has only to say what differs.

    Attributes:
        name: unique, in lower case.
        gate: feature gate; empty is always.
        interval_seconds: between rounds.
        needs: features of the machine without which it is left out.
        window_seconds: time between :meth:`begin` and :meth:`collect`; 0 collects at once.
        blocking: whether it calls what may hang, such as a driver; it then runs in a thread.
    """

    name: str
    gate: str = ""
    interval_seconds: float
    needs: frozenset[Feature] = frozenset()
    window_seconds: float = 0.0
    blocking: bool = False

    def begin(self, now: CollectionRound) -> None:
        """Starts what is collected a window later; raises as :meth:`collect`."""
        return

    def collect(self, now: CollectionRound) -> Samples:
        """Measures.

        Raises:
            KoordError: nothing could be measured this time; what was before stays.
        """
        ...

    def stop(self) -> None:
        """Gives back descriptors and sessions."""
        return
