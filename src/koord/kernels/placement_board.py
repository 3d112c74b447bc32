# SPDX-License-Identifier: Apache-2.0
"""Boards: what filters and scores say of every row for one kind of pod, and which row is best.

The node table belongs to the caller: NumPy columns ``[resource, row]`` of int64. A
:class:`RoomCheck` and a :class:`RoomScore` read them for the rows asked about, a :class:`Board`
keeps the answers::

    board = Board(len(table), [(1, NONE), (3, REVERSED)])
    board.refuse(CLOSED, slice(None), open_rows)
    board.refuse(
        0, rows, RoomCheck([(0, 500), (3, 1)]).check(allocatable, requested, nonzero, rows)
    )
    board.rate(1, rows, raw)
    row = board.best()  # -1: none is feasible

Rows are given as a slice or as an array of numbers; KeyError names one that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from koord._native.cluster import placement as _native

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    RowBits: TypeAlias = NDArray[np.uint64]
    _Column: TypeAlias = NDArray[np.int64]
    _Times: TypeAlias = NDArray[np.float64]
    # What load_within and load_scores take, without rows, the latter with a key before that, and a
    # weight.
    LoadCheck: TypeAlias = tuple[_Column, _Column, Sequence[int], _Times, float, bool]
    LoadRating: TypeAlias = tuple[
        int, _Column, _Column, Sequence[int], Sequence[int], int, _Times, float
    ]
    RowLoad: TypeAlias = tuple[
        int, int, _Column, _Column, Sequence[int], Sequence[int], int, _Times, float
    ]

__all__ = [
    "ALONE",
    "BALANCED",
    "BESIDE",
    "CLOSED",
    "DEFAULT",
    "LEAST",
    "MIN_MAX",
    "MOST",
    "NONE",
    "RATIO",
    "REVERSED",
    "SHARES",
    "SPREAD",
    "WITHIN",
    "Board",
    "Ranks",
    "ReservedBounds",
    "RoomCheck",
    "RoomScore",
    "Rooms",
    "RoomsTemplate",
    "RowBounds",
    "RowClasses",
    "changed_rows",
    "count_pod",
    "count_pods",
    "load_scores",
    "load_within",
    "reserved_fit",
    "reserved_scores",
    "row_bits",
    "spread_scores",
]

NONE, DEFAULT, REVERSED, MIN_MAX, SPREAD = range(5)
"""How a score becomes 0..100 among feasible rows: not at all; ``100 s / max``; 100 minus that;
``100 (s - min) / (max - min)``; ``100 (max + min - s) / max``, negative ones 0 and left out."""

LEAST, MOST, RATIO, BALANCED = range(4)
"""Strategies of :class:`RoomScore`."""

CLOSED = 63
"""The filter that refuses rows without a node; a new board refuses all."""

Ranks = _native.Ranks
"""``Ranks(rows, ranks)``: who goes first among equals, the lowest; rows beyond the array keep their
order after it. Many boards of as many rows share one."""

Board = _native.Board
"""``Board(rows, [(weight, normalization), ...], ranks)``. ``refuse(filter, rows, passes)`` and
``clear(filter)`` say which rows are feasible, ``rate(score, rows, raw)`` and ``skip(score)`` how
good they are, ``set_ranks(ranks)`` who goes first among equals: the lowest. ``best()`` is the row
of the highest total, ``best_of(mask)`` the same among some rows, normalised among these.
``reset(scores)`` makes it as new but for ranks and ``flips``, in the same memory.
``refused`` (a bit a filter) and ``raw(score)`` are read-only views by row; ``feasible`` counts
rows, ``flips`` how often one became feasible or ceased to be; ``bytes`` is its memory."""

RoomCheck = _native.RoomCheck
"""``RoomCheck([(resource, amount), ...])``: whether a pod that asks for this fits a row. An amount
of 0 fits everywhere. Negative free amounts fit nothing else. ``asking(amounts)`` is the same with
other amounts of the first of its resources."""

RoomScore = _native.RoomScore
"""``RoomScore(strategy, [(resource, request, weight, nonzero), ...], corners)``: 0..100 by how full
a row would be. ``nonzero``: take what is requested from the columns that count pods without a
request as something (resources 0 and 1). ``corners``: (used percent, score) of ``RATIO``'s line.
``requesting(requests)`` is the same with other requests of the first of its resources."""

Rooms = _native.Rooms
"""``Rooms([(filter, RoomCheck), ...], [(score, RoomScore), ...])``: checks and scores with their
numbers on a board. ``put(board, allocatable, requested, nonzero, rows)`` puts there what all of
them say of rows. Those that ask for the same are equal."""

RoomsTemplate = _native.RoomsTemplate
"""``RoomsTemplate(rooms, checks, scores)``: the same :data:`Rooms` with other amounts, by one call:
``of(amounts)``. ``checks`` and ``scores`` say by each where among these the amounts of its first
resources stand."""

RowBounds = _native.RowBounds
"""``RowBounds()``: of each block of 32 rows the least and the most of every column.
``update(allocatable, requested, nonzero, rows, open, ranks)`` reads rows again, at first all that
have a rank; ``best(rooms, weights, masks=(), ratings=(), reserved=None, bit_masks=(),
preferences=(), load_checks=(), loads=())`` is the row that a board would choose by what was read,
-1 for none: rows are looked at only in blocks that may have it. ``looked_at`` is how many were. Of
``masks``, bool by row, False refuses; ``ratings`` are ``(weight, normalization, raw scores by
row)``. ``bit_masks`` are masks as :func:`row_bits`; ``preferences`` are ``(weight, [(weight, bits),
...])``: a row's raw score is the sum of the weights of which it has the bit, each 0 to 1,000,000,
and :data:`DEFAULT` is how it is normalised. ``reserved`` are a pod's reservations, for bounds of
``RowBounds(keeps_order=True)``: bounds, weight, ``allocatable`` and ``requested`` of nodes as those
see them for which nothing is held, and ``reserved`` and ``amounts`` as of :data:`reserved_fit` with
slots by row, -1 for none, between; whether a reservation is required, and whether its node goes
unlooked at. ``load_checks`` are what :data:`load_within` takes before the rows, ``loads`` a weight
and a key before what :data:`load_scores` takes there: of one key columns and weights are the same,
and rows in whose columns anything changes are read again by ``update``."""

ReservedBounds = _native.ReservedBounds
"""``ReservedBounds()``: of each block of 32 rows how full reservations are, at least and at most.
``update(reserved, slots, rows)`` reads rows again, at first all; ``reserved`` as of
:data:`reserved_fit`, ``slots`` by row."""

RowClasses = _native.RowClasses
"""``RowClasses(most)``: rows of which all columns are equal are one class, at most so many.
``update(allocatable, requested, nonzero, rows, open, ranks)`` reads rows again and says whether
that went; where not, it is empty. ``best(rooms, weights)`` is the row that a board would choose by
these, by one look a class; -1 for none. ``len()`` counts classes."""

changed_rows = _native.changed_rows
"""``changed_rows(journal, start)``: of a list of ``row << 8 | aspects`` from a place on, the rows,
ascending, with the aspects of each; then the aspects that any of them has, and those that all have
(255 of no rows)."""

count_pod = _native.count_pod
"""``count_pod(requested, nonzero, row, index, amounts, cpu, memory, times)``: adds ``times`` the
amounts to the resources ``index`` of a row, and CPU and memory to its ``nonzero``."""


def row_bits(mask: NDArray[np.bool_]) -> NDArray[np.uint64]:
    """A mask by row as bits: words of 64 rows, the first row the lowest bit of the first word."""
    packed = np.packbits(mask, bitorder="little")
    words = np.zeros((len(mask) + 63) // 64 * 8, np.uint8)
    words[: len(packed)] = packed
    return words.view("<u8").astype(np.uint64, copy=False)


def count_pods(
    columns: NDArray[np.int64],
    rows: NDArray[np.intp],
    indexes: Sequence[NDArray[np.intp]],
    amounts: Sequence[NDArray[np.int64]],
) -> None:
    """Adds many pods to columns.

    Args:
        columns: ``[resource, row]``, one resource after the other in memory.
        rows: by pod; the same one may come often.
        indexes: by pod, its resources.
        amounts: by pod, of these.

    Raises:
        ValueError: the columns lie apart in memory.
    """
    if not columns.flags.c_contiguous:
        raise ValueError("columns: apart in memory, expected one after the other")
    # As one long column: NumPy adds to places of one dimension many times faster than of two.
    lengths = np.fromiter(map(len, indexes), np.intp, len(indexes))
    places = np.concatenate(indexes) * columns.shape[1] + np.repeat(rows, lengths)
    np.add.at(columns.reshape(-1), places, np.concatenate(amounts))


spread_scores = _native.spread_scores
"""``spread_scores([(label, domain, counts, weight, bias), ...], rated, rows)``: by row, the sum of
``counts[domain] * weight + bias`` over parts whose ``label`` is not below 0 there, rounded half up;
-1 for rows that are not ``rated``. A ``domain`` of None takes each row for its own."""

load_scores = _native.load_scores
"""``load_scores(used, capacity, amounts, weights, dominant, until, now, rows)``: by row, 0..100,
the mean of the percentages of ``capacity`` that stay unused once ``amounts`` come on top of
``used``, both ``[resource, row]``; it is weighted by resource, and by ``dominant`` for the lowest
of them. 0 where ``until`` is not after ``now``."""

load_within = _native.load_within
"""``load_within(used, limit, amounts, until, now, expired, rows)``: by row, whether no resource is
above its ``limit`` once ``amounts`` come on top; ``expired`` where ``until`` is not after
``now``."""

ALONE, BESIDE, WITHIN, SHARES = 1, 2, 4, 8
"""Bits of :data:`reserved_fit`: the node has room without the reservation; with what that has left;
no limit of the reservation is passed; it holds some of what is asked for."""

reserved_fit = _native.reserved_fit
"""``reserved_fit(allocatable, requested, reserved, rows, slots, amounts)``: the bits above for each
pair of a row and a reservation on it. ``reserved``: what is held, used and remaining, and the most
that one pod may use, each ``[resource, slot]``. ``amounts``: by what is asked for the resource of
the nodes, that of the reservations (-1: none holds any), the amount, whether it has to fit, whether
what remains is there on the node, whether holding some of it serves the pod."""

reserved_scores = _native.reserved_scores
"""``reserved_scores(reserved, slots, amounts)``: 0..100, how full reservations would be: the mean
share of what they hold; a resource that the amounts overfill counts 0."""
