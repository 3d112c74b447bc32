# SPDX-License-Identifier: Apache-2.0
"""Reconciled nodes as columns: what they show, what they are to show, which of them are due.

Functions of columns alone, by the same rules as for a single node
(docs/reference/node-resources.md#when-a-write-is-due). Rows are those of the overcommit cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.manager.noderesource.plugins.batch_and_mid import amplified_column
from koord.controllers.manager.noderesource.state.published import NO_ORIGIN
from koord.controllers.manager.overcommit.amounts import CPU
from koord.controllers.manager.overcommit.formulas import threshold
from koord.controllers.manager.overcommit.formulas.threshold import ABSENT
from koord.controllers.manager.overcommit.objects.node_columns import DegradeReason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.objects.strategy_columns import StrategyColumns
    from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache

# What is due after a pause is due once the pause is over.
_AFTER_SECONDS = 0.001
# Parts of thousandths in what zones show: milli-cores, and thousandths of a byte.
_PARTS = np.array([[[1000.0]], [[1.0]]])
_NEVER = float("inf")


class RowColumns(NamedTuple):
    """What is known of each row beside amounts; ``[rows]`` but for ``held``.

    Attributes:
        reconciled: whether the node shows all that is wanted of it but for its offers; the other
            columns, and those of amounts, hold for such rows only.
        enabled: whether co-location was on.
        held: ``[2, rows]``, what third parties hold of batch.
        speed: what batch CPU is multiplied by.
        node_written_at, zones_written_at: monotonic seconds.
        generation: goes up with every change of the row, so that who waited meanwhile can tell.
        decided_in: in which pass the row was decided on last; 0 before the first.
        node_due, zones_due: whether in that pass the node, and its zones, had to be written.
    """

    reconciled: NDArray[np.bool_]
    enabled: NDArray[np.bool_]
    held: NDArray[np.int64]
    speed: NDArray[np.float64]
    node_written_at: NDArray[np.float64]
    zones_written_at: NDArray[np.float64]
    generation: NDArray[np.int64]
    decided_in: NDArray[np.int64]
    node_due: NDArray[np.bool_]
    zones_due: NDArray[np.bool_]


class NodeAmounts(NamedTuple):
    """:class:`.published.PublishedAmounts` of many rows, or what they are to become.

    int64; CPU and memory are the first axis: ``[2, rows]``, of zones ``[2, NUMA numbers, rows]``.
    """

    batch: NDArray[np.int64]
    mid: NDArray[np.int64]
    origin: NDArray[np.int64]
    zones: NDArray[np.int64]


class DueRows(NamedTuple):
    """What is to become of some rows.

    Attributes:
        due: bool ``[rows]``, those that have to be written now.
        node_due, zones_due: the same of the nodes and of their zones.
        left_seconds: float64 ``[rows]``, after how long others have to be, that differ by too
            little; infinite where all is as it should be.
    """

    due: NDArray[np.bool_]
    left_seconds: NDArray[np.float64]
    node_due: NDArray[np.bool_]
    zones_due: NDArray[np.bool_]


class _DueColumns(NamedTuple):
    """A node or its zones: whether they moved far enough, differ at all, and when written."""

    moved: NDArray[np.bool_]
    differs: NDArray[np.bool_]
    written_at: NDArray[np.float64]


def empty_rows(rows: int) -> RowColumns:
    """So many rows that are not reconciled."""
    return RowColumns(
        reconciled=np.zeros(rows, np.bool_),
        enabled=np.zeros(rows, np.bool_),
        held=np.zeros((2, rows), np.int64),
        speed=np.ones(rows),
        node_written_at=np.zeros(rows),
        zones_written_at=np.zeros(rows),
        generation=np.zeros(rows, np.int64),
        decided_in=np.zeros(rows, np.int64),
        node_due=np.zeros(rows, np.bool_),
        zones_due=np.zeros(rows, np.bool_),
    )


def empty_amounts(rows: int, numbers: int) -> NodeAmounts:
    """So many rows, with room for so many NUMA numbers, that show nothing."""
    batch, mid, origin = (np.full((2, rows), ABSENT) for _ in range(3))
    return NodeAmounts(batch, mid, origin, np.full((2, numbers, rows), ABSENT))


def with_numbers(amounts: NodeAmounts, numbers: int) -> NodeAmounts:
    """The same amounts with room for so many NUMA numbers at least."""
    _, have, rows = amounts.zones.shape
    if numbers <= have:
        return amounts
    more = np.full((2, numbers - have, rows), ABSENT)
    return amounts._replace(zones=np.concatenate([amounts.zones, more], axis=1))


def desired_amounts(
    cache: OvercommitCache, rows: NDArray[np.intp], columns: RowColumns, published: NodeAmounts
) -> NodeAmounts:
    """What rows are to show: as BatchResource, MidResource and zones have it of a single node.

    Args:
        cache: has the offers.
        rows: which rows of it.
        columns, published: of these rows alone, in their order.
    """
    offering = cache.batch.degraded[rows] == DegradeReason.NO
    batch = cache.batch.amounts[:, rows]
    batch[CPU] = amplified_column(batch[CPU], columns.speed)
    zones, numbers = np.zeros_like(published.zones), len(cache.zones.present)
    zones[:, :numbers] = cache.zone_amounts[:, :, rows]
    zones[CPU] = amplified_column(zones[CPU], columns.speed)
    present = np.zeros(zones.shape[1:], np.bool_)
    present[:numbers] = cache.zones.present[:, rows] & offering
    return NodeAmounts(
        np.where(offering, np.maximum(batch - columns.held, 0), ABSENT),
        np.where(offering, cache.mid.amounts[:, rows], ABSENT),
        np.where(offering, batch, np.where(published.origin == NO_ORIGIN, NO_ORIGIN, 0)),
        np.where(present, zones, np.where(published.zones == ABSENT, ABSENT, 0)),
    )


def due_rows(
    published: NodeAmounts,
    desired: NodeAmounts,
    columns: RowColumns,
    strategies: StrategyColumns,
    now: float,
) -> DueRows:
    """Which rows have to be written now, and which of the others later.

    A row of which co-location was switched on or off is due in any case.

    Args:
        published, desired, columns, strategies: of the same rows, in the same order.
        now: monotonic seconds.
    """
    switched = strategies.enable != columns.enabled
    left, due = np.full(len(switched), _NEVER), []
    share = strategies.diff_threshold
    for part in (
        _nodes(published, desired, share, columns.node_written_at),
        _zones(published.zones, desired.zones, share, columns.zones_written_at),
    ):
        pause = part.written_at + strategies.update_seconds - now
        due.append(part.moved | (part.differs & (pause < 0)))
        wait = np.maximum(pause, 0.0) + _AFTER_SECONDS
        left = np.where(part.differs, np.minimum(left, wait), left)
    every = switched | due[0] | due[1]
    return DueRows(every, np.where(every, _NEVER, left), *due)


def _nodes(
    published: NodeAmounts,
    desired: NodeAmounts,
    share: NDArray[np.float64],
    written_at: NDArray[np.float64],
) -> _DueColumns:
    moved = threshold.due(published.batch, desired.batch, share)
    moved |= threshold.due(published.mid, desired.mid, share)
    differs = (published.batch != desired.batch) | (published.mid != desired.mid)
    differs |= published.origin != desired.origin
    return _DueColumns(moved, differs.any(axis=0), written_at)


def _zones(
    published: NDArray[np.int64],
    desired: NDArray[np.int64],
    share: NDArray[np.float64],
    written_at: NDArray[np.float64],
) -> _DueColumns:
    """As :func:`koord.controllers.manager.noderesource.writers.zone_patches.updated_zones`."""
    differs = published != desired
    # What is gone is told of at once, however large the share that may go unnoticed.
    far = (published == ABSENT) | (desired == 0)
    far |= threshold.beyond(published * _PARTS, desired * _PARTS, share)
    return _DueColumns((differs & far).any(axis=(0, 1)), differs.any(axis=(0, 1)), written_at)
