# SPDX-License-Identifier: Apache-2.0
"""Which rows a plugin must be asked about again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from koord.controllers.scheduler.framework.plugin import Plugin, idle_at

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

    from numpy.typing import NDArray

    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.verdicts import Verdict

    Rows = NDArray[np.intp] | slice

SKIPPED: Final = object()
"""The stamp of a plugin that does not apply."""


class Stale:
    """Which rows changed since a verdict, by aspect.

    Args:
        table: the nodes.
        changes: aspects by row; None if all must be looked at anew.

    Attributes:
        all: whether that is so.
        union: the aspects in which any row changed.
    """

    __slots__ = ("_by_mask", "_changes", "all", "table", "union")

    def __init__(self, table: NodeTable, changes: dict[int, int] | None) -> None:
        self.table = table
        self.all = changes is None
        self._changes = changes or {}
        self._by_mask: dict[int, NDArray[np.intp]] = {}
        self.union = 0 if changes is not None else -1
        for aspects in self._changes.values():
            self.union |= aspects

    def rows(self, mask: int) -> NDArray[np.intp] | None:
        """The rows that changed in any of the aspects, None for none."""
        asked = mask & self.union
        if not asked or self.all:
            return None
        rows = self._by_mask.get(asked)
        if rows is None:
            rows = self._by_mask[asked] = self._find(asked)
        return rows

    def _find(self, asked: int) -> NDArray[np.intp]:
        if len(self._changes) == 1:
            return self.table.index(next(iter(self._changes)))
        found = [row for row, aspects in self._changes.items() if aspects & asked]
        return np.array(found, np.intp)


class Asked:
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
            that moves between two of the table's turns.
        depends: on which aspects.
        now: the stamp that :meth:`due` found.
    """

    __slots__ = (
        "_by_shape",
        "_stale_rows",
        "_stamp",
        "answer",
        "applies",
        "depends",
        "now",
        "number",
        "plugin",
        "point",
        "static",
    )

    def __init__(self, number: int, plugin: Any, point: str) -> None:
        self.number = number
        self.plugin = plugin
        self.point = point
        self.answer: Callable[[Cycle, Rows], Any] | None = getattr(plugin, point, None)
        self.now: Hashable = SKIPPED
        self.depends = int(plugin.depends)
        applies = _own(plugin, point, "applies")
        by_shape = getattr(plugin, "applies_by_shape", False)
        self._by_shape = applies if by_shape else None
        self.applies: Callable[[Cycle], bool] | None = None if by_shape else applies
        self._stamp = _own(plugin, point, "stamp")
        self._stale_rows = _own(plugin, point, "stale_rows")
        self.static = self.applies is None and self._stamp is None

    def takes_part(self, cycle: Cycle) -> bool:
        """Whether the plugin may have an answer for pods of the shape until the next turn."""
        if self.point in idle_at(self.plugin, cycle.shape):
            return False
        return self._by_shape is None or bool(self._by_shape(cycle))

    def due(self, cycle: Cycle, before: Hashable, stale: Stale) -> Iterable[Rows]:
        """The rows to ask about, where it applies. Leaves the stamp of now behind in ``now``.

        Args:
            cycle: the attempt.
            before: the stamp of the answers that are kept.
            stale: what changed since.
        """
        now = self.now = self._stamp(cycle) if self._stamp is not None else 0
        table = stale.table
        if stale.all or before is SKIPPED or now is None or before is None:
            return (table.rows,)
        changed = stale.rows(self.depends)
        if now == before:
            return () if changed is None else (changed,)
        moved = self._stale_rows(cycle, before) if self._stale_rows is not None else None
        if moved is None:
            return (table.rows,)
        return (moved,) if changed is None else (moved, changed)

    def put(self, cycle: Cycle, verdict: Verdict, rows: Rows) -> None:
        """Takes over what the plugin says of rows."""
        raise NotImplementedError

    def retire(self, verdict: Verdict) -> None:
        """Takes back whatever it has said: it does not apply."""
        raise NotImplementedError


class AskedFilter(Asked):
    """A plugin at Filter."""

    __slots__ = ()

    def __init__(self, number: int, plugin: Any) -> None:
        super().__init__(number, plugin, "filter")

    def put(self, cycle: Cycle, verdict: Verdict, rows: Rows) -> None:
        """Notes which rows it refuses; those of a per-node filter pass until it is asked."""
        board = verdict.board
        if self.answer is not None:
            board.refuse(self.number, rows, self.answer(cycle, rows))
            return
        unasked = _mark(verdict.unasked, self.number, board.rows)
        unasked[rows] = True
        board.refuse(self.number, rows, np.ones(len(unasked[rows]), np.bool_))
        verdict.asked_at = -1

    def retire(self, verdict: Verdict) -> None:
        """It refuses no row."""
        verdict.board.clear(self.number)
        verdict.unasked.pop(self.number, None)


class AskedScore(Asked):
    """A plugin at Score.

    Args:
        number, plugin: see :class:`Asked`.
        custom: whether it normalises by itself.
    """

    __slots__ = ("_custom",)

    def __init__(self, number: int, plugin: Any, custom: bool) -> None:
        super().__init__(number, plugin, "score")
        self._custom = custom

    def put(self, cycle: Cycle, verdict: Verdict, rows: Rows) -> None:
        """Notes raw scores; a per-node plugin is asked about feasible rows, later."""
        if self.answer is not None:
            self.rate(verdict, rows, self.answer(cycle, rows))
        else:
            _mark(verdict.unscored, self.number, verdict.board.rows)[rows] = True

    def rate(self, verdict: Verdict, rows: Rows, raw: NDArray[np.int64]) -> None:
        """Notes raw scores."""
        if not self._custom:
            verdict.board.rate(self.number, rows, raw)
            return
        kept = verdict.custom.get(self.number)
        if kept is None:
            kept = verdict.custom[self.number] = np.zeros(verdict.board.rows, np.int64)
        kept[rows] = raw

    def retire(self, verdict: Verdict) -> None:
        """It adds nothing."""
        verdict.board.skip(self.number)
        verdict.custom.pop(self.number, None)
        verdict.unscored.pop(self.number, None)


def _mark(marks: dict[int, NDArray[np.bool_]], number: int, rows: int) -> NDArray[np.bool_]:
    mark = marks.get(number)
    if mark is None:
        mark = marks[number] = np.zeros(rows, np.bool_)
    return mark


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
