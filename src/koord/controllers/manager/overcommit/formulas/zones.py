# SPDX-License-Identifier: Apache-2.0
"""Batch resources by NUMA zone, from the numbers of the node.

Rule: docs/reference/overcommit.md#numa-zones.

A zone is a cell of columns ``[NUMA number, node]``; memory counts in thousandths of a byte, for
what is divided among zones is not whole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.manager.overcommit.amounts import above_zero
from koord.controllers.manager.overcommit.column_groups import take
from koord.controllers.manager.overcommit.formulas import sums
from koord.controllers.manager.overcommit.formulas.batch import formula
from koord.controllers.manager.overcommit.formulas.sums import PodSums
from koord.controllers.manager.overcommit.objects.node_columns import DegradeReason, settled
from koord.controllers.manager.overcommit.objects.pod_terms import MOST_ZONES, PodTerms, claims

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import AmountColumns
    from koord.controllers.manager.overcommit.objects.node_columns import NodeColumns
    from koord.controllers.manager.overcommit.objects.strategy_columns import StrategyColumns

PARTS = np.array([[1], [1000]], np.int64)
"""Parts of a milli-core and of a byte."""

UNKNOWN = -1
_NUMBER = re.compile(r"[0-9]+$")


class ZoneColumns(NamedTuple):
    """The zones of nodes.

    Args:
        present: bool ``[numbers, rows]``.
        capacity: int64 ``[2, numbers, rows]``, what pods may ask of the zone: milli-cores, bytes.
        system: the same, what the agent says that neither pods nor applications use there;
            :data:`UNKNOWN` where it does not.
    """

    present: NDArray[np.bool_]
    capacity: NDArray[np.int64]
    system: NDArray[np.int64]


def empty(numbers: int, rows: int) -> ZoneColumns:
    """Room for so many zones on so many nodes, none of them there."""
    return ZoneColumns(
        np.zeros((numbers, rows), np.bool_),
        np.zeros((2, numbers, rows), np.int64),
        np.full((2, numbers, rows), UNKNOWN, np.int64),
    )


def wider(
    zones: ZoneColumns, offered: NDArray[np.int64], count: int
) -> tuple[ZoneColumns, NDArray[np.int64]]:
    """The same zones, and what they offer, with room for more numbers."""
    rows, more = zones.present.shape[1], count - len(zones.present)
    pairs = zip(zones, empty(more, rows), strict=True)
    nothing = np.zeros((2, more, rows), np.int64)
    wide = ZoneColumns(*(np.concatenate(pair, axis=-2) for pair in pairs))
    return wide, np.concatenate([offered, nothing], axis=-2)


def numbers(names: Sequence[str]) -> list[int]:
    """The NUMA node that each zone of a list stands for, by the number that its name ends in.

    Where one has none, has one beyond :data:`MOST_ZONES`, or two have the same, all go by place.
    """
    found = [_NUMBER.search(name) for name in names]
    parsed = [int(match.group()) for match in found if match]
    distinct = len(set(parsed)) == len(names)
    if distinct and all(number < MOST_ZONES for number in parsed):
        return parsed
    return list(range(len(names)))


def offer(
    zones: ZoneColumns,
    nodes: NodeColumns,
    by_zone: PodSums,
    totals: PodSums,
    settings: StrategyColumns,
    degraded: NDArray[np.uint8],
) -> NDArray[np.int64]:
    """What zones offer as batch resources.

    Args:
        zones, nodes, settings: of the same rows.
        by_zone: what pods take there (:func:`sums_by_zone`), and ``totals``, their sums by node.
        degraded: see :func:`~koord.controllers.manager.overcommit.objects.node_columns.degraded`.

    Returns:
        int64 ``[2, numbers, rows]``: milli-cores, and memory in thousandths of a byte; 0 where
        there is no zone, or the node is degraded.
    """
    offering = degraded == DegradeReason.NO
    found = cells(zones._replace(present=zones.present & offering), nodes, totals)
    amounts = formula(
        take(settings, found.row),
        capacity=found.capacity,
        system=np.maximum(found.system, found.reserved),
        reserved=found.reserved,
        sums=PodSums(*(each[:, found.number, found.row] for each in by_zone)),
        most=most(found),
        parts=PARTS,
    )
    offered = np.zeros_like(zones.capacity)
    offered[:, found.number, found.row] = amounts
    return offered


class ZoneCells(NamedTuple):
    """The zones that are there, one after the other, by NUMA number and then by row.

    Args:
        number, row: which they are.
        capacity: milli-cores and bytes.
        system: what is taken beside pods as measured, in :data:`PARTS`; likewise:
        reserved: what is held back.
    """

    number: NDArray[np.intp]
    row: NDArray[np.intp]
    capacity: AmountColumns
    system: AmountColumns
    reserved: AmountColumns


def cells(zones: ZoneColumns, nodes: NodeColumns, totals: PodSums) -> ZoneCells:
    """What there is in each zone beside pods.

    System usage is what the agent tells of every zone; what that leaves of the node's is divided,
    like all that is not told.
    """
    number, row = np.nonzero(zones.present)
    count = zones.present.sum(axis=0)[row]
    own = _reported_system(zones)
    rest = above_zero(settled(nodes, totals) - own.sum(axis=1)) + nodes.host_high
    system = own[:, number, row] * PARTS + divided(rest[:, row] * PARTS, count)
    reserved = divided(nodes.reserved[:, row] * PARTS, count)
    return ZoneCells(number, row, zones.capacity[:, number, row], system, reserved)


def most(of: ZoneCells) -> AmountColumns:
    """What each cell may offer at most, in :data:`PARTS`; mid resources are the node's alone."""
    found: AmountColumns = of.capacity * PARTS - of.reserved
    return found


def _reported_system(zones: ZoneColumns) -> NDArray[np.int64]:
    """System usage by zone, on rows where the agent tells it of every zone; elsewhere 0."""
    told = ((zones.system != UNKNOWN) | ~zones.present).all(axis=1)
    found: NDArray[np.int64] = np.where(zones.present, zones.system, 0) * told[:, None]
    return found


def divided(amounts: AmountColumns, by: NDArray[np.int64]) -> AmountColumns:
    """Equal shares, rounded up."""
    shares: AmountColumns = -(-amounts // by)
    return shares


def sums_by_zone(zones: ZoneColumns, terms: PodTerms) -> PodSums:
    """What pods take in each zone: of those they are bound to, else of all, equal shares.

    Args:
        zones: of some rows.
        terms: the pods of those rows.

    Returns:
        int64 ``[2, numbers, rows]``: milli-cores, and memory in thousandths of a byte; 0 where
        there is no zone.
    """
    weights = np.uint64(1) << np.arange(len(zones.present), dtype=np.uint64)
    there = (zones.present * weights[:, None]).sum(axis=0, dtype=np.uint64)[terms.node]
    bound = terms.zones & there
    where = np.where(bound != 0, bound, there)
    chosen = (where & weights[:, None]) != 0
    count = np.maximum(chosen.sum(axis=0), 1)
    parts = [divided(each * PARTS, count) for each in claims(terms)]
    found = sums.empty(*zones.present.shape)
    for zone, inside in enumerate(chosen):
        kept = np.flatnonzero(inside)
        node = terms.node[kept]
        for total, part in zip(found, parts, strict=True):
            total[:, zone] = sums.add(node, part[:, kept], zones.present.shape[1])
    return found
