# SPDX-License-Identifier: Apache-2.0
"""What it would take to place a pod on one node or another: pods really removed, filters asked.

A row costs one what-if: everybody who may go goes, the pod must fit, then they come back one after
the other as long as it still does. Where all filters that pods matter to read of them the request
columns alone, many rows are tried at once on the columns, with the same filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.framework import column_what_if
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.rejection import Rejection, left_out
from koord.controllers.scheduler.preemption.victims import (
    Candidate,
    VictimPolicy,
    cost_of,
    importance,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decision.decider import Decider
    from koord.controllers.scheduler.preemption.disruption_budgets import (
        BudgetSplit,
        DisruptionBudgets,
    )

NO_VICTIMS = "No preemption victims found for incoming pod"
Outcome = Candidate | Rejection


class PreemptionDryRun:
    """Tries rows for one pod.

    Args:
        name: of the preempting plugin, for its refusals.
        cycle: the attempt that failed.
        decider: who made it.
        policy: whom the pod may preempt.
        budgets: whom it had better not.
        early: a PreFilter plugin that refused the pod as a whole; it is asked again in every
            what-if, and those after it in the profile, which were not asked, are asked now.
    """

    def __init__(
        self,
        name: str,
        cycle: Cycle,
        decider: Decider,
        policy: VictimPolicy,
        budgets: DisruptionBudgets,
        early: str = "",
    ) -> None:
        self._name = name
        self._decider = decider
        self._policy = policy
        self._budgets = budgets
        self._table = decider.table
        self.cycle = _copy(cycle)
        self.refused: Rejection | None = None
        self._live = decider.evaluator.live
        asked = decider.participants(cycle.shape).pre_filter
        self._again = tuple(p for p in self._live if p in asked and p.name != early)
        if early:
            self._again = (*self._ask_the_rest(early), *self._again)
        self._allowed = self.cycle.allowed
        self._applying = [p for p in self._live if column_what_if.takes_part(p, self.cycle)]
        self.claimed = decider.nominations.on_rows(cycle.pod)
        rejected = decider.evaluator.entry(self.cycle).rejected
        self._hopeless = (rejected & decider.evaluator.fixed) != 0
        self._rejected = rejected
        held = type(policy).admits is not VictimPolicy.admits
        plain = [p for p in self._applying if getattr(p, "by_columns", False)]
        self._plain = plain if not self.cycle.has_overlay else []
        self._columnar = not early and not held and len(self._plain) == len(self._applying)

    def generations(self) -> tuple[Hashable, ...] | None:
        """What kept outcomes depend on beside their rows; None if they cannot be kept."""
        if self._policy.key(self.cycle.pod) is None:
            return None
        if any(column_what_if.has_filter_generation(p) for p in self._applying):
            # It says when what a filter says now turns, not what it would say without victims.
            return None
        applying = {id(p) for p in self._applying}
        generations = [p.generation(self.cycle) if id(p) in applying else "" for p in self._live]
        return None if None in generations else tuple(generations)

    def rows(self, rows: Sequence[int]) -> dict[int, Outcome]:
        """The outcome of each row."""
        outcomes: dict[int, Outcome] = {}
        victims: dict[int, list[PodInfo]] = {}
        for row in rows:
            if self._hopeless[row]:
                outcomes[row] = self._first_refusal(row)
                continue
            found = self._victims(row)
            if found:
                victims[row] = found
            else:
                outcomes[row] = Rejection(self._name, (NO_VICTIMS,), unresolvable=True)
        outcomes.update(self._sieve(victims))
        plain = [row for row in victims if self._columnar and self._on_columns(row)]
        if plain:
            outcomes.update(self._batch({row: victims.pop(row) for row in plain}))
        for row, those in victims.items():
            outcomes[row] = self._row(row, those)
        return outcomes

    def _victims(self, row: int) -> list[PodInfo]:
        may, pod = self._policy.may_preempt, self.cycle.pod
        found = [other for other in self._table.pods[row].values() if may(pod, other)]
        found.sort(key=importance)
        return found

    def _on_columns(self, row: int) -> bool:
        """Whether what is requested on a row is what its pods say, and all that matters there."""
        if row in self._table.adjusted:
            return False
        return all(column_what_if.is_plain(pod.shape) for pod in self.promised(row))

    def promised(self, row: int) -> list[PodInfo]:
        """Pods that a row is promised to and that are not there yet."""
        return [pod for pod in self.claimed.get(row, ()) if pod.row < 0]

    # What cannot help.

    def _sieve(self, victims: dict[int, list[PodInfo]]) -> dict[int, Outcome]:
        """Takes out rows that refuse the pod even without all their victims."""
        outcomes: dict[int, Outcome] = {}
        for plugin in self._applying:
            if hasattr(plugin, "may_help"):
                rows = np.fromiter(victims, np.intp, len(victims))
                for row in rows[~plugin.may_help(self.cycle, rows)].tolist():
                    outcomes[row] = self._rejection_by(plugin, row)
                    del victims[row]
        plain = [row for row in victims if self._on_columns(row)]
        if not self._plain or not plain:
            return outcomes
        rows = np.array(plain, np.intp)
        with column_what_if.moved(self._table, rows):
            self._clear(rows, [victims[row] for row in plain])
            for plugin in self._plain:
                refused = rows[~plugin.filter(self.cycle, rows)]
                said = plugin.diagnose(self.cycle, refused) if len(refused) else ()
                for row, why in zip(refused.tolist(), said, strict=True):
                    if row in victims:
                        outcomes[row] = why
                        del victims[row]
        return outcomes

    def _first_refusal(self, row: int) -> Rejection:
        rejected = int(self._rejected[row])
        for number, plugin in enumerate(self._decider.plugins.filter):
            if rejected >> number & 1 and column_what_if.is_fixed(plugin):
                return self._rejection_by(plugin, row)
        raise AssertionError("a hopeless row that nobody refuses")

    def _rejection_by(self, plugin: Any, row: int) -> Rejection:
        if hasattr(plugin, "filter"):
            said: Rejection = plugin.diagnose(self.cycle, np.array([row], np.intp))[0]
        else:
            said = plugin.filter_node(self.cycle, row)
        return said

    # Many rows on the columns.

    def _batch(self, victims: dict[int, list[PodInfo]]) -> dict[int, Outcome]:
        """Outcomes of rows on which the pod fits without its victims."""
        rows = list(victims)
        splits = {row: self._budgets.split(those) for row, those in victims.items()}
        orders = {row: [*splits[row].violating, *splits[row].others] for row in rows}
        gone: dict[int, list[PodInfo]] = {row: [] for row in rows}
        index = np.array(rows, np.intp)
        with column_what_if.moved(self._table, index):
            self._clear(index, [orders[row] for row in rows])
            for turn in range(max(map(len, orders.values()))):
                due = [row for row in rows if len(orders[row]) > turn]
                at = np.array(due, np.intp)
                back = [[orders[row][turn]] for row in due]
                column_what_if.shift(self._table, at, back, 1)
                passes = np.ones(len(due), np.bool_)
                for plugin in self._plain:
                    passes &= plugin.filter(self.cycle, at)
                for place in np.flatnonzero(~passes).tolist():
                    gone[due[place]].append(back[place][0])
                column_what_if.shift(
                    self._table, at[~passes], [back[i] for i in np.flatnonzero(~passes)], -1
                )
        return {row: self._outcome(row, gone[row], splits[row]) for row in rows}

    def _clear(self, rows: NDArray[np.intp], victims: Sequence[Sequence[PodInfo]]) -> None:
        """Takes victims off, and puts on whom the rows are promised to.

        What fits beside those fits without them too, for requests are all that counts here.
        """
        if self.claimed:
            column_what_if.shift(
                self._table, rows, [self.promised(row) for row in rows.tolist()], 1
            )
        column_what_if.shift(self._table, rows, victims, -1)

    # One row.

    def _row(self, row: int, victims: list[PodInfo]) -> Outcome:
        accounts = self._decider.accounts
        gone: list[PodInfo] = []
        with accounts.what_if():
            for victim in victims:
                accounts.drop(victim)
            refused = self._fits(row)
            if refused is not None:
                return refused
            split = self._budgets.split(victims)
            for victim in (*split.violating, *split.others):
                accounts.add(row, victim)
                if self._fits(row) is not None:
                    accounts.drop(victim)
                    gone.append(victim)
        return self._outcome(row, gone, split)

    def _outcome(self, row: int, gone: list[PodInfo], split: BudgetSplit) -> Outcome:
        if not gone:
            name = self._table.name(row)
            why = f'expected at least one victim pod on node "{name}"'
            return Rejection(self._name, (why,), unresolvable=True)
        over = {pod.uid for pod in split.violating}
        violations = sum(pod.uid in over for pod in gone)
        gone.sort(key=importance)
        cost = cost_of(gone, violations)
        return Candidate(cost, row, tuple(gone), violations, split.budgets)

    def _fits(self, row: int) -> Rejection | None:
        """Whether the pod fits now, beside pods that are promised the row and without them."""
        promised = self.promised(row)
        if promised:
            accounts = self._decider.accounts
            with accounts.what_if():
                for pod in promised:
                    accounts.add(row, pod)
                refused = self._check(row)
            if refused is not None:
                return refused
        return self._check(row)

    def _check(self, row: int) -> Rejection | None:
        cycle = self.cycle
        cycle.allowed = self._allowed
        for plugin in self._again:
            refused: Rejection | None = plugin.pre_filter(cycle)
            if refused is not None:
                return refused
        if cycle.allowed is not None and not cycle.allowed[row]:
            return left_out(cycle.narrowed)
        rows = np.array([row], np.intp)
        for plugin in self._live:
            if not plugin.applies(cycle):
                continue
            if hasattr(plugin, "filter"):
                if not plugin.filter(cycle, rows)[0]:
                    return self._rejection_by(plugin, row)
            else:
                refused = plugin.filter_node(cycle, row)
                if refused is not None:
                    return refused
        return self._policy.admits(cycle, row)

    # A PreFilter refused.

    def _ask_the_rest(self, early: str) -> list[Any]:
        """Asks the PreFilter plugins after one that refused; gives that one."""
        plugins = list(self._decider.plugins.pre_filter)
        place = next(i for i, plugin in enumerate(plugins) if plugin.name == early)
        again = [plugins[place]]
        for plugin in plugins[place + 1 :]:
            refused = plugin.pre_filter(self.cycle)
            if refused is not None and (refused.unresolvable or refused.error):
                self.refused = refused
            elif refused is not None and not hasattr(plugin, "filter"):
                again.append(plugin)
        return again


def _copy(cycle: Cycle) -> Cycle:
    """An attempt's cycle for dry runs; what filters leave in it does not reach the attempt."""
    copy = cycle.copy()
    copy.preempting = True
    return copy
