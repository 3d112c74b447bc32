# SPDX-License-Identifier: Apache-2.0
"""What the Filter and Score plugins say of every node, kept by pod shape and brought up to date.

Shapes of which plugins read nothing but what their containers request share what is kept.

The first pod of a shape asks every plugin about every node. After it, only rows that changed in an
aspect a plugin depends on are asked about again: mostly the one row that the last pod went to. The
answers stand on a :class:`~koord.kernels.placement_board.Board`, which knows the best row. So a
decision costs little more than what changed, however many nodes there are and however dear a
plugin's answer is.

Who takes part is found out once a shape and generation of the table. Plugins that only look at the
table's columns are not even called: their kernels answer together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.framework import column_what_if
from koord.controllers.scheduler.framework.changed_rows import ChangedRows, with_rows
from koord.controllers.scheduler.framework.feasibility.entry import (
    SKIPPED,
    FeasibilityEntry,
    KeptRejections,
)
from koord.controllers.scheduler.framework.feasibility.fit_kernels import FitKernelTable
from koord.controllers.scheduler.framework.feasibility.kept_entries import KeptEntries
from koord.controllers.scheduler.framework.feasibility.node_bounds import (
    ColumnBounds,
    NodeBounds,
)
from koord.controllers.scheduler.framework.feasibility.node_classes import NodeClasses
from koord.controllers.scheduler.framework.feasibility.participants import ParticipantTable
from koord.controllers.scheduler.framework.feasibility.plugin_answers import (
    FilterAnswers,
    PluginAnswers,
    ScoreAnswers,
)
from koord.controllers.scheduler.framework.feasibility.row_answers import RowAnswers
from koord.controllers.scheduler.framework.plugin import Normalization, normalization_of
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.kernels import placement_board
from koord.kernels.placement_board import CLOSED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.changed_rows import Changes
    from koord.controllers.scheduler.framework.cycle import Cycle, ViewedColumns
    from koord.controllers.scheduler.framework.feasibility.fit_kernels import FitKernels
    from koord.controllers.scheduler.framework.feasibility.kept_entries import SearchCost
    from koord.controllers.scheduler.framework.feasibility.participants import (
        Participants,
        ShapeParticipants,
    )
    from koord.controllers.scheduler.framework.node_rejections import NodeRejections

    AnswerSources = tuple[ShapeParticipants, FitKernels | None, int]
    """Who has anything to do, the kernels that answer together, if any, and the answers' key."""

_NODE = int(Aspect.NODE)
_FEW, _FEW_OF = 16, 16
# The generation of answers that depend on shape and rows alone.
_KEPT = 0

# What CUSTOM makes of raw scores is rated as it is.
_NATIVE = {
    Normalization.NONE: placement_board.NONE,
    Normalization.DEFAULT: placement_board.DEFAULT,
    Normalization.REVERSED: placement_board.REVERSED,
    Normalization.MIN_MAX: placement_board.MIN_MAX,
    Normalization.SPREAD: placement_board.SPREAD,
    Normalization.CUSTOM: placement_board.NONE,
}


class FeasibilityCache:
    """Keeps the answers by shape.

    Args:
        table: the nodes.
        filters: the profile's Filter and PerNodeFilter plugins in order, at most 63.
        scores: the profile's Score and PerNodeScore plugins, with their weights.
        limit: how many shapes are kept, see :class:`KeptEntries`.
        together: whether kernels that look at columns alone answer without their plugins; not for
            who wants to see each plugin asked.
        plugins: the profile's at all points, where more is asked than Filter and Score.
        large: from how many rows on nodes are kept in classes besides.

    Attributes:
        participants: who has anything to do for pods of a shape, of ``plugins``.
    """

    def __init__(
        self,
        table: NodeTable,
        filters: Sequence[Any],
        scores: Sequence[tuple[Any, int]],
        limit: int = 512,
        together: bool = True,
        plugins: ProfilePlugins | None = None,
        large: int = 1 << 14,
    ) -> None:
        self.table = table
        self.filters = list(filters)
        self.scores = list(scores)
        # Bits of the filters that no pod matters to, as in the entries; and the others.
        fixed = [column_what_if.is_fixed(plugin) for plugin in filters]
        self.fixed = np.uint64(sum(1 << number for number, is_so in enumerate(fixed) if is_so))
        self.live = tuple(p for p, is_so in zip(filters, fixed, strict=True) if not is_so)
        self._filters = [FilterAnswers(n, plugin) for n, plugin in enumerate(filters)]
        self._scores = [
            ScoreAnswers(n, plugin, plugin.normalization is Normalization.CUSTOM)
            for n, (plugin, _) in enumerate(scores)
        ]
        self.participants = self._answering = ParticipantTable(
            table, plugins or ProfilePlugins(), self._filters, self._scores
        )
        self._kernels = FitKernelTable(self._filters, self._scores)
        self._entries = KeptEntries(limit)
        self._classes = NodeClasses(table, large)
        self._bounds = NodeBounds(table)
        self._together = together
        # By score plugin, how it is normalised; None where that depends on the shape.
        self._rules: list[tuple[int, int | None]] = [
            (weight, None if hasattr(p, "normalization_of") else _NATIVE[p.normalization])
            for p, weight in scores
        ]
        # By the numbers of scores with kernels, their weights; None where one is normalised.
        self._weights: dict[tuple[int, ...], list[int] | None] = {}

    def sources(self, cycle: Cycle) -> AnswerSources:
        """Where answers to an attempt come from; holds until anything changes."""
        participants = self._answering.of(cycle.shape)
        kernels = self._kernels.of(cycle.shape, participants)
        return participants, kernels, _key(cycle, kernels)

    def entry(self, cycle: Cycle, sources: AnswerSources | None = None) -> FeasibilityEntry:
        """The answers for the cycle's shape, up to date.

        Args:
            cycle: the attempt.
            sources: what :meth:`sources` says of it, for who knows already.
        """
        table = self.table
        participants, kernels, key = sources or self.sources(cycle)
        entry = self._entries.entry(cycle, key, table, len(self.filters), self._rules_of)
        version = table.version
        # Kernels look at all rows in the time in which some are listed.
        most = max(_FEW, table.size // _FEW_OF) if key < 0 else None
        changed = ChangedRows(table, self._changes(cycle, entry, most))
        union = changed.union
        if entry.generation != table.generation or entry.participants is not participants:
            self._update_participants(entry, participants, kernels)
        if union & _NODE and entry.nodes_version != table.nodes_version:
            self._mark_closed(entry, changed)
        filters, scores = self._run_fit_kernels(cycle, entry, changed)
        numbers = filters.to_ask(union)
        if numbers:
            self._refresh(cycle, entry, changed, self._filters, numbers, entry.filter_generations)
        if entry.pending_filters and entry.filtered_flips != entry.board.flips:
            self._ask_node_filters(cycle, entry)
        cycle.board = entry.board
        numbers = scores.to_ask(union)
        if numbers:
            self._refresh(cycle, entry, changed, self._scores, numbers, entry.score_generations)
        if entry.pending_scores:
            self._ask_node_scores(cycle, entry)
        entry.version = version
        if entry.own_rows:
            entry.own_rows = _own_rows(cycle)
        return entry

    def best_at_once(self, cycle: Cycle, sources: AnswerSources) -> int:
        """The best row for a pod of a kind of which no answers are kept, and none need be; or whose
        answers are so far behind that a search takes less time than to bring them up to date.

        Returns:
            -1 where that does not go, or no node fits: then :meth:`entry` says more.
        """
        _, kernels, key = sources
        if kernels is None or not self._together:
            return -1
        if cycle.has_overlay:
            return self._best_beside_reservations(cycle, kernels, key)
        entries, search, version = self._entries, self._bounds.cost, self.table.version
        is_large = self._classes.is_large
        if not is_large and entries.behind(key, version) <= search.rows:
            return -1
        others = self._others(cycle, kernels, key)
        weights = self._weights_of(kernels.of.ratings)
        if others is None or weights is None:
            return -1
        row = -1
        if is_large and not others and cycle.allowed is None:
            row = self._best_by_class(key, kernels, weights)
        search = _asking(search, others)
        if row < 0 and not entries.keeps(key, version, search):
            row = self._bounds.best(kernels, weights, self._row_answers(cycle, others))
        if row >= 0:
            entries.remember(key, version, search)
        return row

    def _best_beside_reservations(self, cycle: Cycle, kernels: FitKernels, key: int) -> int:
        """The same for a pod for which something is held: by the columns as it sees them."""
        entries, version = self._entries, self.table.version
        others = None if cycle.seen_columns is None else self._others(cycle, kernels, key)
        weights = self._weights_of(kernels.of.ratings)
        if cycle.seen_columns is None or others is None or weights is None:
            return -1
        seen = cycle.seen_columns()
        bounds: ColumnBounds = seen.bounds
        search = bounds.cost
        if entries.behind(key, version) <= search.rows:
            return -1
        reserved = [each for each in others if each.reserved is not None]
        weight = self._reserved_weight(cycle, reserved)
        if weight is not None:
            others = [each for each in others if each.reserved is None]
        search = _asking(search, others)
        if entries.keeps(key, version, search):
            return -1
        seen.read_bounds()
        question = None if weight is None else reserved[0].reserved_answers(cycle, weight)
        row = bounds.search(kernels, weights, self._row_answers(cycle, others), question)
        if row >= 0:
            entries.remember(key, version, search)
        return row

    def _reserved_weight(self, cycle: Cycle, reserved: Sequence[PluginAnswers]) -> int | None:
        """The weight of reservations of which only the rows are asked that are looked at; None
        where there are none, or the plugin is asked about all rows as others are."""
        if [each.point for each in reserved] != ["filter", "score"]:
            return None
        weight, kind = self._rule(cycle, reserved[1])
        return weight if kind == placement_board.DEFAULT else None

    def _rule(self, cycle: Cycle, rating: PluginAnswers) -> tuple[int, int]:
        """A score's weight, and how it is normalised for pods of the cycle's shape."""
        weight, kind = self._rules[rating.number]
        if kind is None:
            kind = _NATIVE[normalization_of(rating.plugin, cycle.shape)]
        return weight, kind

    def _best_by_class(self, key: int, kernels: FitKernels, weights: list[int]) -> int:
        """The same where nodes are known by classes; -1 where they are not."""
        if key >= 0 or self._entries.keeps_beside_classes(key):
            return -1
        return self._classes.best(kernels, weights)

    def _row_answers(self, cycle: Cycle, others: Sequence[PluginAnswers]) -> RowAnswers | None:
        """What plugins say of all rows; None where that is nothing."""
        if not others and cycle.allowed is None:
            return None
        answers = RowAnswers.where(cycle.allowed)
        for each in others:
            if each.point == "filter":
                answers.add_mask(cycle, each)
            else:
                answers.add_rating(cycle, each, *self._rule(cycle, each))
        return answers if any(answers) else None

    def _weights_of(self, ratings: tuple[int, ...]) -> list[int] | None:
        """The weights of some scores; None where one of them is normalised."""
        if ratings not in self._weights:
            rules = [self._rules[number] for number in ratings]
            plain = all(kind == placement_board.NONE for _, kind in rules)
            self._weights[ratings] = [weight for weight, _ in rules] if plain else None
        return self._weights[ratings]

    def _others(self, cycle: Cycle, kernels: FitKernels, key: int) -> list[PluginAnswers] | None:
        """Who applies to an attempt beside those with kernels; None where one wants a board."""
        of = kernels.of
        # Under a key of requests none applies that reads more.
        filters, scores = of.unread if key < 0 else (of.filters.numbers, of.scores.numbers)
        asked: list[PluginAnswers] = [self._filters[n] for n in filters]
        asked += [self._scores[n] for n in scores]
        found = []
        for each in asked:
            if each.applies is None or each.applies(cycle):
                if not each.is_at_once(cycle):
                    return None
                found.append(each)
        return found

    def _changes(self, cycle: Cycle, entry: FeasibilityEntry, most: int | None) -> Changes | None:
        """The rows to ask about again, with the aspects that changed; None for all, as for more
        changes than ``most``.

        Among them the pod's own rows, and those that the pod before had for its own.
        """
        changes = self.table.changed_rows(entry.version, most) if entry.version >= 0 else None
        if cycle.own_rows is not None:
            entry.own_rows |= _own_rows(cycle)
        if changes is not None and entry.own_rows:
            changes = with_rows(changes, entry.own_rows, int(Aspect.ALL))
        return changes

    def share(self, other: FeasibilityCache) -> None:
        """Keeps answers together with another one, of the same plugins in the same order."""
        self._entries = other._entries
        self._answering, self._kernels = other._answering, other._kernels
        self._classes, self._bounds = other._classes, other._bounds

    def cached_entry(self, cycle: Cycle) -> FeasibilityEntry | None:
        """The entry of an attempt's shape as it was left; None if there is none."""
        return self._entries.get(self.sources(cycle)[2])

    def _rules_of(self, shape: PodShape) -> Sequence[tuple[int, int]]:
        """By score plugin, its weight and how the native board normalises it."""
        return [
            (weight, kind if kind is not None else _NATIVE[normalization_of(plugin, shape)])
            for (weight, kind), (plugin, _) in zip(self._rules, self.scores, strict=True)
        ]

    def _update_participants(
        self, entry: FeasibilityEntry, participants: ShapeParticipants, kernels: FitKernels | None
    ) -> None:
        """Takes over who takes part; who does no longer takes back what it said."""
        if entry.participants is not None and entry.participants is not participants:
            self._retire(
                entry, self._filters, participants.filters.numbers, entry.filter_generations
            )
            self._retire(entry, self._scores, participants.scores.numbers, entry.score_generations)
        entry.participants = participants
        if kernels is None or not kernels.equals(entry.fit_kernels):
            entry.viewer = None
        entry.fit_kernels = kernels
        if entry.order is not self.table.order:
            entry.order = self.table.order
            entry.board.set_ranks(entry.order)
        entry.generation = self.table.generation

    def _retire(
        self,
        entry: FeasibilityEntry,
        plugins: Sequence[PluginAnswers],
        participants: Sequence[int],
        generations: list[Any],
    ) -> None:
        for answers in plugins:
            number = answers.number
            if number not in participants and generations[number] is not SKIPPED:
                generations[number] = SKIPPED
                answers.retire(entry)

    def _mark_closed(self, entry: FeasibilityEntry, changed: ChangedRows) -> None:
        entry.nodes_version = self.table.nodes_version
        rows = changed.rows(_NODE)
        if rows is None:
            entry.board.refuse(CLOSED, slice(None), self.table.open)
        else:
            entry.board.refuse(CLOSED, rows, self.table.open[rows])

    def _run_fit_kernels(
        self, cycle: Cycle, entry: FeasibilityEntry, changed: ChangedRows
    ) -> tuple[Participants, Participants]:
        """Lets kernels answer that look at columns alone.

        Returns:
            Who is to be asked besides, at Filter and at Score.
        """
        kernels, participants = entry.fit_kernels, entry.participants
        assert participants is not None, "an entry whose participants nobody has found"
        if kernels is None or not self._together:
            return participants.filters, participants.scores
        seen: ViewedColumns | None = None
        if cycle.has_overlay:
            if cycle.seen_columns is None:
                entry.viewer = None
                return participants.filters, participants.scores
            seen = cycle.seen_columns()
        viewer = self.table if seen is None else seen.viewer
        everywhere = changed.all or entry.viewer is not viewer
        if everywhere:
            for number in kernels.of.checks:
                entry.filter_generations[number] = _KEPT
            for number in kernels.of.ratings:
                entry.score_generations[number] = _KEPT
            entry.viewer = viewer
        kernels.put(entry.board, seen or self.table, self.table, changed, everywhere)
        return kernels.of.filters, kernels.of.scores

    def _refresh(
        self,
        cycle: Cycle,
        entry: FeasibilityEntry,
        changed: ChangedRows,
        plugins: Sequence[PluginAnswers],
        numbers: Sequence[int],
        generations: list[Any],
    ) -> None:
        """Brings the answers of some plugins up to date, of Filter or of Score."""
        for number in numbers:
            answers, before = plugins[number], generations[number]
            if answers.applies is not None and not answers.applies(cycle):
                if before is not SKIPPED:
                    generations[number] = SKIPPED
                    answers.retire(entry)
                continue
            due = answers.stale_rows(cycle, before, changed)
            generations[number] = answers.generation
            for rows in due:
                answers.put(cycle, entry, rows)

    def _ask_node_filters(self, cycle: Cycle, entry: FeasibilityEntry) -> None:
        """Puts per-node filters' questions about rows that all others let pass."""
        board = entry.board
        for number, pending in entry.pending_filters.items():
            plugin = self.filters[number]
            others = board.refused & ~np.uint64(1 << number)
            rows = np.flatnonzero(pending & (others == 0))
            if len(rows):
                pending[rows] = False
                passes = [plugin.filter_node(cycle, row) is None for row in rows.tolist()]
                board.refuse(number, rows, np.array(passes, np.bool_))
        entry.filtered_flips = board.flips

    def _ask_node_scores(self, cycle: Cycle, entry: FeasibilityEntry) -> None:
        """Puts per-node score plugins' questions about feasible rows."""
        feasible = entry.feasible
        for number, pending in entry.pending_scores.items():
            answers = self._scores[number]
            rows = np.flatnonzero(pending & feasible)
            if len(rows):
                pending[rows] = False
                raw = [answers.plugin.score_node(cycle, row) for row in rows.tolist()]
                answers.rate(entry, rows, np.array(raw, np.int64))

    def check(self, cycle: Cycle, row: int) -> Rejection | None:
        """Asks all filters about one row, nothing kept: for what-ifs and nominated nodes.

        Returns:
            The first rejection in the profile's order.
        """
        rows = np.array([row], np.intp)
        for plugin in self.filters:
            if not plugin.applies(cycle):
                continue
            if hasattr(plugin, "filter"):
                if not plugin.filter(cycle, rows)[0]:
                    first: Rejection = plugin.diagnose(cycle, rows)[0]
                    return first
            else:
                rejection: Rejection | None = plugin.filter_node(cycle, row)
                if rejection is not None:
                    return rejection
        return None

    def rejections(self, cycle: Cycle, entry: FeasibilityEntry) -> NodeRejections:
        """The first rejection of each rejected row of an open node, in the profile's order.

        Rows that did not change keep theirs. Not to be changed.
        """
        table, kept = self.table, entry.kept_rejections
        if kept is not None and kept.is_current(table, entry):
            return kept.rejections
        rejected = np.where(table.open[: table.size], entry.rejected[: table.size], 0)
        first = rejected & (~rejected + np.uint64(1))
        if kept is None or len(kept.first) != len(first):
            kept = entry.kept_rejections = KeptRejections(table.size, len(self.filters))
        due = kept.stale_rows(table, first, entry.filter_generations)
        # Who has the last ones may go on reading them.
        kept.rejections = kept.rejections.copy()
        rows = np.flatnonzero(due)
        bits = first[rows]
        kept.rejections.clear(rows)
        for bit in np.unique(bits[bits != 0]).tolist():
            number = bit.bit_length() - 1
            self._diagnose(cycle, kept.rejections, number, rows[bits == np.uint64(bit)])
        kept.first, kept.version = first, table.version
        kept.generations = list(entry.filter_generations)
        return kept.rejections

    def _diagnose(
        self, cycle: Cycle, rejections: NodeRejections, number: int, rows: NDArray[np.intp]
    ) -> None:
        """Asks a filter why it rejects rows."""
        plugin = self.filters[number]
        if hasattr(plugin, "filter"):
            rejections.put(rows, plugin.diagnose(cycle, rows))
            return
        by_node = [plugin.filter_node(cycle, row) for row in rows.tolist()]
        unexplained = Rejection(plugin.name, ("refused",))
        rejections.put(rows, [rejection or unexplained for rejection in by_node])


def _key(cycle: Cycle, kernels: FitKernels | None) -> int:
    """Under which answers are kept: of shapes, their id; of requests, which many shapes have, a
    number below 0."""
    shape = cycle.shape
    if kernels is None or kernels.of.reads & shape.fields:
        return shape.id
    if cycle.has_overlay or cycle.own_rows is not None:
        return shape.id
    for applies in kernels.of.readers:
        if applies(cycle):
            return shape.id
    return -shape.container_requests.number


def _asking(search: SearchCost, others: Sequence[PluginAnswers]) -> SearchCost:
    """The cost of a search where others are asked too: those that answer in bits cost nothing."""
    if not others:
        return search
    if any(each.load is not None and each.point == "score" for each in others):
        search = search.rating_load()
    dear = [each for each in others if each.bits is None and each.load is None]
    if not dear:
        return search
    by_node = all(each.depends == _NODE for each in dear)
    return search.asking(stays=all(each.stays for each in dear), by_node=by_node)


def _own_rows(cycle: Cycle) -> set[int]:
    return set(cycle.own_rows.tolist()) if cycle.own_rows is not None else set()
