# SPDX-License-Identifier: Apache-2.0
"""Whether the room that was promised to others leaves enough for a pod too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.framework import column_what_if

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.accounts import Accounts
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.feasibility.cache import FeasibilityCache
    from koord.controllers.scheduler.framework.rejection import Rejection

_UNKNOWN: list[Any] = []


class NominatedPodsCheck:
    """Of one attempt: pods nominated to rows, and what filters say beside them.

    Each row is asked about once. All rows that the request columns decide are asked about together.

    Args:
        cycle: the attempt, its PreFilters asked.
        by_row: by row, pods that it is promised to.
        evaluator: of the profile's filters.
        accounts: who counts where.
    """

    def __init__(
        self,
        cycle: Cycle,
        by_row: Mapping[int, Sequence[PodInfo]],
        evaluator: FeasibilityCache,
        accounts: Accounts,
    ) -> None:
        self.by_row = by_row
        self._cycle = cycle
        self._evaluator = evaluator
        self._accounts = accounts
        self._rejections: dict[int, Rejection | None] = {}
        self._filters: list[Any] | None = _UNKNOWN

    def rejection(self, row: int) -> Rejection | None:
        """Why a row that is feasible is so no longer beside the pods promised there."""
        if row not in self.by_row:
            return None
        if row not in self._rejections:
            self._ask_together([row])
        if row not in self._rejections:
            self._rejections[row] = self._ask(row)
        return self._rejections[row]

    def ask_all(self, rows: NDArray[np.bool_]) -> list[int]:
        """Asks about feasible rows together where columns decide; gives those that refuse."""
        self._ask_together(
            [row for row in self.by_row if rows[row] and row not in self._rejections]
        )
        return [row for row, why in self._rejections.items() if why is not None]

    def _ask_together(self, rows: Iterable[int]) -> None:
        """Asks about those of some rows that the columns decide."""
        due = [row for row in rows if self._on_columns(row)]
        filters = self._column_filters() if due else None
        if filters is None:
            return
        self._rejections.update(dict.fromkeys(due))
        index, cycle = np.array(due, np.intp), self._cycle
        with column_what_if.moved(cycle.table, index):
            column_what_if.shift(cycle.table, index, [self._absent(row) for row in due], 1)
            for plugin in filters:
                refused = index[~plugin.filter(cycle, index)]
                said = plugin.diagnose(cycle, refused) if len(refused) else ()
                for row, why in zip(refused.tolist(), said, strict=True):
                    self._rejections[row] = self._rejections[row] or why

    def _column_filters(self) -> list[Any] | None:
        if self._filters is _UNKNOWN:
            self._filters = column_what_if.of_columns(self._evaluator.live, self._cycle)
        return self._filters

    def _on_columns(self, row: int) -> bool:
        adjusted = row in self._cycle.table.adjusted
        return not adjusted and all(column_what_if.is_plain(pod.shape) for pod in self.by_row[row])

    def _absent(self, row: int) -> list[PodInfo]:
        return [pod for pod in self.by_row[row] if pod.row < 0]

    def _ask(self, row: int) -> Rejection | None:
        with self._accounts.what_if():
            for pod in self._absent(row):
                self._accounts.add(row, pod)
            return self._evaluator.check(self._cycle, row)
