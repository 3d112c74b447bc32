# SPDX-License-Identifier: Apache-2.0
"""The plugins that have anything to say about pods of a shape.

Who they are is found out once a shape and generation of the node table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from koord.kernels.placement_board import Rooms

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.framework.changed_rows import ChangedRows, Rows
    from koord.kernels.placement_board import Board, RoomCheck, RoomScore

# The generation of answers that depend on shape and rows alone.
_KEPT = 0


class Participants(NamedTuple):
    """The plugins that take part at Filter, or at Score, by number.

    Attributes:
        numbers: all of them.
        at_every_attempt: those that are asked at every attempt.
        depends: aspects of a row; unless it changed in one of these, the others say what they said.
    """

    numbers: tuple[int, ...] = ()
    at_every_attempt: tuple[int, ...] = ()
    depends: int = 0

    def to_ask(self, changed: int) -> tuple[int, ...]:
        """Whom to ask when rows have changed in these aspects."""
        return self.numbers if changed & self.depends else self.at_every_attempt


class FitKernels:
    """Plugins that look at the table's columns alone: their kernels answer together.

    See ``fit_kernel`` and ``score_kernel`` of
    :class:`koord.controllers.scheduler.framework.plugin.Plugin`.

    Args:
        checks: the kernels at Filter, by the plugin's number there.
        ratings: the kernels at Score, by the plugin's number there.
        depends: on which aspects of a row they all depend.
        filters, scores: who takes part besides.

    Attributes:
        filters, scores: the same.
        is_current: whether what stands on the board is the kernels' answer.
    """

    __slots__ = ("_checks", "_depends", "_native", "_ratings", "filters", "is_current", "scores")

    def __init__(
        self,
        checks: Mapping[int, RoomCheck],
        ratings: Mapping[int, RoomScore],
        depends: int,
        filters: Participants,
        scores: Participants,
    ) -> None:
        self._checks = checks
        self._ratings = ratings
        self._native = Rooms(list(checks.items()), list(ratings.items()))
        self._depends = depends
        self.filters = filters
        self.scores = scores
        self.is_current = False

    def __bool__(self) -> bool:
        return bool(self._checks or self._ratings)

    def inherit(self, other: FitKernels | None) -> None:
        """Takes over from the kernels before that the board is up to date, if they are the same."""
        if other is not None and (self._checks, self._ratings) == (other._checks, other._ratings):
            self.is_current = other.is_current

    def refresh(
        self,
        board: Board,
        changed: ChangedRows,
        filter_generations: list[Any],
        score_generations: list[Any],
    ) -> None:
        """Brings the board up to date, and of the kernels' plugins the generations too."""
        table = changed.table
        rows: Rows | None = changed.rows(self._depends)
        if changed.all or not self.is_current:
            rows = table.rows
            for number in self._checks:
                filter_generations[number] = _KEPT
            for number in self._ratings:
                score_generations[number] = _KEPT
            self.is_current = True
        if rows is not None:
            self._native.put(board, table.allocatable, table.requested, table.nonzero, rows)
