# SPDX-License-Identifier: Apache-2.0
"""What the Filter and Score plugins say of every node, kept by pod shape and brought up to date.

The first pod of a shape asks every plugin about every node. After it, only rows that changed in an
aspect a plugin depends on are asked about again: mostly the one row that the last pod went to. The
answers stand on a :class:`~koord.kernels.placement_board.Board`, which knows the best row. So a
decision costs little more than what changed, however many nodes there are and however dear a
plugin's answer is.

Who takes part is found out once a shape and turn of the table. Plugins that only look at the
table's columns are not even called: their kernels answer together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.framework import columns
from koord.controllers.scheduler.framework.asking import (
    SKIPPED,
    Asked,
    AskedFilter,
    AskedScore,
    Stale,
)
from koord.controllers.scheduler.framework.parts import Part, Room, part
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
        filters, scores: who takes part, until the table's next turn.
        room: those among them whose kernels answer together; None if there are none.
        said: why rows are refused, once somebody asked.
    """

    __slots__ = (
        "asked_at", "board", "custom", "filter_stamps", "filters", "layout", "own_rows", "rank",
        "room", "said", "score_stamps", "scores", "turns", "unasked", "unscored", "version",
    )  # fmt: skip

    def __init__(self, table: NodeTable, filters: int, rules: Sequence[tuple[int, int]]) -> None:
        self.board = Board(len(table.open), rules)
        self.layout = table.layout
        self.version = self.turns = -1
        self.filters = self.scores = Part()
        self.room: Room | None = None
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
        together: whether kernels that look at columns alone answer without their plugins; not for
            who wants to see each plugin asked.
    """

    def __init__(
        self,
        table: NodeTable,
        filters: Sequence[Any],
        scores: Sequence[tuple[Any, int]],
        limit: int = 512,
        together: bool = True,
    ) -> None:
        self.table = table
        self.filters = list(filters)
        self.scores = list(scores)
        # Bits of the filters that no pod matters to, as in Verdict.rejected; and the others.
        fixed = [columns.is_fixed(plugin) for plugin in filters]
        self.fixed = np.uint64(sum(1 << number for number, is_so in enumerate(fixed) if is_so))
        self.live = tuple(p for p, is_so in zip(filters, fixed, strict=True) if not is_so)
        self._filters = [AskedFilter(n, plugin) for n, plugin in enumerate(filters)]
        self._scores = [
            AskedScore(n, plugin, plugin.normalization is Normalization.CUSTOM)
            for n, (plugin, _) in enumerate(scores)
        ]
        self._rules = [(weight, _NATIVE[plugin.normalization]) for plugin, weight in scores]
        self._kept: dict[int, Verdict] = {}
        self._limit = limit
        self._together = together

    def verdict(self, cycle: Cycle) -> Verdict:
        """The verdict on the cycle's shape, up to date."""
        table = self.table
        verdict = self._keep(cycle)
        version = table.version
        stale = Stale(table, self._changes(cycle, verdict))
        union = stale.union
        if verdict.turns != table.turns:
            self._turn(cycle, verdict)
        if union & _NODE:
            self._mark_closed(verdict, stale)
        filters, scores = self._settle_room(cycle, verdict, stale)
        numbers = filters.asked(union)
        if numbers:
            self._bring(cycle, verdict, stale, self._filters, numbers, verdict.filter_stamps)
        if verdict.unasked and verdict.asked_at != verdict.board.flips:
            self._ask(cycle, verdict)
        cycle.board = verdict.board
        numbers = scores.asked(union)
        if numbers:
            self._bring(cycle, verdict, stale, self._scores, numbers, verdict.score_stamps)
        if verdict.unscored:
            self._ask_scores(cycle, verdict)
        verdict.version = version
        if verdict.own_rows:
            verdict.own_rows = _own_rows(cycle)
        return verdict

    def _changes(self, cycle: Cycle, verdict: Verdict) -> dict[int, int] | None:
        """The rows to ask about again, with the aspects that changed; None for all.

        Among them the pod's own rows, and those that the pod before had for its own.
        """
        changes = self.table.changes(verdict.version) if verdict.version >= 0 else None
        if cycle.own_rows is not None:
            verdict.own_rows |= _own_rows(cycle)
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
            limit = min(self._limit, max(16, _KEPT_ROWS // max(1, len(table.open))))
            while len(self._kept) >= limit:
                del self._kept[next(iter(self._kept))]
        self._kept[key] = verdict
        return verdict

    def _turn(self, cycle: Cycle, verdict: Verdict) -> None:
        """Finds out who takes part; who does no longer takes back what it said."""
        turns = self.table.turns
        filters = [asked for asked in self._filters if asked.takes_part(cycle)]
        scores = [asked for asked in self._scores if asked.takes_part(cycle)]
        self._retire(verdict, self._filters, filters, verdict.filter_stamps)
        self._retire(verdict, self._scores, scores, verdict.score_stamps)
        verdict.filters, verdict.scores = part(filters), part(scores)
        room = Room(cycle.shape, filters, scores)
        room.follows(verdict.room)
        verdict.room = room or None
        if verdict.rank is not self.table.rank:
            verdict.rank = self.table.rank
            verdict.board.set_ranks(verdict.rank)
        verdict.turns = turns

    def _retire(
        self, verdict: Verdict, known: Sequence[Asked], now: Sequence[Asked], stamps: list[Any]
    ) -> None:
        left = {asked.number for asked in now}
        for asked in known:
            if asked.number not in left and stamps[asked.number] is not SKIPPED:
                stamps[asked.number] = SKIPPED
                asked.retire(verdict)

    def _mark_closed(self, verdict: Verdict, stale: Stale) -> None:
        rows = stale.rows(_NODE)
        if rows is None:
            verdict.board.refuse(CLOSED, slice(None), self.table.open)
        else:
            verdict.board.refuse(CLOSED, rows, self.table.open[rows])

    def _settle_room(self, cycle: Cycle, verdict: Verdict, stale: Stale) -> tuple[Part, Part]:
        """Lets kernels answer that look at columns alone.

        Returns:
            Who is to be asked besides, at Filter and at Score.
        """
        room = verdict.room
        if room is None or not self._together:
            return verdict.filters, verdict.scores
        if cycle.has_overlay:
            room.settled = False
            return verdict.filters, verdict.scores
        room.settle(verdict, stale)
        return room.filters, room.scores

    def _bring(
        self,
        cycle: Cycle,
        verdict: Verdict,
        stale: Stale,
        plugins: Sequence[Asked],
        numbers: Sequence[int],
        stamps: list[Any],
    ) -> None:
        """Brings the answers of some plugins up to date, of Filter or of Score."""
        for number in numbers:
            asked, before = plugins[number], stamps[number]
            if asked.applies is not None and not asked.applies(cycle):
                if before is not SKIPPED:
                    stamps[asked.number] = SKIPPED
                    asked.retire(verdict)
                continue
            due = asked.due(cycle, before, stale)
            stamps[asked.number] = asked.now
            for rows in due:
                asked.put(cycle, verdict, rows)

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

    def _ask_scores(self, cycle: Cycle, verdict: Verdict) -> None:
        """Puts per-node score plugins' questions about feasible rows."""
        feasible = verdict.feasible
        for number, unscored in verdict.unscored.items():
            asked = self._scores[number]
            rows = np.flatnonzero(unscored & feasible)
            if len(rows):
                unscored[rows] = False
                raw = [asked.plugin.score_node(cycle, row) for row in rows.tolist()]
                asked.rate(verdict, rows, np.array(raw, np.int64))

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

        What was said before is said again of rows that did not change. Not to be changed.
        """
        table, said = self.table, verdict.said
        if said is not None and said.holds(table, verdict):
            return said.refusals
        rejected = np.where(table.open[: table.size], verdict.rejected[: table.size], 0)
        first = rejected & (~rejected + np.uint64(1))
        if said is None or len(said.first) != len(first):
            said = verdict.said = _Said(table.size, len(self.filters))
        due = said.due(table, first, verdict.filter_stamps)
        # Who has the last ones may go on reading them.
        said.refusals = said.refusals.copy()
        rows = np.flatnonzero(due)
        bits = first[rows]
        said.refusals.clear(rows)
        for bit in np.unique(bits[bits != 0]).tolist():
            self._say(cycle, said.refusals, bit.bit_length() - 1, rows[bits == np.uint64(bit)])
        said.first, said.version = first, table.version
        said.stamps = list(verdict.filter_stamps)
        return said.refusals

    def _say(self, cycle: Cycle, refusals: Refusals, number: int, rows: NDArray[np.intp]) -> None:
        """Asks a filter why it refuses rows."""
        plugin = self.filters[number]
        if hasattr(plugin, "filter"):
            refusals.put(rows, plugin.diagnose(cycle, rows))
            return
        asked = [plugin.filter_node(cycle, row) for row in rows.tolist()]
        unsaid = Rejection(plugin.name, ("refused",))
        refusals.put(rows, [refusal or unsaid for refusal in asked])


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

    def holds(self, table: NodeTable, verdict: Verdict) -> bool:
        """Whether nothing has changed since."""
        if self.version != table.version or verdict.own_rows:
            return False
        return self.stamps == verdict.filter_stamps and None not in self.stamps

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


def _own_rows(cycle: Cycle) -> set[int]:
    return set(cycle.own_rows.tolist()) if cycle.own_rows is not None else set()
