# SPDX-License-Identifier: Apache-2.0
"""Who has anything to say about pods of a shape, found out once a shape and turn of the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.kernels.placement_board import Rooms

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.asking import Asked, Rows, Stale
    from koord.controllers.scheduler.framework.verdicts import Verdict
    from koord.kernels.placement_board import RoomCheck, RoomScore

# The stamp of answers that depend on shape and rows alone.
_KEPT = 0


class Part(NamedTuple):
    """The plugins that take part at Filter, or at Score, by number.

    Attributes:
        everybody: all of them.
        moving: those that are asked at every attempt.
        depends: aspects of a row; unless it changed in one of these, the others say what they said.
    """

    everybody: tuple[int, ...] = ()
    moving: tuple[int, ...] = ()
    depends: int = 0

    def asked(self, changed: int) -> tuple[int, ...]:
        """Whom to ask when rows have changed in these aspects."""
        return self.everybody if changed & self.depends else self.moving


def part(plugins: Sequence[Asked], without: Collection[int] = ()) -> Part:
    """The part that some plugins take, those of some numbers left out."""
    left = [asked for asked in plugins if asked.number not in without]
    depends = 0
    for asked in left:
        depends |= asked.depends if asked.static else 0
    numbers = tuple(asked.number for asked in left)
    return Part(numbers, tuple(asked.number for asked in left if not asked.static), depends)


class Room:
    """Plugins that look at the table's columns alone: their kernels answer together.

    See ``room_check`` and ``room_score`` of :class:`koord.controllers.scheduler.framework.plugin.
    Plugin`.

    Args:
        shape: whose pods.
        filters, scores: who takes part.

    Attributes:
        filters, scores: the part of all others.
        settled: whether what stands on the board is the kernels' answer.
    """

    __slots__ = ("_checks", "_depends", "_native", "_scores", "filters", "scores", "settled")

    def __init__(self, shape: PodShape, filters: Sequence[Asked], scores: Sequence[Asked]) -> None:
        self._checks = _kernels(shape, filters, "room_check")
        self._scores = _kernels(shape, scores, "room_score")
        self._native = Rooms(list(self._checks.items()), list(self._scores.items()))
        self._depends = 0
        for asked in (*filters, *scores):
            if asked.number in (self._checks if asked.point == "filter" else self._scores):
                self._depends |= asked.depends
        self.filters = part(filters, self._checks)
        self.scores = part(scores, self._scores)
        self.settled = False

    def __bool__(self) -> bool:
        return bool(self._checks or self._scores)

    def follows(self, other: Room | None) -> None:
        """Takes over that the board is up to date from the room before, if it is the same."""
        if other is not None and (self._checks, self._scores) == (other._checks, other._scores):
            self.settled = other.settled

    def settle(self, verdict: Verdict, stale: Stale) -> None:
        """Brings the board up to date."""
        rows: Rows | None = stale.rows(self._depends)
        if stale.all or not self.settled:
            rows = self._begin(verdict, stale.table)
        if rows is not None:
            table = stale.table
            columns = table.allocatable, table.requested, table.nonzero
            self._native.put(verdict.board, *columns, rows)

    def _begin(self, verdict: Verdict, table: NodeTable) -> Rows:
        for number in self._checks:
            verdict.filter_stamps[number] = _KEPT
        for number in self._scores:
            verdict.score_stamps[number] = _KEPT
        self.settled = True
        return table.rows


def _kernels(shape: PodShape, plugins: Sequence[Asked], name: str) -> dict[int, Any]:
    """By number, the kernels of those plugins that have one for the shape."""
    found: dict[int, RoomCheck | RoomScore] = {}
    for asked in plugins:
        kernel_of = getattr(asked.plugin, name, None)
        kernel = kernel_of(shape) if kernel_of is not None else None
        if kernel is not None:
            found[asked.number] = kernel
    return found
