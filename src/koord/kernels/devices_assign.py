# SPDX-License-Identifier: Apache-2.0
"""Which devices of a node a pod gets: GPUs by partition, then by topology, then in order.

Sets of minors are words here, bit i for minor i (:func:`koord.kernels.devices.mask` makes them),
and amounts are lists in the order of the table's resources: schedulers ask this for every node.

    demand = Demand([100, 100], 4, grouped=True)
    refusal, minors = assign(gpus, row, demand)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from koord._native.cluster import devices as _native
from koord.kernels.devices import DeviceTable, Strategy

Holding = tuple[int, Sequence[int]]
"""A minor, and an amount of each resource."""

NOWHERE = -2
"""The NUMA node of a device of which nobody knows where it sits."""


class Scope(IntEnum):
    """How close together the GPUs of one pod must lie, the closest last."""

    ANY = 0
    NODE = 1
    NUMA_NODE = 2
    PCIE = 3
    DEVICE = 4


class Refusal(IntEnum):
    """Why a pod gets no devices.

    TOO_FEW fit. A partition is a must and there is no table (NO_PARTITIONS), none of that size
    (NO_PARTITION_SIZE), or all are taken. A scope is a must and nobody knows where the GPUs sit
    (NO_TOPOLOGY), parts of several GPUs are wanted (MANY_SHARES), or all are taken. GROUPS_TAKEN:
    too few fit, found by topology though no scope is a must.
    """

    NONE = 0
    TOO_FEW = 1
    NO_PARTITIONS = 2
    NO_PARTITION_SIZE = 3
    PARTITIONS_TAKEN = 4
    NO_TOPOLOGY = 5
    MANY_SHARES = 6
    SCOPES_TAKEN = 7
    GROUPS_TAKEN = 8


@dataclass(frozen=True, slots=True)
class Partition:
    """GPUs that a machine links with each other.

    Attributes:
        minors: as a word.
        score: how good the link is, more is better.
        bandwidth_bps: of the ring; None if unknown.
    """

    minors: int
    score: int = 0
    bandwidth_bps: int | None = None


class PartitionTable:
    """The partitions of a machine by size; the best first, equals as listed.

    ValueError for one without minors or with a negative score or bandwidth.
    """

    def __init__(self, partitions: Sequence[Partition]) -> None:
        self._listed = tuple(partitions)
        self.native = _native.PartitionTable(
            [(part.minors, part.score, part.bandwidth_bps) for part in partitions]
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionTable) and self._listed == other._listed

    def __hash__(self) -> int:
        return hash(self._listed)


class Demand:
    """What a pod asks of one device type.

    Args:
        each: on every one of the devices.
        count: how many devices, 1 to 64.
        grouped: partitions and topology count, as they do for GPUs.
        shared: parts of GPUs; partitions are for whole ones.
        scope: within which the GPUs must lie.
        honour_partition: a partition or nothing; a row may insist on it too.
        best_partition_only: of the highest score, or nothing.
        bandwidth_bps: that the partition's ring must have.
        whole_pcie: only PCIe roots of which no device of the table is in use.
    """

    __slots__ = ("count", "each", "native", "request")

    def __init__(
        self,
        each: Sequence[int],
        count: int = 1,
        *,
        grouped: bool = False,
        shared: bool = False,
        scope: Scope = Scope.ANY,
        honour_partition: bool = False,
        best_partition_only: bool = False,
        bandwidth_bps: int = 0,
        whole_pcie: bool = False,
    ) -> None:
        self.each = list(each)
        self.count = count
        self.request = _native.Request(self.each, count)
        self.native = _native.Demand(
            self.each, count, grouped, shared, getattr(_native.Scope, scope.name),
            honour_partition, best_partition_only, bandwidth_bps, whole_pcie,
        )  # fmt: skip


@dataclass(slots=True)
class Offer:
    """What of a row may be given, where that is not simply all that is free.

    Attributes:
        numa_nodes: a bit for each NUMA node; None for all.
        allowed: no other minor is considered; None for all.
        preferred: minors taken before all others.
        preferred_pcies: PCIe roots taken in turn, the best device of each first.
        returned: in use, but the pod may have it; each minor once.
        caps: the most that may be given of each minor, and nothing of those not named.
    """

    numa_nodes: int | None = None
    allowed: int | None = None
    preferred: int = 0
    preferred_pcies: Sequence[int] = ()
    returned: Sequence[Holding] = ()
    caps: Sequence[Holding] | None = None

    def native(self) -> _native.Offer:
        """The compiled twin."""
        return _native.Offer(
            self.numa_nodes, self.allowed, self.preferred, self.preferred_pcies, self.returned,
            self.caps,
        )  # fmt: skip


class Scoring:
    """How devices and rows are scored.

    Args:
        strategy: by what is left or by what is used.
        weights: one a resource of the table; 0 leaves it out.
    """

    __slots__ = ("native",)

    def __init__(self, strategy: Strategy, weights: Sequence[int]) -> None:
        self.native = _native.Scoring(getattr(_native.Strategy, strategy.name), list(weights))


UNSCORED = Scoring(Strategy.NONE, ())
_EVERYTHING = Offer().native()


def assign(
    table: DeviceTable,
    row: int,
    demand: Demand,
    offer: Offer | None = None,
    scoring: Scoring = UNSCORED,
) -> tuple[Refusal, int]:
    """The minors that a pod gets, as a word, or why it gets none.

    With preferred PCIe roots there may be more of them than asked for, one a root.
    """
    wanted = _EVERYTHING if offer is None else offer.native()
    refusal, minors = _native.assign(table.native, row, demand.native, wanted, scoring.native)
    return Refusal(refusal.value), minors


def assign_rows(table: DeviceTable, rows: NDArray[np.int64], demand: Demand) -> NDArray[np.uint8]:
    """The :class:`Refusal` of each row, 0 where the demand fits; nothing is scored."""
    return _native.assign_rows(table.native, rows, demand.native)


def offered_score(
    table: DeviceTable, row: int, demand: Demand, offer: Offer, scoring: Scoring
) -> int:
    """The worth of a row, 0..100, if one instance went there; all offered minors as one."""
    native = offer.native()
    return _native.offered_score(table.native, row, demand.native, native, scoring.native)


def score_rows(
    table: DeviceTable, rows: NDArray[np.int64], demand: Demand, scoring: Scoring
) -> NDArray[np.int64]:
    """The worth of rows, 0..100, if one instance went there."""
    return _native.score_rows(table.native, rows, demand.request, scoring.native)


def set_partitions(
    table: DeviceTable, row: int, partitions: PartitionTable | None, *, honour: bool
) -> None:
    """Tells of a row's partitions, and whether whole GPUs are to be given as partitions only."""
    table.native.set_partitions(row, partitions.native if partitions else None, honour)
