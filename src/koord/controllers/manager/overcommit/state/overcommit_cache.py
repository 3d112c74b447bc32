# SPDX-License-Identifier: Apache-2.0
"""The cluster's columns under deltas, and what every node offers.

A row is a name: it opens with the first object of that name, whichever kind it is of, so that
objects may come in any order. A change marks its row; :meth:`OvercommitCache.recompute` works out
the marked rows, or all in one pass where they are many. Sums are of integers, so both give the
same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.manager.overcommit.amounts import zeros
from koord.controllers.manager.overcommit.column_groups import differing, joined, put, take
from koord.controllers.manager.overcommit.formulas import batch, mid, rise_limit, sums, zones
from koord.controllers.manager.overcommit.formulas.batch import OfferedAmounts
from koord.controllers.manager.overcommit.formulas.sums import PodSums
from koord.controllers.manager.overcommit.objects import (
    node_columns,
    node_report,
    strategy_columns,
)
from koord.controllers.manager.overcommit.objects.node_columns import DegradeReason
from koord.controllers.manager.overcommit.objects.pod_terms import counts
from koord.controllers.manager.overcommit.state.node_pods import NodePods
from koord.controllers.manager.overcommit.state.row_numbers import RowNumbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import NodeMetric, NodeMetricStatus
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.api.sloconfig.strategies import ColocationStrategy
    from koord.controllers.manager.overcommit.amounts import AmountColumns

_FEW = 8


class _NodeObjects:
    """What objects said of a row, as far as it is needed again."""

    __slots__ = ("machine", "node", "setting", "status", "zone_system")

    def __init__(self) -> None:
        self.node: Node | None = None
        self.machine = node_report.NodeTerms()
        self.setting = strategy_columns.of(None)
        self.status: NodeMetricStatus | None = None
        self.zone_system: dict[int, node_report.Pair] = {}


class OvercommitCache:
    """Takes in nodes, pods, reports and zones one by one, and works out what every node offers.

    Args:
        few: where more than one row in so many has changed, all are worked out: that is cheaper.

    Attributes:
        batch, mid: what every row offers as of the last :meth:`recompute`; rows of nodes that are
            not there are degraded.
        zone_amounts: int64 ``[2, NUMA numbers, rows]``, batch by zone: milli-cores, and memory in
            thousandths of a byte.
        nodes, settings, zones: the columns behind it; not to be changed.
        residents: the pods by row, with their metrics.
        formula: batch as the formula has it, where it is more than a strategy lets it rise to.
    """

    def __init__(self, few: int = _FEW) -> None:
        self._few = few
        self._names = RowNumbers()
        self._rows: list[_NodeObjects] = []
        self._dirty: set[int] = set()
        # Rows of which pods or zones have changed since what pods take there was summed up.
        self._unsummed: set[int] = set()
        self._sums, self._zone_sums = sums.empty(0), sums.empty(0, 0)
        self.residents = NodePods(self._mark_pods)
        self.nodes = node_columns.empty(0)
        self.settings = strategy_columns.nobody(0)
        self.zones = zones.empty(0, 0)
        nothing = np.zeros(0, np.uint8)
        self.batch, self.mid = OfferedAmounts(zeros(0), nothing), OfferedAmounts(zeros(0), nothing)
        self.formula, self._allowance = zeros(0), zeros(0)
        self.zone_amounts = np.zeros((2, 0, 0), np.int64)

    def __len__(self) -> int:
        """How many rows there are, closed ones included."""
        return len(self._rows)

    def row(self, name: str) -> int | None:
        """The row of a node, None if nothing of that name is known."""
        return self._names.find(name)

    def name(self, row: int) -> str:
        """The name of a row; empty for one that is closed."""
        return self._names.name(row)

    def node(self, row: int) -> Node | None:
        """The node of a row, None if it is not there."""
        return self._rows[row].node

    # Nodes.

    def put_node(self, node: Node, strategy: ColocationStrategy | None) -> int:
        """A node is new or has changed; None as its strategy offers nothing. Returns its row."""
        row = self._open(node.metadata.name)
        self._rows[row].node = node
        self._machine(row, node_report.machine(node), strategy_columns.of(strategy))
        return row

    def drop_node(self, name: str) -> None:
        """A node is gone; what else has its name stays."""
        row = self._names.find(name)
        if row is None or self._rows[row].node is None:
            return
        self._rows[row].node = None
        self._machine(row, node_report.NodeTerms(), strategy_columns.of(None))

    def _machine(
        self, row: int, machine: node_report.NodeTerms, setting: strategy_columns.StrategyTerms
    ) -> None:
        """Most changes of a Node are of what does not matter here, our own writes among them."""
        here = self._rows[row]
        if (here.machine, here.setting) != (machine, setting):
            here.machine, here.setting = machine, setting
            put(self.nodes, row, machine._asdict())
            put(self.settings, row, setting._asdict())
            self._allowance[:, row] = rise_limit.UNBOUNDED
            self._mark(row)

    def set_strategies(self, strategy_of: Callable[[Node], ColocationStrategy | None]) -> None:
        """The configuration has changed: asks for every node's strategy."""
        # Nodes of which the same is said share one strategy, kept alive here beside its terms.
        terms_of: dict[int, tuple[ColocationStrategy | None, strategy_columns.StrategyTerms]] = {}
        for row in self._rows:
            strategy = strategy_of(row.node) if row.node is not None else None
            known = terms_of.get(id(strategy))
            if known is None:
                known = terms_of[id(strategy)] = strategy, strategy_columns.of(strategy)
            row.setting = known[1]
        each = [row.setting for row in self._rows]
        if not each:
            return
        distinct = {setting: at for at, setting in enumerate(dict.fromkeys(each))}
        index = np.array([distinct[setting] for setting in each], np.intp)
        found = take(strategy_columns.columns(list(distinct)), index)
        for new, old in zip(found, self.settings, strict=True):
            there = old[..., : len(index)]
            changed = np.flatnonzero(differing(there, new))
            self._dirty.update(changed.tolist())
            self._allowance[:, changed] = rise_limit.UNBOUNDED
            there[...] = new

    # Pods and reports.

    def put_pod(self, pod: Pod) -> None:
        """A pod is new or has changed: it may count from now on, elsewhere, or no more."""
        self.residents.put(pod, self._open(pod.spec.node_name) if counts(pod) else None)

    def drop_pod(self, pod: Pod) -> None:
        """A pod is gone; one that took its name since stays."""
        self.residents.drop(pod)

    def put_metric(self, metric: NodeMetric) -> None:
        """A node has reported; the same report told again changes nothing."""
        row = self._open(metric.metadata.name)
        if self._rows[row].status != metric.status:
            self._rows[row].status = metric.status
            self._report(row, node_report.report(metric))

    def drop_metric(self, name: str) -> None:
        """A node's report is gone."""
        row = self._names.find(name)
        if row is not None:
            self._rows[row].status = None
            self._report(row, node_report.ReportTerms())

    def _report(self, row: int, report: node_report.ReportTerms) -> None:
        told = self.nodes.reported[row] == report.reported == DegradeReason.NO
        before = self.nodes.system[:, row]
        risen = np.maximum(np.array(report.system) - before, 0) if told else 0
        put(self.nodes, row, {**report.columns(), "risen": risen})
        here = slice(row, row + 1)
        granted = rise_limit.rise_allowance(self.nodes.capacity[:, here], take(self.settings, here))
        self._allowance[:, here] = granted
        self._rows[row].zone_system = report.zone_system
        self._set_zone_system(row)
        self.residents.report(row, report.pods)
        self._mark(row)

    # Zones.

    def put_topology(self, topology: NodeResourceTopology) -> None:
        """A node's zones are known, or have changed."""
        row = self._open(topology.metadata.name)
        found = node_report.zone_capacity(topology)
        have = len(self.zones.present)
        need = max(found, default=-1) + 1
        if need > have:
            self.zones, self.zone_amounts = zones.wider(self.zones, self.zone_amounts, need)
            self._zone_sums = PodSums(*(_with_numbers(each, need) for each in self._zone_sums))
        self._set_zones(row, found)

    def drop_topology(self, name: str) -> None:
        """A node's zones are gone."""
        row = self._names.find(name)
        if row is not None:
            self._set_zones(row, {})

    def _set_zones(self, row: int, capacity_by_number: dict[int, node_report.Pair]) -> None:
        self.zones.present[:, row] = False
        self.zones.capacity[:, :, row] = 0
        for number, capacity in capacity_by_number.items():
            self.zones.present[number, row] = True
            self.zones.capacity[:, number, row] = capacity
        self._set_zone_system(row)
        self._mark_pods(row)

    def _set_zone_system(self, row: int) -> None:
        self.zones.system[:, :, row] = zones.UNKNOWN
        for number, system in self._rows[row].zone_system.items():
            if 0 <= number < len(self.zones.present):
                self.zones.system[:, number, row] = system

    # What is offered.

    def expiry(self) -> NDArray[np.float64]:
        """When each row's report stops to count, wall seconds.

        Infinite where that changes nothing: nodes that neither offer nor keep anything anyway as
        of the last :meth:`recompute`.
        """
        rows = np.arange(len(self))
        instants = node_columns.expiry(take(self.nodes, rows), take(self.settings, rows))
        counting = np.isin(self.batch.degraded[rows], (DegradeReason.NO, DegradeReason.UNREAD))
        return np.where(counting, instants, np.inf)

    def recompute(self, now: float, *, known: bool = True) -> NDArray[np.intp]:
        """Works out what has changed since the last time, and what time itself has expired.

        Args:
            now: wall seconds.
            known: whether strategies are known; until then nothing is offered anew.

        Returns:
            The rows whose offer, reason to offer nothing, or zones are other than before, in order.
        """
        size = len(self)
        reasons = node_columns.degraded(self.nodes, self.settings, now, known=known)[:size]
        self._dirty.update(np.flatnonzero(reasons != self.batch.degraded[:size]).tolist())
        rows = np.array(sorted(self._dirty), np.intp)
        self._dirty.clear()
        if len(rows) * self._few > size:
            rows = np.arange(size)
        changed = self._work_out(rows, reasons[rows])
        self._close(rows)
        return rows[changed]

    def _work_out(self, rows: NDArray[np.intp], reasons: NDArray[np.uint8]) -> NDArray[np.bool_]:
        self._sum_up()
        here, said = take(self.nodes, rows), take(self.settings, rows)
        there = take(self.zones, rows)
        totals, by_zone = take(self._sums, rows), take(self._zone_sums, rows)
        above = mid.offer(here, totals, said, reasons).amounts
        formula = batch.offer(here, totals, said, reasons, above).amounts
        found = (
            (self.formula, formula),
            (self.batch.amounts, self._risen(rows, formula)),
            (self.batch.degraded, reasons),
            (self.mid.amounts, above),
            (self.mid.degraded, reasons),
            (self.zone_amounts, zones.offer(there, here, by_zone, totals, said, reasons)),
        )
        changed = np.zeros(len(rows), np.bool_)
        for old, new in found:
            changed |= differing(old[..., rows], new)
            old[..., rows] = new
        return changed

    def _sum_up(self) -> None:
        """Sums up anew what pods take on rows where that has changed; strategies change nothing."""
        rows, size = np.array(sorted(self._unsummed), np.intp), len(self)
        self._unsummed.clear()
        if len(rows) * self._few > size:
            rows = np.arange(size)
        if not len(rows):
            return
        terms = self.residents.terms(rows, size)
        found = (
            (self._sums, sums.of(terms, len(rows))),
            (self._zone_sums, zones.sums_by_zone(take(self.zones, rows), terms)),
        )
        for old, new in found:
            for before, after in zip(old, new, strict=True):
                before[..., rows] = after

    def _risen(self, rows: NDArray[np.intp], formula: AmountColumns) -> AmountColumns:
        """Batch, as far as it may rise."""
        self.residents.give_back(self._allowance, self.settings.policy)
        before, allowance = self.batch.amounts[:, rows], self._allowance[:, rows]
        fresh = self.batch.degraded[rows] != DegradeReason.NO
        found = rise_limit.limited_offer(formula, before, allowance, fresh)
        self._allowance[:, rows] = allowance - np.maximum(found - before, 0)
        return found

    # Rows.

    def _mark(self, row: int) -> None:
        self._dirty.add(row)

    def _mark_pods(self, row: int) -> None:
        self._dirty.add(row)
        self._unsummed.add(row)

    def _close(self, rows: NDArray[np.intp]) -> None:
        """Gives back the rows of names of which nothing is left."""
        unknown = self.nodes.reported[rows] == DegradeReason.NO_METRIC
        unknown &= ~self.zones.present[:, rows].any(axis=0)
        for row in rows[unknown].tolist():
            left = self._rows[row].node is not None or not self.residents.is_empty(row)
            if not left and self._names.name(row):
                self._names.close(row)

    def _open(self, name: str) -> int:
        known = self._names.find(name)
        if known is not None:
            return known
        row = self._names.open(name)
        self._mark(row)
        if row == len(self._rows):
            self._rows.append(_NodeObjects())
            self.residents.open(row)
            self._reach(row + 1)
        return row

    def _reach(self, rows: int) -> None:
        have = len(self.batch.degraded)
        if rows <= have:
            return
        more = max(rows, 2 * have, 64) - have
        numbers = len(self.zones.present)
        nothing = OfferedAmounts(zeros(more), np.full(more, DegradeReason.DISABLED, np.uint8))
        self.nodes = joined(self.nodes, node_columns.empty(more))
        self.settings = joined(self.settings, strategy_columns.nobody(more))
        self.zones = joined(self.zones, zones.empty(numbers, more))
        self.batch, self.mid = joined(self.batch, nothing), joined(self.mid, nothing)
        self.formula = np.concatenate([self.formula, zeros(more)], axis=-1)
        self._allowance = np.concatenate([self._allowance, zeros(more)], axis=-1)
        self._sums = joined(self._sums, sums.empty(more))
        self._zone_sums = joined(self._zone_sums, sums.empty(numbers, more))
        unzoned = np.zeros((2, numbers, more), np.int64)
        self.zone_amounts = np.concatenate([self.zone_amounts, unzoned], axis=-1)


def _with_numbers(amounts: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """``[2, numbers, rows]`` with room for so many numbers."""
    pair, have, rows = amounts.shape
    more = np.zeros((pair, count - have, rows), np.int64)
    return np.concatenate([amounts, more], axis=1)
