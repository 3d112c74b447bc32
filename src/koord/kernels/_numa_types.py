# SPDX-License-Identifier: Apache-2.0
"""The types of `koord.kernels.numa`, where users find them, and their way into native code."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TypeVar, overload

from koord._native.cluster import numa as _native

Amounts = Mapping[int, Mapping[str, int]]

_NATIVE_RESOURCES = frozenset({"memory", "ephemeral-storage"})
_LARGEST = 2**63 - 1
_E = TypeVar("_E", bound=Enum)


class TopologyPolicy(StrEnum):
    """How strictly a pod is aligned; the values are Koordinator's label values."""

    NONE = ""
    BEST_EFFORT = "BestEffort"
    RESTRICTED = "Restricted"
    SINGLE_NUMA_NODE = "SingleNUMANode"

    @classmethod
    def parse(cls, name: str) -> TopologyPolicy:
        """The policy a label or annotation names; ValueError for another name."""
        return cls[_native.parse_policy(name).name]


class Exclusive(StrEnum):
    """Whether pods of one zone and pods of several keep off each other's zones."""

    NONE = ""
    PREFERRED = "Preferred"
    REQUIRED = "Required"


class ZoneStatus(StrEnum):
    """Which pods hold CPUs of a zone: none, some that hold several zones', only its own."""

    IDLE = "idle"
    SHARED = "shared"
    SINGLE = "single"


class Strategy(StrEnum):
    """Whether emptier or fuller sets of zones score higher."""

    LEAST_ALLOCATED = "LeastAllocated"
    MOST_ALLOCATED = "MostAllocated"


def _natives(ours: type[StrEnum], native: type[_E]) -> dict[str, _E]:
    return {member: native.__members__[member.name] for member in ours}


# Looked up once: the members of a native enumeration are a new dictionary at every access.
POLICIES = _natives(TopologyPolicy, _native.Policy)
EXCLUSIVES = _natives(Exclusive, _native.Exclusive)
STATUSES = _natives(ZoneStatus, _native.Status)
STRATEGIES = _natives(Strategy, _native.Strategy)


class Zones:
    """The zones of a machine, and the masks over them."""

    __slots__ = ("_native", "ids", "known")

    def __init__(self, ids: Iterable[int]) -> None:
        """Takes 1 to 64 distinct ids in any order; ValueError otherwise."""
        self._native = _native.ZoneSet([int64("zone id", zone, 2**31 - 1) for zone in ids])
        self.ids = tuple(self._native.ids)
        self.known = frozenset(self.ids)

    @property
    def all(self) -> int:
        """The mask of all zones."""
        return self._native.all

    def mask(self, ids: Iterable[int]) -> int:
        """The mask of some zone ids; KeyError for an id the machine does not have."""
        return self._native.mask_of([int64("zone id", zone, 2**31 - 1) for zone in ids])

    def ids_of(self, mask: int) -> tuple[int, ...]:
        """The zone ids of a mask, ascending."""
        return tuple(self._native.ids_of(_mask("mask", mask)))

    def text(self, mask: int) -> str:
        """The mask in binary by zone id as messages show it: zones 0 and 2 are ``"0101"``."""
        return self._native.text(_mask("mask", mask))

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"Zones({list(self.ids)})"


@dataclass(frozen=True, slots=True)
class Hint:
    """A set of zones that could serve a resource; ``affinity`` None means any will do."""

    affinity: int | None = None
    preferred: bool = False
    unsatisfied: bool = False
    score: int = 0


class HintList(Sequence[Hint]):
    """An immutable list of hints that stays in native memory until it is looked at."""

    __slots__ = ("_native",)

    def __init__(self, hints: Iterable[Hint] = ()) -> None:
        self._native = _native.HintList(
            _native.Hint(
                None if hint.affinity is None else _mask("hint affinity", hint.affinity),
                hint.preferred,
                hint.unsatisfied,
                int64("hint score", hint.score),
            )
            for hint in hints
        )

    @classmethod
    def _wrap(cls, native: _native.HintList) -> HintList:
        wrapped = cls.__new__(cls)
        wrapped._native = native
        return wrapped

    def __len__(self) -> int:
        return len(self._native)

    @overload
    def __getitem__(self, index: int) -> Hint: ...
    @overload
    def __getitem__(self, index: slice) -> list[Hint]: ...
    def __getitem__(self, index: int | slice) -> Hint | list[Hint]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        return hint_of(self._native[range(len(self))[index]])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"HintList({list(self)})"


@dataclass(frozen=True, slots=True)
class CpuBinding:
    """The whole CPUs a pod wants bound, and what each zone can give.

    ``bindable`` counts free CPUs by zone id; under a ``required`` policy only those that can honour
    it (fully free cores for FullPCPUs, one CPU a core for SpreadByPCPUs). ``accepts`` has the last
    word on counts by zone that fit otherwise (None: anywhere on the machine); it is needed only
    where single threads of cores are preferred under required FullPCPUs.
    """

    needed: int
    bindable: Mapping[int, int]
    required: bool = False
    full_cores: bool = False
    threads_per_core: int = 1
    accepts: Callable[[dict[int, int] | None], bool] | None = None

    def _to_native(self, zones: Zones) -> _native.CpuSupply:
        accepts = self.accepts
        return _native.CpuSupply(
            int64("cpus needed", self.needed),
            by_position(self.bindable, zones),
            self.required,
            self.full_cores,
            int64("threads per core", self.threads_per_core),
            accepts
            and (lambda counts: accepts(counts and dict(zip(zones.ids, counts, strict=True)))),
        )


@dataclass(frozen=True, slots=True)
class Distribution:
    """How a request was spread: amounts by zone, zero shares left out, and what did not fit."""

    by_zone: dict[int, dict[str, int]]
    insufficient: tuple[str, ...]

    @property
    def reasons(self) -> list[str]:
        """The scheduler's message for each resource that did not fit."""
        return [f"Insufficient NUMA {resource}" for resource in self.insufficient]


@dataclass(frozen=True, slots=True)
class Scorer:
    """Scores 0 to 100 by weighted use; resources without a weight do not count."""

    strategy: Strategy = Strategy.LEAST_ALLOCATED
    weights: Mapping[str, int] = field(default_factory=lambda: {"cpu": 1, "memory": 1})

    def score(
        self, requested: Mapping[str, int], allocatable: Mapping[str, int], pod: Mapping[str, int]
    ) -> int:
        """The score of a place where ``requested`` is in use and the pod comes on top."""
        names = list(self.weights)
        terms = [
            _native.ScoreTerm(
                kind_of(name),
                *(int64(name, side.get(name, 0)) for side in (requested, allocatable, pod)),
            )
            for name in names
        ]
        return _native.score(self._to_native(names), terms)

    def _to_native(self, names: Sequence[str]) -> _native.Scorer:
        strategy = STRATEGIES[self.strategy]
        return _native.Scorer(
            strategy, [int64("weight", self.weights.get(name, 0)) for name in names]
        )


@dataclass(frozen=True, slots=True)
class Pool:
    """One way to allocate: what a reservation or the node has, and the CPUs it can bind."""

    available: Amounts
    cpus: CpuBinding | None = None

    def _to_native(self, zones: Zones, names: Sequence[str]) -> _native.Pool:
        cpus = None if self.cpus is None else self.cpus._to_native(zones)
        return _native.Pool(columns_of(self.available, zones, names), cpus)


@dataclass(frozen=True, slots=True)
class Provider:
    """What one hint provider says: hints by resource (None: no preference), or why it failed."""

    hints: Mapping[str, Sequence[Hint] | None] = field(default_factory=dict)
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """The affinity chosen for a pod, whether it may run, and why not."""

    hint: Hint
    admitted: bool
    reasons: list[str]


@dataclass(frozen=True, slots=True)
class EffectivePolicy:
    """The policy that holds for a pod on a node; ``conflict`` says why none can."""

    policy: TopologyPolicy
    exclusive: Exclusive
    conflict: str


def columns_of(table: Amounts, zones: Zones, names: Sequence[str]) -> list[_native.Column]:
    """One native column a name; KeyError for a zone that is not one of ``zones``."""
    zones.mask(table)
    rows = [table.get(zone, {}) for zone in zones.ids]
    return [
        _native.Column(
            kind_of(name),
            sum(1 << position for position, row in enumerate(rows) if name in row),
            [int64(name, row.get(name, 0)) for row in rows],
        )
        for name in names
    ]


def by_position(counts: Mapping[int, int], zones: Zones) -> list[int]:
    """Counts in the order of the zones, 0 where missing; KeyError for an unknown zone."""
    if not counts.keys() <= zones.known:
        zones.mask(counts)
    return [int64("cpus", counts.get(zone, 0)) for zone in zones.ids]


def kind_of(name: str) -> _native.Kind:
    """What the rules take a resource for."""
    if name == "cpu":
        return _native.Kind.CPU
    return _native.Kind.NATIVE if name in _NATIVE_RESOURCES else _native.Kind.SCALAR


def hint_of(native: _native.Hint) -> Hint:
    """The public form of a native hint."""
    return Hint(native.affinity, native.preferred, native.unsatisfied, native.score)


# What does not fit the native integers would be a TypeError there, without the name of the field.
def int64(field_name: str, value: int, largest: int = _LARGEST) -> int:
    """The value itself if it is within ``largest``, else ValueError."""
    if -largest <= value <= largest:
        return value
    raise ValueError(f"{field_name}: got '{value}', expected a number within {largest}")


def count(field_name: str, value: int) -> int:
    """The value itself if it can be a count, else ValueError."""
    if 0 <= value < 2**31:
        return value
    raise ValueError(f"{field_name}: got '{value}', expected a number of them")


def _mask(field_name: str, mask: int) -> int:
    if 0 <= mask < 2**64:
        return mask
    raise ValueError(f"{field_name}: got '{mask}', expected a mask of 64 bits")
