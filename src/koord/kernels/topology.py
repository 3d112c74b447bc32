# SPDX-License-Identifier: Apache-2.0
"""What a machine is made of, which pods hold its CPUs, and which CPUs the next pod gets.

The rules are those of Koordinator's CPU accumulator; ``docs/kernels/topology.md`` tells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from os import PathLike, fsencode
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from koord._native.core import topology as _native
from koord.kernels.cpuset import CPUSet

#: CPU ids, a cpu list such as ``"0-3,8"`` or a :class:`~koord.kernels.cpuset.CPUSet`.
CPUs = CPUSet | Iterable[int] | str
_SetOrNone = TypeVar("_SetOrNone", CPUs, CPUs | None)

_UNKNOWN = -1


class BindPolicy(StrEnum):
    """How the CPUs of one pod lie on cores."""

    DEFAULT = "Default"  # spread, with nothing to require
    FULL_PCPUS = "FullPCPUs"
    SPREAD_BY_PCPUS = "SpreadByPCPUs"


class ExclusivePolicy(StrEnum):
    """What a pod would rather not share with pods of the same policy."""

    NONE = "None"
    PCPU_LEVEL = "PCPULevel"
    NUMA_NODE_LEVEL = "NUMANodeLevel"


class NUMAStrategy(StrEnum):
    """Which NUMA nodes and sockets are tried first: the fullest or the emptiest."""

    MOST_ALLOCATED = "MostAllocated"
    LEAST_ALLOCATED = "LeastAllocated"
    DISTRIBUTE_EVENLY = "DistributeEvenly"  # to the picker the same as LEAST_ALLOCATED


class NUMAStatus(StrEnum):
    """Whether a NUMA node's pods lie on it alone."""

    IDLE = "idle"
    SINGLE = "single"
    SHARED = "shared"


#: Every pass of the rules in the order in which they are tried, with what it does.
PASSES: dict[str, str] = dict(_native.passes())


class CPU(NamedTuple):
    """One logical CPU; None is what the kernel does not tell.

    ``core`` is unique in the machine.
    """

    cpu: int
    core: int | None
    socket: int | None
    node: int | None
    l3: int | None
    online: bool


class Summary(NamedTuple):
    """Counts over the online CPUs; None where the kernel tells of no CPU."""

    cpus: int
    cores: int | None
    sockets: int | None
    nodes: int | None
    l3: int | None
    threads_per_core: int | None  # the most that any core has


class Topology:
    """An immutable machine."""

    __slots__ = ("_native",)

    def __init__(self, native: _native.Topology) -> None:
        self._native = native

    @classmethod
    def from_sysfs(cls, root: str | PathLike[str] = "/") -> Topology:
        """Reads the machine whose ``sys`` directory lies below ``root``: this one, or a dump.

        Raises:
            OSError: a file cannot be read.
            ValueError: ``root`` has no ``sys/devices/system/cpu``, or a file makes no sense; the
                message names it.
        """
        return cls(_native.Topology.from_sysfs(fsencode(root)))

    @classmethod
    def from_cpus(
        cls,
        cpu: npt.ArrayLike,
        *,
        core: npt.ArrayLike | None = None,
        socket: npt.ArrayLike | None = None,
        node: npt.ArrayLike | None = None,
        l3: npt.ArrayLike | None = None,
        online: npt.ArrayLike | None = None,
    ) -> Topology:
        """Builds a machine from columns of ids, one row a CPU; -1 or no column is unknown.

        Cores are told apart by (socket, core), as in a NodeResourceTopology, and numbered anew.

        Raises:
            ValueError: columns of different length or type, an id out of range or given twice,
                one core on two nodes, no CPU online.
        """
        cpus = _column("cpu", cpu, None, 0)
        rows = len(cpus)
        return cls(
            _native.Topology.from_columns(
                cpus,
                _column("core", core, rows, _UNKNOWN),
                _column("socket", socket, rows, _UNKNOWN),
                _column("node", node, rows, _UNKNOWN),
                _column("l3", l3, rows, _UNKNOWN),
                _column("online", online, rows, 1),
            )
        )

    @property
    def cpus(self) -> list[CPU]:
        """Every CPU that is present, offline ones too, ascending by id."""
        return [CPU(*row) for row in self._native.cpus()]

    @property
    def online(self) -> CPUSet:
        """The CPUs that can be picked."""
        return CPUSet.from_ids(self._native.online())

    def summary(self) -> Summary:
        """How many there are of everything."""
        return Summary(*self._native.summary())

    def pick(
        self,
        count: int,
        *,
        bind: str = BindPolicy.DEFAULT,
        strategy: str = NUMAStrategy.LEAST_ALLOCATED,
        within: CPUs | None = None,
    ) -> Pick:
        """Picks on this machine as if no pod were there; see :meth:`CPUState.pick`."""
        return CPUState(self).pick(count, bind=bind, strategy=strategy, within=within)

    def __repr__(self) -> str:
        parts = ", ".join(f"{name}={value}" for name, value in self.summary()._asdict().items())
        return f"Topology({parts})"


class Pick:
    """An answer of the picker; false when there is none, and ``reason`` says why."""

    __slots__ = ("_bind", "_native")

    def __init__(self, native: _native.Pick, bind: str) -> None:
        self._native = native
        self._bind = bind

    def __bool__(self) -> bool:
        return self._native.ok

    @property
    def cpus(self) -> CPUSet:
        """The CPUs: as many as asked for, or none."""
        return CPUSet.parse(self._native.cpu_list)

    @property
    def cpu_list(self) -> str:
        """The CPUs as Linux writes them, e.g. ``0-3,8``."""
        return self._native.cpu_list

    @property
    def passes(self) -> list[str]:
        """The passes, see :data:`PASSES`, that gave CPUs beyond the preferred ones."""
        return self._native.passes

    @property
    def preferred_passes(self) -> list[str]:
        """The passes that gave CPUs out of the preferred ones."""
        return self._native.preferred_passes

    @property
    def pass_name(self) -> str:
        """All passes joined by ``+``, the preferred half's first and behind ``preferred:``."""
        return self._native.pass_name

    @property
    def reason(self) -> str:
        """Why there is no answer, in Koordinator's words; empty when there is one."""
        return self._native.reason(self._bind)

    def __repr__(self) -> str:
        if self:
            return f"Pick({self.cpu_list!r}, {self.pass_name!r})"
        return f"Pick(reason={self.reason!r})"


class CPUState:
    """Which pods hold which CPUs of one machine; changed in place, for one thread at a time."""

    __slots__ = ("_native", "topology")

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self._native = _native.CPUState(topology._native)

    def add(self, uid: str, cpus: CPUs, exclusive: str = ExclusivePolicy.NONE) -> bool:
        """Gives CPUs to a pod; its exclusive policy replaces that of earlier pods on them.

        Ids that the machine lacks or has offline are kept with the pod and count nowhere.

        Returns:
            False, and nothing is changed, when the uid is known.
        """
        return self._native.add(uid, _plain(cpus), exclusive)

    def release(self, uid: str) -> bool:
        """Takes a pod's CPUs back; False when the uid is unknown."""
        return self._native.release(uid)

    def update(self, uid: str, cpus: CPUs, exclusive: str = ExclusivePolicy.NONE) -> None:
        """Releases the pod if it is known, then adds it."""
        self._native.update(uid, _plain(cpus), exclusive)

    def cpus_of(self, uid: str) -> CPUSet:
        """The CPUs of a pod.

        Raises:
            KeyError: the uid is unknown.
        """
        ids = self._native.cpus_of(uid)
        if ids is None:
            raise KeyError(f"uid: got {uid!r}, expected a pod of this node")
        return CPUSet.from_ids(ids)

    def ref_count(self, cpu: int) -> int:
        """How many pods hold the CPU."""
        return self._native.ref_count(cpu)

    def allocated(self) -> CPUSet:
        """The CPUs that a pod holds."""
        return CPUSet.from_ids(self._native.allocated())

    def numa_status(self, node: int) -> NUMAStatus:
        """The status of a NUMA node; idle for one that the machine lacks."""
        return NUMAStatus(self._native.numa_status(node))

    def available(
        self,
        *,
        bind: str = BindPolicy.DEFAULT,
        required: bool = False,
        max_ref_count: int = 1,
        reserved: CPUs | None = None,
        preferred: CPUs | None = None,
        preemptible: Sequence[CPUs] | None = None,
        within: CPUs | None = None,
    ) -> CPUSet:
        """The CPUs that :meth:`pick` would choose from with the same arguments."""
        return CPUSet.from_ids(
            self._native.available(
                bind, required, max_ref_count,
                _plain(reserved), _plain(preferred), _plain_all(preemptible), _plain(within),
            )
        )  # fmt: skip

    def count_available(
        self,
        *,
        bind: str = BindPolicy.DEFAULT,
        required: bool = False,
        max_ref_count: int = 1,
        reserved: CPUs | None = None,
        preferred: CPUs | None = None,
        preemptible: Sequence[CPUs] | None = None,
        within: CPUs | None = None,
    ) -> list[tuple[int | None, int]]:
        """How many CPUs :meth:`available` has, by NUMA node and ascending by its id.

        None is a node that the kernel does not tell of; there may be one a socket.
        """
        return self._native.count_available(
            bind, required, max_ref_count,
            _plain(reserved), _plain(preferred), _plain_all(preemptible), _plain(within),
        )  # fmt: skip

    def fingerprint(self) -> bytes:
        """Equal for two states of one machine only if every question has the same answer in both.

        That is: which CPUs are held, by how many pods, which exclusive policies count, and the
        status of each NUMA node. Not stable between versions.
        """
        return self._native.fingerprint()

    def pick(
        self,
        count: int,
        *,
        bind: str = BindPolicy.DEFAULT,
        required: bool = False,
        exclusive: str = ExclusivePolicy.NONE,
        strategy: str = NUMAStrategy.LEAST_ALLOCATED,
        max_ref_count: int = 1,
        reserved: CPUs | None = None,
        preferred: CPUs | None = None,
        preemptible: Sequence[CPUs] | None = None,
        within: CPUs | None = None,
    ) -> Pick:
        """Chooses CPUs for one pod; the state stays as it is.

        Args:
            count: how many; below 1 gives an empty answer.
            bind: how they should lie on cores.
            required: no answer rather than one that breaks the bind policy.
            exclusive: whom to keep away from; given up where it cannot be had.
            strategy: which nodes and sockets come first.
            max_ref_count: how many pods may hold a CPU at once.
            reserved: never chosen.
            preferred: given back once, and chosen before all others.
            preemptible: sets of which each is given back once.
            within: the only CPUs to choose from, e.g. those of a NUMA node.

        Raises:
            ValueError: an unknown policy or strategy, a bad CPU id or list.
        """
        native = self._native.pick(
            count, bind, required, exclusive, strategy, max_ref_count,
            _plain(reserved), _plain(preferred), _plain_all(preemptible), _plain(within),
        )  # fmt: skip
        return Pick(native, bind)

    def __repr__(self) -> str:
        return f"CPUState({self.topology!r}, allocated={str(self.allocated())!r})"


def _plain(cpus: _SetOrNone) -> _SetOrNone | str:
    """The text of a set: it crosses into C++ many times as fast as the set id by id."""
    return str(cpus) if isinstance(cpus, CPUSet) else cpus


def _plain_all(sets: Sequence[CPUs] | None) -> list[CPUs] | None:
    return None if sets is None else [_plain(cpus) for cpus in sets]


def _column(
    name: str, values: npt.ArrayLike | None, length: int | None, missing: int
) -> npt.NDArray[np.int32]:
    if values is None:
        return np.full(length or 0, missing, dtype=np.int32)
    column = np.asarray(values)
    if column.ndim != 1 or (column.dtype.kind not in "biu" and column.size):
        raise ValueError(
            f"{name}: got {column.dtype} of {column.ndim} dimensions, expected a column of integers"
        )
    if length is not None and len(column) != length:
        raise ValueError(f"{name}: got {len(column)} values, expected {length}, one a cpu")
    limits = np.iinfo(np.int32)
    if column.size and not limits.min <= int(column.min()) <= int(column.max()) <= limits.max:
        raise ValueError(f"{name}: got a number beyond 32 bits, expected ids of at most 2147483647")
    return np.ascontiguousarray(column, dtype=np.int32)
