# SPDX-License-Identifier: Apache-2.0
"""What the Filter and Score plugins say of every node, kept by pod shape and brought up to date.

The first pod of a shape asks every plugin about every node. After it, only rows that changed in an
aspect a plugin depends on are asked about again: mostly the one row that the last pod went to. The
answers stand on a :class:`~koord.kernels.placement_board.Board`, which knows the best row. So a
decision costs little more than what changed, however many nodes there are and however dear a
plugin's answer is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.framework.asking import SKIPPED, Asked, Stale
from koord.controllers.scheduler.framework.plugin import Normalization
from koord.controllers.scheduler.framework.refusals import Refusals
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.kernels import placement_board
from koord.kernels.placement_board import CLOSED, Board

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.scheduler.framework.cycle import Cycle

_NODE = int(Aspect.NODE)

# What CUSTOM makes of raw scores is rated as it is.
_NATIVE = {
    Normalization.NONE: placement_board.NONE,
    Normalization.DEFAULT: placement_board.DEFAULT,
    Normalization.REVERSED: placement_board.REVERSED,
    Normalization.MIN_MAX: placement_board.MIN_MAX,
    Normalization.SPREAD: placement_board.SPREAD,
    Normalization.CUSTOM: placement_board.NONE,
}

_KEPT_ROWS = 2_000_000
"""How many rows all kept verdicts have together, at some 60 bytes a row."""


class Verdict:
    """The answers for one shape.

    Attributes:
        board: refusals and scores by row. Rows with open questions to per-node filters count as
            feasible until asked.
        custom: by score number, raw scores by row of plugins that normalise by themselves.
        filters, scores: the numbers of plugins that take part, for this shape.
        said: why rows are refused, once somebody asked.
    """

    __slots__ = (
        "asked_at", "board", "custom", "filter_stamps", "filters", "layout", "own_rows", "rank",
        "said", "score_stamps", "scores", "unasked", "unscored", "version",
    )  # fmt: skip

    def __init__(self, table: NodeTable, filters: int, rules: Sequence[tuple[int, int]]) -> None:
        self.board = Board(len(table.open), rules)
        self.layout = table.layout
        self.version = -1
        self.filters: tuple[int, ...] = ()
        self.scores: tuple[int, ...] = ()
        self.said: _Said | None = None
        self.rank: NDArray[np.int64] | None = None
        self.filter_stamps: list[Any] = [SKIPPED] * filters
        self.score_stamps: list[Any] = [SKIPPED] * len(rules)
        self.custom: dict[int, NDArray[np.int64]] = {}
        # Rows that per-node plugins are still to be asked about, by their number.
        self.unasked: dict[int, NDArray[np.bool_]] = {}
        self.unscored: dict[int, NDArray[np.bool_]] = {}
        self.asked_at = -1
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


class Evaluator:
    """Keeps verdicts by shape.

    Args:
        table: the nodes.
        filters: the profile's Filter and PerNodeFilter plugins in order, at most 63.
        scores: the profile's Score and PerNodeScore plugins, with their weights.
        limit: how many shapes are kept; the one longest unused goes first. Fewer are on a table
            of many rows.
    """

    def __init__(
        self,
        table: NodeTable,
        filters: Sequence[Any],
        scores: Sequence[tuple[Any, int]],
        limit: int = 512,
    ) -> None:
        self.table = table
        self.filters = list(filters)
        self.scores = list(scores)
        self._filters = [Asked(n, plugin, "filter") for n, plugin in enumerate(filters)]
        self._scores = [Asked(n, plugin, "score") for n, (plugin, _) in enumerate(scores)]
        self._rules = [(weight, _NATIVE[plugin.normalization]) for plugin, weight in scores]
        self._custom = {
            number
            for number, (plugin, _) in enumerate(scores)
            if plugin.normalization is Normalization.CUSTOM
        }
        self._kept: dict[int, Verdict] = {}
        self._limit = limit

    def verdict(self, cycle: Cycle) -> Verdict:
        """The verdict on the cycle's shape, up to date."""
        table = self.table
        verdict = self._keep(cycle)
        version = table.version
        stale = Stale(table, self._changes(cycle, verdict))
        if verdict.rank is not table.rank:
            verdict.rank = table.rank
            verdict.board.set_ranks(verdict.rank)
        self._mark_closed(verdict, stale)
        self._filter(cycle, verdict, stale)
        cycle.board = verdict.board
        self._score(cycle, verdict, stale)
        verdict.version = version
        verdict.own_rows = set(cycle.own_rows.tolist()) if cycle.own_rows is not None else set()
        return verdict

    def _changes(self, cycle: Cycle, verdict: Verdict) -> dict[int, int] | None:
        """The rows to ask about again, with the aspects that changed; None for all.

        Among them the pod's own rows, and those that the pod before had for its own.
        """
        changes = self.table.changes(verdict.version) if verdict.version >= 0 else None
        if cycle.own_rows is not None:
            verdict.own_rows.update(cycle.own_rows.tolist())
        if changes is not None and verdict.own_rows:
            changes.update(dict.fromkeys(sorted(verdict.own_rows), int(Aspect.ALL)))
        return changes

    def share(self, other: Evaluator) -> None:
        """Keeps answers together with another one, of the same plugins in the same order."""
        self._kept = other._kept

    def kept(self, key: int) -> Verdict | None:
        """The verdict on a shape as it was left, by the shape's id; None if there is none."""
        return self._kept.get(key)

    def _keep(self, cycle: Cycle) -> Verdict:
        """The verdict of a shape as it was left, or an empty one."""
        table, key = self.table, cycle.shape.id
        verdict = self._kept.pop(key, None)
        if verdict is None or verdict.layout != table.layout:
            verdict = Verdict(table, len(self.filters), self._rules)
            verdict.filters = tuple(a.number for a in self._filters if a.takes_part(cycle))
            verdict.scores = tuple(a.number for a in self._scores if a.takes_part(cycle))
            limit = min(self._limit, max(16, _KEPT_ROWS // max(1, len(table.open))))
            while len(self._kept) >= limit:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = verdict
        return verdict

    def _mark_closed(self, verdict: Verdict, stale: Stale) -> None:
        if stale.all:
            verdict.board.refuse(CLOSED, slice(None), self.table.open)
            return
        rows = stale.rows(_NODE)
        if rows is not None:
            verdict.board.refuse(CLOSED, rows, self.table.open[rows])

    def _filter(self, cycle: Cycle, verdict: Verdict, stale: Stale) -> None:
        board, stamps = verdict.board, verdict.filter_stamps
        union = stale.union
        for number in verdict.filters:
            asked = self._filters[number]
            if asked.static and not union & asked.depends:
                continue
            before = stamps[number]
            if asked.applies is not None and not asked.applies(cycle):
                if before is not SKIPPED:
                    stamps[number] = SKIPPED
                    board.clear(number)
                    verdict.unasked.pop(number, None)
                continue
            due = asked.due(cycle, before, stale)
            stamps[number] = asked.now
            for rows in due:
                if asked.answer is not None:
                    board.refuse(number, rows, asked.answer(cycle, rows))
                else:
                    unasked = _mark(verdict.unasked, number, board.rows)
                    unasked[rows] = True
                    board.refuse(number, rows, np.ones(len(unasked[rows]), np.bool_))
                    verdict.asked_at = -1
        if verdict.unasked and verdict.asked_at != board.flips:
            self._ask(cycle, verdict)

    def _ask(self, cycle: Cycle, verdict: Verdict) -> None:
        """Puts per-node filters' questions about rows that all others let pass."""
        board = verdict.board
        for number, unasked in verdict.unasked.items():
            plugin = self.filters[number]
            others = board.refused & ~np.uint64(1 << number)
            rows = np.flatnonzero(unasked & (others == 0))
            if len(rows):
                unasked[rows] = False
                passes = [plugin.filter_node(cycle, row) is None for row in rows.tolist()]
                board.refuse(number, rows, np.array(passes, np.bool_))
        verdict.asked_at = board.flips

    def _score(self, cycle: Cycle, verdict: Verdict, stale: Stale) -> None:
        stamps = verdict.score_stamps
        union = stale.union
        for number in verdict.scores:
            asked = self._scores[number]
            if asked.static and not union & asked.depends:
                continue
            before = stamps[number]
            if asked.applies is not None and not asked.applies(cycle):
                if before is not SKIPPED:
                    stamps[number] = SKIPPED
                    verdict.board.skip(number)
                    verdict.custom.pop(number, None)
                    verdict.unscored.pop(number, None)
                continue
            due = asked.due(cycle, before, stale)
            stamps[number] = asked.now
            for rows in due:
                if asked.answer is not None:
                    self._rate(verdict, number, rows, asked.answer(cycle, rows))
                else:
                    _mark(verdict.unscored, number, verdict.board.rows)[rows] = True
        if verdict.unscored:
            self._ask_scores(cycle, verdict)

    def _rate(self, verdict: Verdict, number: int, rows: Any, raw: NDArray[np.int64]) -> None:
        if number not in self._custom:
            verdict.board.rate(number, rows, raw)
            return
        kept = verdict.custom.get(number)
        if kept is None:
            kept = verdict.custom[number] = np.zeros(verdict.board.rows, np.int64)
        kept[rows] = raw

    def _ask_scores(self, cycle: Cycle, verdict: Verdict) -> None:
        feasible = verdict.feasible
        for number, unscored in verdict.unscored.items():
            plugin = self.scores[number][0]
            rows = np.flatnonzero(unscored & feasible)
            if len(rows):
                unscored[rows] = False
                raw = [plugin.score_node(cycle, row) for row in rows.tolist()]
                self._rate(verdict, number, rows, np.array(raw, np.int64))

    def check(self, cycle: Cycle, row: int) -> Rejection | None:
        """Asks all filters about one row, nothing kept: for what-ifs and nominated nodes.

        Returns:
            The first refusal in the profile's order.
        """
        rows = np.array([row], np.intp)
        for plugin in self.filters:
            if not plugin.applies(cycle):
                continue
            if hasattr(plugin, "filter"):
                if not plugin.filter(cycle, rows)[0]:
                    found: Rejection = plugin.diagnose(cycle, rows)[0]
                    return found
            else:
                refused: Rejection | None = plugin.filter_node(cycle, row)
                if refused is not None:
                    return refused
        return None

    def refusals(self, cycle: Cycle, verdict: Verdict) -> Refusals:
        """The first refusal of each refused row of an open node, in the profile's order.

        What was said before is said again of rows that did not change.
        """
        table = self.table
        rejected = np.where(table.open[: table.size], verdict.rejected[: table.size], 0)
        first = rejected & (~rejected + np.uint64(1))
        said = verdict.said
        if said is None or len(said.first) != len(first):
            said = verdict.said = _Said(table.size, len(self.filters))
        due = said.due(table, first, verdict.filter_stamps)
        for number, plugin in enumerate(self.filters):
            rows = np.flatnonzero(due & (first == np.uint64(1 << number)))
            if not len(rows):
                continue
            if hasattr(plugin, "filter"):
                said.refusals.put(rows, plugin.diagnose(cycle, rows))
            else:
                asked = [plugin.filter_node(cycle, row) for row in rows.tolist()]
                unsaid = Rejection(plugin.name, ("refused",))
                said.refusals.put(rows, [refusal or unsaid for refusal in asked])
        said.refusals.clear(due & (first == 0))
        said.first, said.version = first, table.version
        said.stamps = list(verdict.filter_stamps)
        return said.refusals.copy()


class _Said:
    """What was last said of the rows that filters refuse.

    Attributes:
        first: by row, the bit of the filter that refused first.
    """

    __slots__ = ("first", "refusals", "stamps", "version")

    def __init__(self, rows: int, filters: int) -> None:
        self.first = np.zeros(rows, np.uint64)
        self.refusals = Refusals(rows)
        self.stamps: list[Any] = [None] * filters
        self.version = -1

    def due(
        self, table: NodeTable, first: NDArray[np.uint64], stamps: Sequence[Any]
    ) -> NDArray[np.bool_]:
        """The rows of which something else may have to be said."""
        changes = table.changes(self.version) if self.version >= 0 else None
        if changes is None:
            return np.ones(len(first), np.bool_)
        due: NDArray[np.bool_] = first != self.first
        due[list(changes)] = True
        for number, stamp in enumerate(stamps):
            if stamp is None or stamp != self.stamps[number]:
                due |= first == np.uint64(1 << number)
        return due


def _mark(marks: dict[int, NDArray[np.bool_]], number: int, rows: int) -> NDArray[np.bool_]:
    mark = marks.get(number)
    if mark is None:
        mark = marks[number] = np.zeros(rows, np.bool_)
    return mark
