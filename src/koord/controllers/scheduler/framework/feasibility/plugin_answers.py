# SPDX-License-Identifier: Apache-2.0
"""What one plugin says at Filter or Score: which rows it is asked about again, and its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.framework.feasibility.entry import SKIPPED
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.changed_rows import ChangedRows, Rows
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.feasibility.entry import FeasibilityEntry


class PluginAnswers:
    """One plugin at Filter or Score.

    Args:
        number: its place in the profile.
        plugin: the plugin.
        point: the name of the method that answers for rows; a plugin without it is asked by node.

    Attributes:
        answer: that method, or None.
        applies: whether it applies to this attempt; None where it always does.
        plugin: the plugin.
        static: the answers depend on nothing but shape and rows, and whether it applies on nothing
            that moves while the table's generation stays.
        depends: on which aspects.
        bits: what says the same as bits, ``filter_bits`` and ``score_bits`` of the same class; None
            for a plugin without.
        load: what native bounds work out themselves, ``filter_load`` and ``score_load`` of the
            same; None for a plugin without.
        at_once: see ``filter_at_once`` and ``score_at_once`` of
            :class:`koord.controllers.scheduler.framework.plugin.Plugin`.
        reserved: what says whose reservations are to be asked about the rows that are looked at,
            see ``reserved_answers`` of the same; None for a plugin without.
        stays: what it says of a row stays until the row changes, or the answers' generation.
        generation: the one that :meth:`stale_rows` found.
    """

    __slots__ = (
        "_at_once_for",
        "_generation_of",
        "_stale_rows",
        "answer",
        "applies",
        "at_once",
        "bits",
        "depends",
        "generation",
        "load",
        "number",
        "plugin",
        "point",
        "reserved",
        "static",
        "stays",
    )

    def __init__(self, number: int, plugin: Any, point: str) -> None:
        self.number = number
        self.plugin = plugin
        self.point = point
        self.answer: Callable[[Cycle, Rows], Any] | None = getattr(plugin, point, None)
        self.generation: Hashable = SKIPPED
        self.depends = int(plugin.depends)
        # Where the shape tells, it is asked with the points at which it has nothing to do.
        by_shape = getattr(plugin, "applies_by_shape", False)
        self.applies: Callable[[Cycle], bool] | None
        self.applies = None if by_shape else _own(plugin, point, "applies")
        self._generation_of = _own(plugin, point, "generation")
        self._stale_rows = _own(plugin, point, "stale_rows")
        wanted = getattr(plugin, f"{point}_at_once", False) and self.answer is not None
        self.at_once = wanted and getattr(plugin, "normalization", None) is not Normalization.CUSTOM
        self.bits: Callable[[Cycle], Any] | None = getattr(plugin, f"{point}_bits", None)
        self.load: Callable[[Cycle], Any] | None = getattr(plugin, f"{point}_load", None)
        self._at_once_for: Callable[[Cycle], bool] | None = _own(plugin, point, "answers_at_once")
        self.reserved: Callable[[Cycle], tuple[Any, ...]] | None
        self.reserved = getattr(plugin, "reserved_answers", None)
        self.stays = self._stale_rows is None
        self.static = self.applies is None and self._generation_of is None

    def stale_rows(self, cycle: Cycle, before: Hashable, changed: ChangedRows) -> Iterable[Rows]:
        """The rows to ask about, where it applies. Leaves what holds now behind in ``generation``.

        Args:
            cycle: the attempt.
            before: the generation of the answers that are kept.
            changed: what changed since.
        """
        now = self.generation = self._generation_of(cycle) if self._generation_of is not None else 0
        table = changed.table
        if changed.all or before is SKIPPED or now is None or before is None:
            return (table.rows,)
        rows = changed.rows(self.depends)
        if now == before:
            return () if rows is None else (rows,)
        moved = self._stale_rows(cycle, before) if self._stale_rows is not None else None
        if moved is None:
            return (table.rows,)
        return (moved,) if rows is None else (moved, rows)

    def is_at_once(self, cycle: Cycle) -> bool:
        """Whether it is for this pod."""
        return self.at_once and (self._at_once_for is None or self._at_once_for(cycle))

    def reserved_answers(self, cycle: Cycle, weight: int) -> tuple[Any, ...]:
        """The question about a pod's reservations, as native bounds take it, with a weight."""
        assert self.reserved is not None
        bounds, *question = self.reserved(cycle)
        return bounds, weight, *question

    def of_all_rows(self, cycle: Cycle) -> NDArray[Any]:
        """What a plugin that answers for rows says of all rows of the table; 0 of closed ones."""
        assert self.answer is not None
        if self._generation_of is not None:
            self._generation_of(cycle)
        table = cycle.table
        found: NDArray[Any] = self.answer(cycle, table.rows)
        if len(found) == table.size:
            return found
        every = np.zeros(table.size, found.dtype)
        every[table.rows] = found
        return every

    def bits_of_all_rows(self, cycle: Cycle) -> Any:
        """The same as bits, where the plugin says so; None where it does not for this pod."""
        return None if self.bits is None else self.bits(cycle)

    def put(self, cycle: Cycle, entry: FeasibilityEntry, rows: Rows) -> None:
        """Takes over what the plugin says of rows."""
        raise NotImplementedError

    def retire(self, entry: FeasibilityEntry) -> None:
        """Takes back whatever it has said: it does not apply."""
        raise NotImplementedError


class FilterAnswers(PluginAnswers):
    """A plugin at Filter."""

    __slots__ = ()

    def __init__(self, number: int, plugin: Any) -> None:
        super().__init__(number, plugin, "filter")

    def put(self, cycle: Cycle, entry: FeasibilityEntry, rows: Rows) -> None:
        """Notes which rows it refuses; those of a per-node filter pass until it is asked."""
        board = entry.board
        if self.answer is not None:
            board.refuse(self.number, rows, self.answer(cycle, rows))
            return
        pending = _pending_rows(entry.pending_filters, self.number, board.rows)
        pending[rows] = True
        board.refuse(self.number, rows, np.ones(len(pending[rows]), np.bool_))
        entry.filtered_flips = -1

    def retire(self, entry: FeasibilityEntry) -> None:
        """It refuses no row."""
        entry.board.clear(self.number)
        entry.pending_filters.pop(self.number, None)


class ScoreAnswers(PluginAnswers):
    """A plugin at Score.

    Args:
        number, plugin: see :class:`PluginAnswers`.
        custom: whether it normalises by itself.
    """

    __slots__ = ("_custom",)

    def __init__(self, number: int, plugin: Any, custom: bool) -> None:
        super().__init__(number, plugin, "score")
        self._custom = custom

    def put(self, cycle: Cycle, entry: FeasibilityEntry, rows: Rows) -> None:
        """Notes raw scores; a per-node plugin is asked about feasible rows, later."""
        if self.answer is not None:
            self.rate(entry, rows, self.answer(cycle, rows))
        else:
            _pending_rows(entry.pending_scores, self.number, entry.board.rows)[rows] = True

    def rate(self, entry: FeasibilityEntry, rows: Rows, raw: NDArray[np.int64]) -> None:
        """Notes raw scores."""
        if not self._custom:
            entry.board.rate(self.number, rows, raw)
            return
        kept = entry.custom.get(self.number)
        if kept is None:
            kept = entry.custom[self.number] = np.zeros(entry.board.rows, np.int64)
        kept[rows] = raw

    def retire(self, entry: FeasibilityEntry) -> None:
        """It adds nothing."""
        entry.board.skip(self.number)
        entry.custom.pop(self.number, None)
        entry.pending_scores.pop(self.number, None)


def _pending_rows(
    pending: dict[int, NDArray[np.bool_]], number: int, rows: int
) -> NDArray[np.bool_]:
    """By row, whether a per-node plugin is still to be asked; kept by the plugin's number."""
    of_plugin = pending.get(number)
    if of_plugin is None:
        of_plugin = pending[number] = np.zeros(rows, np.bool_)
    return of_plugin


def _own(plugin: Any, point: str, question: str) -> Any | None:
    """The plugin's method for a question at this point or at all; None where it has none."""
    special = getattr(plugin, f"{point}_{question}", None)
    if special is not None:
        return special
    # What a plugin leaves as it is in Plugin need not be called.
    inherited = getattr(Plugin, question, None)
    if inherited is not None and getattr(type(plugin), question, None) is inherited:
        return None
    return getattr(plugin, question, None)
