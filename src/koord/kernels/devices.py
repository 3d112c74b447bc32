# SPDX-License-Identifier: Apache-2.0
"""Devices of one type on many nodes, and the fragmentation measure.

A device is known by its minor, 0..63. Amounts are integers in the unit that the resource's name
stands for; the node table's GPUs count compute in milli, 1000 a whole GPU.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from koord._native.cluster import devices as _native

FRAGMENT_CLASSES = (
    "q1_lack_both", "q2_lack_gpu", "q3_satisfied", "q4_lack_cpu", "xl_satisfied", "xr_lack_cpu",
    "no_access",
)  # fmt: skip


class Choice(StrEnum):
    """Which of the fitting devices a share gets; ties go to the lowest minor."""

    FIRST = "first"
    BEST = "best"
    WORST = "worst"
    RANDOM = "random"


class Strategy(StrEnum):
    """How devices are scored: by what is left or by what is used."""

    NONE = "None"
    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"


@dataclass(frozen=True, slots=True)
class Device:
    """One device as its node reports it.

    Attributes:
        minor: its number on the node, 0..63.
        total: amount of each resource; those left out are 0.
        numa_node: -1 if it belongs to every NUMA node, -2 if nobody knows where it sits.
        pcie: id of its PCIe root, -1 if unknown.
        labels: ``key=value`` words.
        healthy: an unhealthy device has a total of zero.
    """

    minor: int
    total: Mapping[str, int]
    numa_node: int = -1
    pcie: int = -1
    labels: Sequence[str] = ()
    healthy: bool = True

    def native(self, resources: Sequence[str]) -> _native.Device:
        """The device with its amounts in the order of ``resources``."""
        total = amounts(self.total, resources)
        return _native.Device(
            self.minor, total, self.numa_node, self.pcie, list(self.labels), self.healthy
        )


@dataclass(frozen=True, slots=True)
class Constraints:
    """Narrows the devices that :meth:`DeviceTable.allocate` considers and says which come first.

    Attributes:
        numa_nodes: only devices of these NUMA nodes; None for all.
        required: only these minors; None for all.
        preferred: minors taken before all others.
        preferred_pcies: PCIe roots taken in turn, the best device of each first.
        labels: a device must carry all of them.
    """

    numa_nodes: Iterable[int] | None = None
    required: Iterable[int] | None = None
    preferred: Iterable[int] = ()
    preferred_pcies: Sequence[int] = ()
    labels: Sequence[str] = ()

    def native(self) -> _native.Constraints:
        """The same with sets as bit masks."""
        return _native.Constraints(
            None if self.numa_nodes is None else mask(self.numa_nodes, "numa node"),
            None if self.required is None else mask(self.required),
            mask(self.preferred),
            list(self.preferred_pcies),
            list(self.labels),
        )


class DeviceTable:
    """Device state of many nodes, column by column.

    Args:
        resources: names of what each device has, at most 8.

    Attributes:
        native: the compiled table.
    """

    def __init__(self, resources: Sequence[str]) -> None:
        self.native = _native.DeviceTable(list(resources))
        self._resources = tuple(resources)

    def __len__(self) -> int:
        return len(self.native)

    def __repr__(self) -> str:
        return f"DeviceTable({list(self._resources)}, {len(self)} nodes)"

    @property
    def resources(self) -> tuple[str, ...]:
        """Names of what each device has."""
        return self._resources

    def add_row(self, devices: Iterable[Device]) -> int:
        """Adds a node and returns its row. ValueError for a bad minor or amount."""
        return self.native.add_row([device.native(self._resources) for device in devices])

    def update_row(self, row: int, devices: Iterable[Device]) -> None:
        """Replaces what a node has; what is used stays used."""
        self.native.update_row(row, [device.native(self._resources) for device in devices])

    def free(self, row: int, resource: str) -> list[int]:
        """Free amounts by minor."""
        return self.native.free(row, _index(resource, self._resources))

    def total(self, row: int, resource: str) -> list[int]:
        """Total amounts by minor."""
        return self.native.total(row, _index(resource, self._resources))

    def used(self, row: int, resource: str) -> list[int]:
        """Used amounts by minor."""
        return self.native.used(row, _index(resource, self._resources))

    def idle(self, row: int) -> list[int]:
        """Minors of which nothing is used."""
        return minors(self.native.idle(row))

    def fitting(self, row: int, each: Mapping[str, int]) -> list[int]:
        """Minors with at least ``each`` free."""
        return minors(self.native.fitting(row, amounts(each, self._resources)))

    def choose(
        self,
        row: int,
        each: Mapping[str, int],
        count: int = 1,
        choice: Choice = Choice.BEST,
        seed: int = 0,
    ) -> list[int] | None:
        """Minors by how much of the first resource is left, or None if too few fit.

        Whole devices are taken lowest minor first, whatever the choice.
        """
        request = _native.Request(amounts(each, self._resources), count)
        native = getattr(_native.Choice, choice.name)
        return minors(self.native.choose(row, request, native, seed)) or None

    def allocate(
        self,
        row: int,
        each: Mapping[str, int],
        count: int = 1,
        constraints: Constraints | None = None,
        strategy: Strategy = Strategy.NONE,
        weights: Mapping[str, int] | None = None,
    ) -> list[int] | None:
        """Minors as Koordinator's default device allocator picks them, or None if too few qualify.

        Preferred minors come first, then the higher score, then the lower minor. With preferred
        PCIe roots at least one device of each is taken where they suffice.
        """
        request = _native.Request(amounts(each, self._resources), count)
        wanted = (constraints or Constraints()).native()
        scoring = self._scoring(strategy, weights)
        return minors(self.native.allocate(row, request, wanted, scoring)) or None

    def score(
        self,
        row: int,
        each: Mapping[str, int],
        strategy: Strategy,
        weights: Mapping[str, int] | None = None,
    ) -> int:
        """What a node is worth, 0..100, if ``each`` were used there; all its devices as one."""
        request = _native.Request(amounts(each, self._resources), 1)
        return self.native.score(row, request, self._scoring(strategy, weights))

    def take(self, row: int, chosen: Iterable[int], each: Mapping[str, int]) -> None:
        """Uses ``each`` on every chosen minor. ValueError if that is more than is free."""
        self.native.take(row, mask(chosen), amounts(each, self._resources))

    def give_back(self, row: int, chosen: Iterable[int], each: Mapping[str, int]) -> None:
        """The exact inverse of :meth:`take`. ValueError if that is more than is used."""
        self.native.give_back(row, mask(chosen), amounts(each, self._resources))

    def listed(self, row: int) -> list[int]:
        """Minors that the node reported last, healthy or not."""
        return minors(self.native.listed(row))

    def charge(self, row: int, minor: int, each: Mapping[str, int]) -> None:
        """Books what a pod holds that others placed, be it more than is free or an unknown minor.

        ValueError for a minor or an amount out of range.
        """
        self.native.charge(row, minor, amounts(each, self._resources))

    def discharge(self, row: int, minor: int, each: Mapping[str, int]) -> None:
        """The exact inverse of :meth:`charge`. ValueError if that is more than is used."""
        self.native.discharge(row, minor, amounts(each, self._resources))

    def _scoring(self, strategy: Strategy, weights: Mapping[str, int] | None) -> _native.Scoring:
        by_name = dict.fromkeys(self._resources, 1) if weights is None else weights
        return _native.Scoring(
            getattr(_native.Strategy, strategy.name), amounts(by_name, self._resources)
        )


@dataclass(frozen=True, order=True, slots=True)
class PodShape:
    """What a pod asks for, as far as fragmentation sees it.

    Attributes:
        cpu_milli: requested CPU.
        gpu_milli: requested of each GPU; 0 for a CPU-only pod.
        gpu_count: how many GPUs.
        gpu_spec: allowed GPU models separated by ``|``; empty for any.
    """

    cpu_milli: int
    gpu_milli: int = 0
    gpu_count: int = 0
    gpu_spec: str = ""

    def native(self) -> _native.PodShape:
        """The compiled twin."""
        return _native.PodShape(self.cpu_milli, self.gpu_milli, self.gpu_count, self.gpu_spec)


@dataclass(frozen=True, slots=True)
class TypicalPods:
    """The shapes expected to arrive and how often; frequencies add up to 1."""

    frequencies: Mapping[PodShape, float] = field(default_factory=dict)

    @classmethod
    def count(cls, pods: Mapping[PodShape, int], coverage_percent: int = 95) -> TypicalPods:
        """The most frequent shapes that together cover so many percent of all pods.

        Equally frequent shapes count largest first. ValueError for negative amounts or counts.
        """
        counted = [(shape.native(), count) for shape, count in pods.items()]
        typical = _native.typical_pods(counted, coverage_percent)
        return cls({
            PodShape(pod.cpu_milli, pod.gpu_milli, pod.gpu_count, pod.gpu_spec): frequency
            for pod, frequency in typical
        })  # fmt: skip


class Fragmentation:
    """How much free GPU capacity of a node is useless to typical pods.

    The measure of Weng et al., "Beware of Fragmentation" (USENIX ATC 2023).
    """

    def __init__(self, typical: TypicalPods) -> None:
        self.typical = typical
        self.native = _native.FragmentationMeasure(
            [(shape.native(), frequency) for shape, frequency in typical.frequencies.items()]
        )

    def __repr__(self) -> str:
        return f"Fragmentation({len(self.typical.frequencies)} typical pods)"

    def classes(
        self, cpu_milli: int, gpu_milli: Sequence[int], model: str = ""
    ) -> dict[str, float]:
        """Free GPU milli of a node by what typical pods could do with them; they add up to all.

        Args:
            cpu_milli: free CPU of the node.
            gpu_milli: free milli of each of its GPUs, 0..1000.
            model: the GPUs' model.
        """
        sums = self.native.sums(cpu_milli, gpu_milli, model)
        return dict(zip(FRAGMENT_CLASSES, sums, strict=True))

    def amount(self, cpu_milli: int, gpu_milli: Sequence[int], model: str = "") -> float:
        """GPU milli that are fragments: all classes but ``q3_satisfied``."""
        return _native.fragment_amount(self.native.sums(cpu_milli, gpu_milli, model))


def complete_memory(card_bytes: int, *, size_bytes: int = 0, percent: int = 0) -> tuple[int, int]:
    """GPU memory as bytes and as percent of the card, given either.

    The percentage is truncated. ValueError for a card without memory.
    """
    return _native.complete_memory(size_bytes, percent, card_bytes)


def gradient_score(before_milli: float, after_milli: float) -> int:
    """0..100 for a change of the fragmentation amount; 50 is no change, more is better."""
    return _native.gradient_score(before_milli, after_milli)


def amounts(by_name: Mapping[str, int], resources: Sequence[str]) -> list[int]:
    """Amounts in the order of ``resources``, 0 where none is given. KeyError for another name."""
    for name in by_name:
        _index(name, resources)
    return [by_name.get(name, 0) for name in resources]


def mask(members: Iterable[int], what: str = "minor") -> int:
    """A set of numbers 0..63 as a word. ValueError for another number."""
    bits = 0
    for member in members:
        if not 0 <= member < 64:
            raise ValueError(f"{what}: got {member!r}, expected 0 to 63")
        bits |= 1 << member
    return bits


def minors(bits: int) -> list[int]:
    """The members of a :func:`mask`, ascending."""
    return [minor for minor in range(bits.bit_length()) if bits >> minor & 1]


def _index(resource: str, resources: Sequence[str]) -> int:
    if resource in resources:
        return list(resources).index(resource)
    raise KeyError(f"resource: got {resource!r}, expected one of {', '.join(resources)}")
