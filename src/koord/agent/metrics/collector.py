# SPDX-License-Identifier: Apache-2.0
"""What a collector is, and what it is given each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from koord.agent.states.snapshot import NEVER, Aged

if TYPE_CHECKING:
    from koord.agent.host.block import Storage
    from koord.agent.host.cpuinfo import CPUInfo
    from koord.agent.host.features import Feature
    from koord.agent.host.gpus import GPU
    from koord.agent.host.machine import Machine
    from koord.agent.host.meminfo import HugePages
    from koord.agent.host.proc_stat import CPUTicks
    from koord.agent.host.rdma import RDMADevice
    from koord.agent.host.xpu import XPUDevice
    from koord.agent.metrics.groups import Groups
    from koord.agent.metrics.samples import Samples
    from koord.agent.states.snapshot import Snapshot
    from koord.base.clock import Clock


_UNKNOWN: Aged[None] = Aged(None)
_NOTHING: Aged[tuple[()]] = Aged(())
_NO_TEXT: Aged[str] = Aged("")
_NO_FIGURES: Aged[dict[int, float]] = Aged({})


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU in cores and memory in bytes."""

    cpu_cores: float
    memory_bytes: float


@dataclass(slots=True)
class Board:
    """What collectors tell each other, each entry with its age in monotonic seconds.

    Attributes:
        ticks, meminfo: /proc/stat and /proc/meminfo as read in the last round.
        node, pods, host_applications: usage of the whole machine, and sums over the others.
        node_numa_cpu, node_numa_memory, pods_numa_memory: by NUMA node; cores and bytes.
    """

    ticks: Aged[CPUTicks] | None = None
    meminfo: Aged[dict[str, int]] | None = None
    node: Aged[Usage | None] = _UNKNOWN
    pods: Aged[Usage | None] = _UNKNOWN
    host_applications: Aged[Usage | None] = _UNKNOWN
    node_numa_cpu: Aged[dict[int, float]] = _NO_FIGURES
    node_numa_memory: Aged[dict[int, float]] = _NO_FIGURES
    pods_numa_memory: Aged[dict[int, float]] = _NO_FIGURES


@dataclass(frozen=True, slots=True)
class NUMAMemory:
    """A NUMA node's memory, in bytes as its ``meminfo`` says, and its huge pages."""

    node: int
    meminfo: dict[str, int]
    huge_pages: tuple[HugePages, ...]


@dataclass(slots=True)
class Facts:
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

    cpu: Aged[CPUInfo | None] = _UNKNOWN
    cbm_mask: Aged[str] = _NO_TEXT
    numa: Aged[tuple[NUMAMemory, ...]] = _NOTHING
    gpus: Aged[tuple[GPU, ...]] = _NOTHING
    gpu_driver: str = ""
    xpus: Aged[tuple[XPUDevice, ...]] = _NOTHING
    rdma: Aged[tuple[RDMADevice, ...]] = _NOTHING
    storage: Aged[Storage | None] = _UNKNOWN


@dataclass(frozen=True, slots=True)
class Round:
    """What a collector may look at; the same for all that are due at the same time.

    Attributes:
        now_seconds: monotonic, for ages and rates.
        now_ms: wall time, for samples.
        snapshot: what the cluster says.
        machine: what the host is.
        groups: the cgroups of pods and containers, each file of them read once a round.
        board: what other collectors found.
        facts: what is no series; collectors write here.
        clock: for readings that take their time within the round.
    """

    now_seconds: float
    now_ms: int
    snapshot: Snapshot
    machine: Machine
    groups: Groups
    board: Board
    facts: Facts
    clock: Clock

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

    def begin(self, now: Round) -> None:
        """Starts what is collected a window later; raises as :meth:`collect`."""
        return

    def collect(self, now: Round) -> Samples:
        """Measures.

        Raises:
            KoordError: nothing could be measured this time; what was before stays.
        """
        ...

    def stop(self) -> None:
        """Gives back descriptors and sessions."""
        return
