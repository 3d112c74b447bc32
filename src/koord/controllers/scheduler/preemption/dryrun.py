# SPDX-License-Identifier: Apache-2.0
"""What it would take to place a pod on one node or another: pods really removed, filters asked.

A row costs one what-if: everybody who may go goes, the pod must fit, then they come back one after
the other as long as it still does. Where all filters that pods matter to read of them the request
columns alone, many rows are tried at once on the columns, with the same filters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.preemption.victims import (
    Candidate,
    VictimPolicy,
    cost_of,
    importance,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decider import Decider
    from koord.controllers.scheduler.preemption.budgets import Budgets, Split

NO_VICTIMS = "No preemption victims found for incoming pod"
Outcome = Candidate | Rejection
_OF_NODES = Aspect.NODE | Aspect.LOAD
_LEFT_OUT = Rejection("", ("node(s) didn't satisfy plugin(s)",), unresolvable=True)


class _Filters(NamedTuple):
    """A profile's filters, parted by what preemption can change.

    Attributes:
        fixed: bits of filters that no pod matters to, as in ``Verdict.rejected``.
        live: the others, in order.
        again: those among them with a PreFilter of their own, which is asked again too.
    """

    fixed: np.uint64
    live: tuple[Any, ...]
    again: tuple[Any, ...]


def _is_fixed(plugin: Any) -> bool:
    """Whether removing pods cannot change what a filter says."""
    stamped = getattr(type(plugin), "stamp", None) is not Plugin.stamp
    return not stamped and hasattr(plugin, "filter") and not plugin.depends & ~_OF_NODES


def parted(filters: Sequence[Any], early: str = "") -> _Filters:
    """Parts filters; see :class:`_Filters`."""
    bits, live = 0, []
    for number, plugin in enumerate(filters):
        if _is_fixed(plugin):
            bits |= 1 << number
        else:
            live.append(plugin)
    again = tuple(p for p in live if hasattr(p, "pre_filter") and p.name != early)
    return _Filters(np.uint64(bits), tuple(live), again)


class DryRun:
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
        budgets: Budgets,
        early: str = "",
    ) -> None:
        self._name = name
        self._decider = decider
        self._policy = policy
        self._budgets = budgets
        self._table = decider.table
        self.cycle = _copy(cycle)
        self.refused: Rejection | None = None
        filters = parted(decider.plugins.filter, early)
        self._live = filters.live
        self._again = filters.again
        if early:
            self._again = (*self._ask_the_rest(early), *filters.again)
        self._allowed = self.cycle.allowed
        self._applying = [p for p in self._live if p.applies(self.cycle)]
        self.claimed = decider.nominations.on_rows(cycle.pod)
        rejected = decider.evaluator.verdict(self.cycle).rejected
        self._hopeless = (rejected & filters.fixed) != 0
        self._rejected = rejected
        held = type(policy).admits is not VictimPolicy.admits
        plain = [p for p in self._applying if getattr(p, "by_columns", False)]
        self._plain = plain if not self.cycle.has_overlay else []
        self._columnar = not early and not held and len(self._plain) == len(self._applying)

    def stamps(self) -> tuple[Hashable, ...] | None:
        """What kept outcomes depend on beside their rows; None if they cannot be kept."""
        if self._policy.key(self.cycle.pod) is None:
            return None
        applying = {id(p) for p in self._applying}
        stamps = [p.stamp(self.cycle) if id(p) in applying else "" for p in self._live]
        return None if any(stamp is None for stamp in stamps) else tuple(stamps)

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
        """Whether what is requested on a row is what its pods say."""
        return row not in self._table.adjusted

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
                    outcomes[row] = self._said_by(plugin, row)
                    del victims[row]
        plain = [row for row in victims if self._on_columns(row)]
        if not self._plain or not plain:
            return outcomes
        rows = np.array(plain, np.intp)
        saved = self._table.requested[:, rows]
        try:
            self._clear(rows, [victims[row] for row in plain])
            for plugin in self._plain:
                refused = rows[~plugin.filter(self.cycle, rows)]
                said = plugin.diagnose(self.cycle, refused) if len(refused) else ()
                for row, why in zip(refused.tolist(), said, strict=True):
                    if row in victims:
                        outcomes[row] = why
                        del victims[row]
        finally:
            self._table.requested[:, rows] = saved
        return outcomes

    def _first_refusal(self, row: int) -> Rejection:
        rejected = int(self._rejected[row])
        for number, plugin in enumerate(self._decider.plugins.filter):
            if rejected >> number & 1 and _is_fixed(plugin):
                return self._said_by(plugin, row)
        raise AssertionError("a hopeless row that nobody refuses")

    def _said_by(self, plugin: Any, row: int) -> Rejection:
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
        saved = self._table.requested[:, index]
        try:
            self._clear(index, [orders[row] for row in rows])
            for turn in range(max(map(len, orders.values()))):
                due = [row for row in rows if len(orders[row]) > turn]
                at = np.array(due, np.intp)
                back = [[orders[row][turn]] for row in due]
                self._shift(at, back, 1)
                passes = np.ones(len(due), np.bool_)
                for plugin in self._plain:
                    passes &= plugin.filter(self.cycle, at)
                for place in np.flatnonzero(~passes).tolist():
                    gone[due[place]].append(back[place][0])
                self._shift(at[~passes], [back[i] for i in np.flatnonzero(~passes)], -1)
        finally:
            self._table.requested[:, index] = saved
        return {row: self._outcome(row, gone[row], splits[row]) for row in rows}

    def _clear(self, rows: NDArray[np.intp], victims: Sequence[Sequence[PodInfo]]) -> None:
        """Takes victims off, and puts on whom the rows are promised to.

        What fits beside those fits without them too, for requests are all that counts here.
        """
        if self.claimed:
            self._shift(rows, [self.promised(row) for row in rows.tolist()], 1)
        self._shift(rows, victims, -1)

    def _shift(self, rows: NDArray[np.intp], pods: Sequence[Iterable[PodInfo]], sign: int) -> None:
        """Adds what pods request to their rows' columns, or takes it off."""
        counts: dict[Any, dict[int, int]] = {}
        for place, those in enumerate(pods):
            for pod in those:
                of_shape = counts.setdefault(pod.shape, {})
                of_shape[place] = of_shape.get(place, 0) + sign
        for shape, by_place in counts.items():
            index, amounts = shape.vector(self._table)
            at = rows[np.fromiter(by_place, np.intp, len(by_place))]
            times = np.fromiter(by_place.values(), np.int64, len(by_place))
            self._table.requested[np.ix_(index, at)] += amounts[:, None] * times

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

    def _outcome(self, row: int, gone: list[PodInfo], split: Split) -> Outcome:
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
            return _LEFT_OUT
        rows = np.array([row], np.intp)
        for plugin in self._live:
            if not plugin.applies(cycle):
                continue
            if hasattr(plugin, "filter"):
                if not plugin.filter(cycle, rows)[0]:
                    return self._said_by(plugin, row)
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
