# SPDX-License-Identifier: Apache-2.0
"""What is kept for pods of one shape: answers of Filter and Score, and why rows are rejected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from koord.controllers.scheduler.framework.node_rejections import NodeRejections
from koord.kernels.placement_board import Board

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.framework.feasibility.fit_kernels import FitKernels
    from koord.controllers.scheduler.framework.feasibility.participants import ShapeParticipants

SKIPPED: Final = object()
"""The generation of a plugin that does not apply."""


class FeasibilityEntry:
    """The Filter and Score plugins' answers for pods of one shape, for every row of the table.

    Args:
        table: the nodes.
        filters: how many there are.
        rules: by score plugin, its weight and how it is normalised.

    Attributes:
        board: refusals and scores by row. Rows with open questions to per-node filters count as
            feasible until asked.
        filter_generations, score_generations: by number, the generation of each plugin's answers.
        custom: by score number, raw scores by row of plugins that normalise by themselves.
        participants: who takes part while the table's generation stays.
        fit_kernels: those among them whose kernels answer together; None if there are none.
        nodes_version: the table's when the board was told which rows are closed.
        viewer: for whom the kernels answered what stands on the board: the table, or who sees its
            columns otherwise; None where it is not their answer.
        kept_rejections: why rows are refused, once somebody asked.
    """

    __slots__ = (
        "board",
        "custom",
        "filter_generations",
        "filtered_flips",
        "fit_kernels",
        "generation",
        "kept_rejections",
        "layout",
        "nodes_version",
        "own_rows",
        "participants",
        "pending_filters",
        "pending_scores",
        "rank",
        "score_generations",
        "version",
        "viewer",
    )  # fmt: skip

    def __init__(self, table: NodeTable, filters: int, rules: Sequence[tuple[int, int]]) -> None:
        self.board = Board(len(table.open), rules)
        self.layout = table.layout
        self.nodes_version = -1
        self.rank: NDArray[np.int64] | None = None
        self._begin(filters, len(rules))

    def reset(self, table: NodeTable, rules: Sequence[tuple[int, int]]) -> None:
        """Makes it the empty entry of another shape, in the same memory.

        Args:
            table, rules: see the constructor; as many rules as there.
        """
        self.board.reset(rules, self.nodes_version == table.nodes_version)
        self._begin(len(self.filter_generations), len(rules))

    def _begin(self, filters: int, scores: int) -> None:
        self.version = self.generation = -1
        self.participants: ShapeParticipants | None = None
        self.fit_kernels: FitKernels | None = None
        self.viewer: object = None
        self.kept_rejections: KeptRejections | None = None
        self.filter_generations: list[Any] = [SKIPPED] * filters
        self.score_generations: list[Any] = [SKIPPED] * scores
        self.custom: dict[int, NDArray[np.int64]] = {}
        # Rows that per-node plugins are still to be asked about, by their number; and the board's
        # count of changes of feasibility when per-node filters were asked last.
        self.pending_filters: dict[int, NDArray[np.bool_]] = {}
        self.pending_scores: dict[int, NDArray[np.bool_]] = {}
        self.filtered_flips = -1
        # Where the answers are those of the last pod alone.
        self.own_rows: set[int] = set()

    @property
    def rejected(self) -> NDArray[np.uint64]:
        """By row, the filters that refuse it, a bit each in the profile's order."""
        return self.board.refused

    @property
    def feasible(self) -> NDArray[np.bool_]:
        """By row, whether no filter refuses it."""
        return np.equal(self.board.refused, 0)

    def raw(self, number: int) -> NDArray[np.int64] | None:
        """By row, what a score plugin says; None where it does not apply."""
        if number in self.custom:
            return self.custom[number]
        raw = self.board.raw(number)
        return raw if len(raw) else None


class KeptRejections:
    """Why filters rejected rows, when somebody asked last.

    Attributes:
        first: by row, the bit of the filter that refused first.
    """

    __slots__ = ("first", "generations", "rejections", "version")

    def __init__(self, rows: int, filters: int) -> None:
        self.first = np.zeros(rows, np.uint64)
        self.rejections = NodeRejections(rows)
        self.generations: list[Any] = [None] * filters
        self.version = -1

    def is_current(self, table: NodeTable, entry: FeasibilityEntry) -> bool:
        """Whether nothing has changed since."""
        if self.version != table.version or entry.own_rows:
            return False
        return self.generations == entry.filter_generations and None not in self.generations

    def stale_rows(
        self, table: NodeTable, first: NDArray[np.uint64], generations: Sequence[Any]
    ) -> NDArray[np.bool_]:
        """The rows of which something else may have to be said."""
        changes = table.changes(self.version) if self.version >= 0 else None
        if changes is None:
            return np.ones(len(first), np.bool_)
        due: NDArray[np.bool_] = first != self.first
        due[list(changes)] = True
        for number, generation in enumerate(generations):
            if generation is None or generation != self.generations[number]:
                due |= first == np.uint64(1 << number)
        return due
