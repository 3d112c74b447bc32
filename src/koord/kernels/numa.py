# SPDX-License-Identifier: Apache-2.0
"""NUMA alignment: what zones have left, how requests spread over them, hints, merge and policies.

A zone is a NUMA node, named by its id (0 to 1023, at most 64 of them, sparse ids allowed). Sets of
zones are integer masks by *position* in `Zones`, which is ascending by id. Amounts are plain
integers in base units, CPU (`"cpu"`) in milli, as mappings ``{zone id: {resource: amount}}``.

The rules are those of Koordinator's NodeNUMAResource plugin and of the kubelet's topology manager;
``docs/kernels/numa.md`` tells them in full. Every function is pure. Wrong input raises ValueError,
an unknown zone id KeyError, both with one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TypeVar, overload

from koord._native.core import numa as _native

__all__ = [
    "Amounts",
    "CpuBinding",
    "Decision",
    "Distribution",
    "EffectivePolicy",
    "Exclusive",
    "Hint",
    "HintList",
    "Pool",
    "Provider",
    "Scorer",
    "Strategy",
    "TopologyPolicy",
    "ZoneStatus",
    "Zones",
    "admit",
    "available",
    "distribute",
    "effective_policy",
    "enumerate_masks",
    "generate_hints",
    "merge",
    "reported_policy",
    "zone_status",
]

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


class Zones:
    """The zones of a machine, and the masks over them."""

    __slots__ = ("_native", "ids")

    def __init__(self, ids: Iterable[int]) -> None:
        """Takes 1 to 64 distinct ids in any order; ValueError otherwise."""
        self._native = _native.ZoneSet([_int64("zone id", zone, 2**31 - 1) for zone in ids])
        self.ids = tuple(self._native.ids)

    @property
    def all(self) -> int:
        """The mask of all zones."""
        return self._native.all

    def mask(self, ids: Iterable[int]) -> int:
        """The mask of some zone ids; KeyError for an id the machine does not have."""
        return self._native.mask_of([_int64("zone id", zone, 2**31 - 1) for zone in ids])

    def ids_of(self, mask: int) -> tuple[int, ...]:
        """The zone ids of a mask, ascending."""
        return tuple(self._native.ids_of(mask))

    def text(self, mask: int) -> str:
        """The mask in binary by zone id as messages show it: zones 0 and 2 are ``"0101"``."""
        return self._native.text(mask)

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
                _mask(hint.affinity),
                hint.preferred,
                hint.unsatisfied,
                _int64("hint score", hint.score),
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
        return _hint(self._native[range(len(self))[index]])

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
            _int64("cpus needed", self.needed),
            _by_position(self.bindable, zones),
            self.required,
            self.full_cores,
            _int64("threads per core", self.threads_per_core),
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
                _kind(name),
                *(_int64(name, side.get(name, 0)) for side in (requested, allocatable, pod)),
            )
            for name in names
        ]
        return _native.score(self._to_native(names), terms)

    def _to_native(self, names: Sequence[str]) -> _native.Scorer:
        strategy = _member(_native.Strategy, self.strategy)
        return _native.Scorer(
            strategy, [_int64("weight", self.weights.get(name, 0)) for name in names]
        )


@dataclass(frozen=True, slots=True)
class Pool:
    """One way to allocate: what a reservation or the node has, and the CPUs it can bind."""

    available: Amounts
    cpus: CpuBinding | None = None

    def _to_native(self, zones: Zones, names: Sequence[str]) -> _native.Pool:
        cpus = None if self.cpus is None else self.cpus._to_native(zones)
        return _native.Pool(_columns(self.available, zones, names), cpus)


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


def enumerate_masks(zones: int) -> list[int]:
    """All non-empty masks over 1 to 16 zones: by size, then 0, 1, 2, 01, 02, 12, 012."""
    return _native.enumerate_masks(zones)


def available(
    total: Amounts,
    used: Amounts,
    *,
    reusable: Amounts | None = None,
    bound_cpus: Mapping[int, int] | None = None,
    cpu_ratio: float = 1.0,
) -> dict[int, dict[str, int]]:
    """What every zone has left: ``total - (used - reusable)``, both clamped at zero.

    Zones without an entry in ``used`` are untouched. With a ``cpu_ratio`` above 1 each of the
    ``bound_cpus`` (count by zone) uses that many times 1000m, rounded up over the zone.
    """
    zones = Zones(total)
    # Amplified CPUs are in use also where no table mentions CPU.
    amplified = {0: {"cpu": 0}} if cpu_ratio > 1 else {}
    names = _names(total, used, reusable or {}, amplified)
    left = _native.available(
        _columns(total, zones, names),
        zones.mask(used),
        _columns(used, zones, names),
        _columns(reusable or {}, zones, names),
        _by_position(bound_cpus or {}, zones),
        cpu_ratio,
    )
    result: dict[int, dict[str, int]] = {zone: {} for zone in zones.ids}
    for name, column in zip(names, left, strict=True):
        for position, amount in enumerate(column.amount):
            if column.listed >> position & 1:
                result[zones.ids[position]][name] = amount
    return result


def distribute(
    available: Amounts,
    requests: Mapping[str, int],
    affinity: Iterable[int],
    *,
    cpus: CpuBinding | None = None,
) -> Distribution:
    """Spreads requests evenly over the zones of ``affinity``.

    For each resource that some zone lists, zones give in ascending order of what they have (ties by
    id), each at most an even share of what remains. With ``cpus`` CPU moves in whole ones (whole
    cores under required FullPCPUs), and a required policy caps a zone by what it can bind.
    """
    zones = Zones(available)
    names = _names(available, {0: requests})
    requested = sorted(requests)
    demands = _demands(requests, requests, names)
    taken, missing = _native.distribute(
        _columns(available, zones, names),
        demands,
        zones.mask(affinity),
        len(zones),
        None if cpus is None else cpus._to_native(zones),
    )
    by_zone: dict[int, dict[str, int]] = {}
    for position, zone in enumerate(zones.ids):
        shares = {n: taken[i * len(zones) + position] for i, n in enumerate(requested)}
        if any(shares.values()):
            by_zone[zone] = {name: amount for name, amount in shares.items() if amount}
    return Distribution(by_zone, tuple(requested[i] for i in missing))


def generate_hints(
    total: Amounts,
    available: Amounts,
    requests: Mapping[str, int],
    policy: TopologyPolicy,
    *,
    pools: Sequence[Pool] = (),
    amplified: Mapping[str, int] | None = None,
    scorer: Scorer | None = None,
) -> dict[str, HintList]:
    """The sets of zones on which a pod fits, for each requested resource that some zone lists.

    Scores and missing resources are judged by ``available``; a set of zones is feasible when one of
    the ``pools`` (by default ``available`` itself) can serve all requests on it. ``amplified`` are
    the requests as scoring sees them. An empty list means that nothing fits. At most 16 zones.
    """
    zones = Zones(total)
    chosen = pools or (Pool(available),)
    names = _names(total, available, {0: requests}, *(pool.available for pool in chosen))
    requested = sorted(requests)
    scored = {**requests, **(amplified or {})}
    lists = _native.generate_hints(
        len(zones),
        _columns(total, zones, names),
        _columns(available, zones, names),
        _demands(requests, scored, names),
        [pool._to_native(zones, names) for pool in chosen],
        None if scorer is None else scorer._to_native(names),
        policy == TopologyPolicy.RESTRICTED,
    )
    pairs = zip(requested, lists, strict=True)
    return {name: HintList._wrap(hints) for name, hints in pairs if hints is not None}


def merge(
    zones: Zones,
    lists: Iterable[Sequence[Hint]],
    *,
    exclusive: Exclusive = Exclusive.NONE,
    statuses: Mapping[int, ZoneStatus] | None = None,
) -> Hint:
    """The best combination of one hint a list, as if every combination had been tried in turn.

    Preferred combinations come first, then narrower ones; among these a later one takes over with a
    lower mask or a higher score. ``statuses`` are by zone id, idle where missing.
    """
    return _hint(
        _native.merge(
            zones._native,
            _member(_native.Exclusive, exclusive),
            _statuses(statuses, zones),
            [_hint_list(hints) for hints in lists],
        )
    )


def admit(
    policy: TopologyPolicy,
    zones: Zones,
    providers: Iterable[Provider],
    *,
    exclusive: Exclusive = Exclusive.NONE,
    statuses: Mapping[int, ZoneStatus] | None = None,
) -> Decision:
    """Merges the providers' hints and judges the result by the policy.

    A provider that failed rejects the pod with its message. Resources are taken in the providers'
    order, and in each by name.
    """
    natives = [
        _native.Provider(
            provider.failure,
            tuple(
                (name, None if hints is None else _hint_list(hints))
                for name, hints in provider.hints.items()
            ),
        )
        for provider in providers
    ]
    decision = _native.admit(
        _member(_native.Policy, policy),
        zones._native,
        _member(_native.Exclusive, exclusive),
        _statuses(statuses, zones),
        natives,
    )
    return Decision(_hint(decision.hint), decision.admitted, decision.reasons)


def reported_policy(names: Iterable[str], *, compatible: bool = False) -> TopologyPolicy:
    """The first of a node's reported policy names that means a policy.

    Understands every name of the kubelet and of NodeResourceTopology and raises ValueError for any
    other; with ``compatible`` only the three that Koordinator's scheduler recognises count.
    """
    return TopologyPolicy[_native.reported_policy(list(names), compatible).name]


def zone_status(single_pods: int, shared_pods: int) -> ZoneStatus:
    """A zone's status, from how many pods hold CPUs on it alone and on others as well."""
    return ZoneStatus[_native.zone_status(single_pods, shared_pods).name]


def effective_policy(
    node: TopologyPolicy, pod: TopologyPolicy, exclusive: Exclusive = Exclusive.NONE
) -> EffectivePolicy:
    """The pod's policy if it has one, else the node's; two different ones are a conflict.

    A pod that sets a policy but no exclusive rule gets `Exclusive.REQUIRED`.
    """
    policy, rule, conflict = _native.effective_policy(
        _member(_native.Policy, node),
        _member(_native.Policy, pod),
        _member(_native.Exclusive, exclusive),
    )
    return EffectivePolicy(TopologyPolicy[policy.name], Exclusive[rule.name], conflict)


def _member(native: type[_E], member: Enum) -> _E:
    return native.__members__[member.name]


def _hint(native: _native.Hint) -> Hint:
    return Hint(native.affinity, native.preferred, native.unsatisfied, native.score)


def _hint_list(hints: Sequence[Hint]) -> _native.HintList:
    return (hints if isinstance(hints, HintList) else HintList(hints))._native


def _statuses(statuses: Mapping[int, ZoneStatus] | None, zones: Zones) -> list[_native.Status]:
    given = statuses or {}
    zones.mask(given)
    return [_member(_native.Status, given.get(zone, ZoneStatus.IDLE)) for zone in zones.ids]


def _by_position(counts: Mapping[int, int], zones: Zones) -> list[int]:
    zones.mask(counts)
    return [_int64("cpus", counts.get(zone, 0)) for zone in zones.ids]


def _names(*tables: Amounts) -> list[str]:
    return sorted({name for table in tables for amounts in table.values() for name in amounts})


def _kind(name: str) -> _native.Kind:
    if name == "cpu":
        return _native.Kind.CPU
    return _native.Kind.NATIVE if name in _NATIVE_RESOURCES else _native.Kind.SCALAR


def _columns(table: Amounts, zones: Zones, names: Sequence[str]) -> list[_native.Column]:
    zones.mask(table)
    rows = [table.get(zone, {}) for zone in zones.ids]
    return [
        _native.Column(
            _kind(name),
            sum(1 << position for position, row in enumerate(rows) if name in row),
            [_int64(name, row.get(name, 0)) for row in rows],
        )
        for name in names
    ]


def _demands(
    requests: Mapping[str, int], scored: Mapping[str, int], names: Sequence[str]
) -> list[_native.Demand]:
    return [
        _native.Demand(names.index(name), _int64(name, requests[name]), _int64(name, scored[name]))
        for name in sorted(requests)
    ]


# What does not fit the native integers would be a TypeError there, without the name of the field.
def _int64(field_name: str, value: int, largest: int = _LARGEST) -> int:
    if -largest <= value <= largest:
        return value
    raise ValueError(f"{field_name}: got '{value}', expected a number within {largest}")


def _mask(affinity: int | None) -> int | None:
    if affinity is None or 0 <= affinity < 2**64:
        return affinity
    raise ValueError(f"hint affinity: got '{affinity}', expected a mask of 64 bits")
