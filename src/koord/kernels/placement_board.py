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

from koord._native.core import placement as _native

__all__ = [
    "BALANCED",
    "CLOSED",
    "DEFAULT",
    "LEAST",
    "MIN_MAX",
    "MOST",
    "NONE",
    "RATIO",
    "REVERSED",
    "SPREAD",
    "Board",
    "RoomCheck",
    "RoomScore",
    "count_pod",
    "spread_scores",
]

NONE, DEFAULT, REVERSED, MIN_MAX, SPREAD = range(5)
"""How a score becomes 0..100 among feasible rows: not at all; ``100 s / max``; 100 minus that;
``100 (s - min) / (max - min)``; ``100 (max + min - s) / max``, negative ones 0 and left out."""

LEAST, MOST, RATIO, BALANCED = range(4)
"""Strategies of :class:`RoomScore`."""

CLOSED = 63
"""The filter that refuses rows without a node; a new board refuses all."""

Board = _native.Board
"""``Board(rows, [(weight, normalization), ...])``. ``refuse(filter, rows, passes)`` and
``clear(filter)`` say which rows are feasible, ``rate(score, rows, raw)`` and ``skip(score)`` how
good they are, ``set_ranks(ranks)`` who goes first among equals: the lowest. ``best()`` is the row
of the highest total, ``best_of(mask)`` the same among some rows, normalised among these.
``refused`` (a bit a filter) and ``raw(score)`` are read-only views by row; ``feasible`` counts
rows, ``flips`` how often one became feasible or ceased to be."""

RoomCheck = _native.RoomCheck
"""``RoomCheck([(resource, amount), ...])``: whether a pod that asks for this fits a row. An amount
of 0 fits everywhere. Negative free amounts fit nothing else."""

RoomScore = _native.RoomScore
"""``RoomScore(strategy, [(resource, request, weight, nonzero), ...], corners)``: 0..100 by how full
a row would be. ``nonzero``: take what is requested from the columns that count pods without a
request as something (resources 0 and 1). ``corners``: (used percent, score) of ``RATIO``'s line."""

count_pod = _native.count_pod
"""``count_pod(requested, nonzero, row, index, amounts, cpu, memory, times)``: adds ``times`` the
amounts to the resources ``index`` of a row, and CPU and memory to its ``nonzero``."""

spread_scores = _native.spread_scores
"""``spread_scores([(label, domain, counts, weight, bias), ...], rated, rows)``: by row, the sum of
``counts[domain] * weight + bias`` over parts whose ``label`` is not below 0 there, rounded half up;
-1 for rows that are not ``rated``. A ``domain`` of None takes each row for its own."""
