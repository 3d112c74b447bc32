# SPDX-License-Identifier: Apache-2.0
"""Outcomes of dry runs, kept by pod shape and row until something they depend on changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.preemption.victims import Candidate

if TYPE_CHECKING:
    from collections.abc import Hashable

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.preemption.disruption_budgets import DisruptionBudgets
    from koord.controllers.scheduler.preemption.dry_run import Outcome


class ShapeOutcomes:
    """The outcomes for one shape.

    Attributes:
        outcomes: by row.
        promised: by row, the uids of pods that the row was promised to when it was tried; rows
            that were promised to nobody are not in here.
    """

    __slots__ = ("budgets", "generations", "outcomes", "promised", "version")

    def __init__(self, generations: object, version: int, budgets: int) -> None:
        self.generations = generations
        self.version = version
        self.budgets = budgets
        self.outcomes: dict[int, Outcome] = {}
        self.promised: dict[int, tuple[str, ...]] = {}

    def put(self, row: int, outcome: Outcome, promised: tuple[str, ...]) -> None:
        """Keeps an outcome."""
        self.outcomes[row] = outcome
        if promised:
            self.promised[row] = promised
        else:
            self.promised.pop(row, None)


class DryRunCache:
    """Keeps what dry runs found, by shape, policy and row, while it still holds.

    Args:
        table: whose journal says which rows changed.
        budgets: whose changes matter too.
        limit: how many shapes are kept; the one longest unused goes first.
    """

    def __init__(self, table: NodeTable, budgets: DisruptionBudgets, limit: int = 64) -> None:
        self._table = table
        self._budgets = budgets
        self._limit = limit
        self._shelves: dict[Hashable, ShapeOutcomes] = {}
        self._stale: set[int] = set()

    def shelf(self, key: Hashable, generations: tuple[Any, ...] | None) -> ShapeOutcomes:
        """What is still true; to be added to. Nothing is kept where generations are None."""
        if generations is None:
            return ShapeOutcomes(None, 0, 0)
        self._follow_budgets()
        shelf = self._shelves.pop(key, None)
        changes = self._table.changes(shelf.version) if shelf is not None else None
        if (
            shelf is None
            or changes is None
            or shelf.generations != generations
            or shelf.budgets != self._budgets.version
        ):
            shelf = ShapeOutcomes(generations, 0, self._budgets.version)
            if len(self._shelves) >= self._limit:
                del self._shelves[next(iter(self._shelves))]
        else:
            for row in changes:
                shelf.outcomes.pop(row, None)
        shelf.version = self._table.version
        self._shelves[key] = shelf
        return shelf

    def drop(self, row: int) -> None:
        """A pod of the row changed in a way that the journal does not tell."""
        for shelf in self._shelves.values():
            shelf.outcomes.pop(row, None)

    def _follow_budgets(self) -> None:
        """Lets go what depends on budgets whose status has changed."""
        changed = self._budgets.changed
        if not changed:
            return
        for shelf in self._shelves.values():
            for row, outcome in list(shelf.outcomes.items()):
                if isinstance(outcome, Candidate) and not changed.isdisjoint(outcome.budgets):
                    del shelf.outcomes[row]
        changed.clear()
