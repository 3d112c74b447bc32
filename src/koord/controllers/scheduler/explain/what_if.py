# SPDX-License-Identifier: Apache-2.0
"""What would become of a pod now: the real decision's own functions, and everything undone."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.explain import absent_resources
from koord.controllers.scheduler.explain.explanation import (
    FilterResult,
    NearestNode,
    PodExplanation,
    ScoredNode,
    SuggestedChange,
)
from koord.controllers.scheduler.explain.suggestions import SuggestionFinder, fitting
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.feasibility import best_node

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo, Shapes
    from koord.controllers.scheduler.decision.decider import Decision
    from koord.controllers.scheduler.framework.feasibility.entry import FeasibilityEntry

LISTED_NODES = 5


def explain(
    decider: Decider, info: PodInfo, twin: PodInfo, into: PodExplanation, shapes: Shapes
) -> PodExplanation:
    """Fills in what would happen to a pod if it were decided now.

    A pod that counts on a node is decided as if it were not there. Nothing is changed.

    Args:
        decider: of the pod's profile.
        info: the pod.
        twin: what is decided in its place; it has no allocations.
        into: what is known of it already.
        shapes: interns the pods that are tried.
    """
    with decider.accounts.what_if():
        if info.row >= 0:
            decider.accounts.drop(info)
        _WhatIf(decider, twin, into, shapes).run()
    return into


class _WhatIf:
    def __init__(
        self, decider: Decider, twin: PodInfo, into: PodExplanation, shapes: Shapes
    ) -> None:
        self.whole_decider = self.decider = decider
        self.shapes = shapes
        self.table = decider.table
        self.cycle = Cycle(twin, decider.table)
        self.into = into

    def run(self) -> None:
        into = self.into
        into.nodes = len(self.table)
        decision = self._attempt()
        if decision.diagnosis is not None and decision.diagnosis.early is not None:
            return
        entry = self.decider.evaluator.entry(self.cycle)
        refused = entry.rejected[: self.table.size].copy()
        rows = fitting(self.decider, self.cycle)
        into.fitting = len(rows)
        self._removed(entry, refused)
        if len(rows):
            self._scores(entry, rows)
        else:
            self._nearest(refused)
        for change in into.changes:
            change.nodes = len(rows)
        if into.refused:
            # Tried with all plugins: what they refuse may be one of the pod's own wishes.
            into.changes += SuggestionFinder(
                self.whole_decider, self.shapes, self.cycle
            ).annotation_changes()
        elif not len(rows):
            into.changes = SuggestionFinder(self.decider, self.shapes, self.cycle).suggestions()
        if decision.row >= 0:
            into.chosen = self.table.name(decision.row)
            if not into.refused:
                self._allocate(decision)

    def _attempt(self) -> Decision:
        """An attempt, without the plugins that refuse the pod before they look at nodes."""
        raised: list[SuggestedChange] = []
        while True:
            decision = self.decider.attempt(self.cycle)
            early = decision.diagnosis.early if decision.diagnosis is not None else None
            if early is None:
                if self.into.refused and decision.row >= 0:
                    self.into.changes = raised
                return decision
            first, self.into.refused = not self.into.refused, self.into.refused or early.text
            refusing = [p for p in self.decider.plugins.pre_filter if p.name == early.plugin]
            if not refusing:
                return decision
            # One change is told of, so it must be all that is against the pod.
            raised = _raised(refusing[0], self.cycle.pod, decision) if first else []
            self.decider = without(self.decider, early.plugin)
            self.cycle = Cycle(self.cycle.pod, self.table)

    def _removed(self, entry: FeasibilityEntry, refused: NDArray[np.uint64]) -> None:
        first = self.decider.evaluator.rejections(self.cycle, entry)
        reasons: dict[str, Counter[str]] = {}
        counts: Counter[str] = Counter()
        for rejection in first.values():
            counts[rejection.plugin] += 1
            reasons.setdefault(rejection.plugin, Counter()).update(rejection.reasons)
        opened = self.table.open[: self.table.size]
        for number, plugin in enumerate(self.decider.evaluator.filters):
            bit = (refused >> np.uint64(number)) & np.uint64(1) == 1
            nodes = int(np.count_nonzero(bit & opened))
            if nodes:
                said = dict(sorted(reasons.get(plugin.name, Counter()).items()))
                self.into.filters.append(
                    FilterResult(plugin.name, nodes, counts[plugin.name], said)
                )

    def _scores(self, entry: FeasibilityEntry, fitting: NDArray[np.intp]) -> None:
        total, parts = best_node.totals(self.cycle, entry, self.decider.plugins.score, fitting)
        order = np.lexsort((self.table.rank[fitting], -total))[:LISTED_NODES]
        self.into.best = [
            ScoredNode(
                self.table.name(int(fitting[at])),
                int(total[at]),
                {name: int(part[at]) for name, part in parts.items()},
            )
            for at in order.tolist()
        ]

    def _nearest(self, refused: NDArray[np.uint64]) -> None:
        """Nodes that the pod names, then those that have the kinds of things it wants.

        Then those that the fewest filters refuse, then those that lack the smallest part. A node
        that the pod selects is among those that are shown.
        """
        rows = np.flatnonzero(self.table.open[: self.table.size])
        if not len(rows):
            return
        pod = self.cycle.pod.pod
        mine = absent_resources.rows_named(absent_resources.named(pod), self.table).values()
        unnamed = ~np.isin(rows, np.array(list(mine), np.intp))
        absent = absent_resources.absent(self.cycle.shape, self.table, rows).sum(axis=0)
        fails = np.array([self._fails(int(bits)) for bits in refused[rows].tolist()])
        lacking = self._shortages(rows)
        order = rows[np.lexsort((self.table.rank[rows], lacking, fails, absent, unnamed))]
        shown = self._with_selected(order, refused)
        self.into.nearest = [self._near(row, int(refused[row])) for row in shown]

    def _with_selected(self, order: NDArray[np.intp], refused: NDArray[np.uint64]) -> list[int]:
        """The first rows; the first that node selector and affinity leave takes the last place."""
        shown: list[int] = order[:LISTED_NODES].tolist()
        bit = next(
            (1 << number for number, plugin in enumerate(self.decider.evaluator.filters)
             if plugin.name == "NodeAffinity"), 0,
        )  # fmt: skip
        selected = order[(refused[order] & np.uint64(bit)) == 0]
        if bit and len(selected) and not set(selected.tolist()) & set(shown):
            shown[-1] = int(selected[0])
        return shown

    def _fails(self, bits: int) -> int:
        """How many things are wrong; devices that are short are short in the request too."""
        refusing = {
            plugin.name
            for number, plugin in enumerate(self.decider.evaluator.filters)
            if bits >> number & 1
        }
        if "NodeResourcesFit" in refusing:
            refusing.discard("DeviceShare")
        return len(refusing)

    def _shortages(self, rows: NDArray[np.intp]) -> NDArray[np.float64]:
        """By row, the largest share of a requested amount that is not free there."""
        columns = self.table.columns_of(self.cycle.shape.container_requests)
        index, amounts = columns.required
        free = self.table.allocatable[index][:, rows] - self.table.requested[index][:, rows]
        short = np.maximum(amounts[:, None] - free, 0) / np.maximum(amounts[:, None], 1)
        worst: NDArray[np.float64] = short.max(axis=0)
        return worst

    def _near(self, row: int, bits: int) -> NearestNode:
        rows = np.array([row], np.intp)
        plugins, reasons, shortfall = [], list[str](), list[str]()
        for number, plugin in enumerate(self.decider.evaluator.filters):
            if not bits >> number & 1:
                continue
            plugins.append(plugin.name)
            said = (
                plugin.diagnose(self.cycle, rows)[0]
                if hasattr(plugin, "diagnose")
                else plugin.filter_node(self.cycle, row)
            )
            reasons += list(said.reasons) if said is not None else []
            if hasattr(plugin, "shortfall"):
                shortfall += plugin.shortfall(self.cycle, row)
        return NearestNode(self.table.name(row), plugins, reasons, self._missing(row), shortfall)

    def _missing(self, row: int) -> dict[str, int]:
        columns = self.table.columns_of(self.cycle.shape.container_requests)
        index, amounts = columns.counted
        free = self.table.allocatable[index, row] - self.table.requested[index, row]
        short = amounts - free
        offered = {
            self.table.resources[column]: int(lack)
            for column, lack in zip(index.tolist(), short.tolist(), strict=True)
            if lack > 0
        }
        return {**offered, **columns.unoffered}

    def _allocate(self, decision: Decision) -> None:
        refused = self.decider.assume(decision)
        if refused is not None:
            self.into.refused = refused.text
            return
        pod = decision.cycle.pod
        self.into.allocations = {
            name: plain(value) for name, value in sorted(pod.allocations.items())
        }
        self.decider.retract(decision)


def without(decider: Decider, name: str) -> Decider:
    """A decider of the same world that does not ask one plugin; it keeps answers of its own."""
    plugins = decider.plugins._replace(
        pre_filter=[each for each in decider.plugins.pre_filter if each.name != name],
        filter=[each for each in decider.plugins.filter if each.name != name],
        pre_score=[each for each in decider.plugins.pre_score if each.name != name],
        score=[each for each in decider.plugins.score if each[0].name != name],
    )
    return Decider(decider.table, decider.accounts, plugins, decider.nominations)


def _raised(plugin: Any, pod: PodInfo, decision: Decision) -> list[SuggestedChange]:
    """What of the plugin's own would have to be raised for the pod, each tried; ElasticQuota's."""
    if not hasattr(plugin, "raises"):
        return []
    return [SuggestedChange(text, 0) for text in plugin.raises(pod)]


def plain(value: Any) -> Any:
    """A plugin's choice as JSON-able data; its text where it is nothing else."""
    described = getattr(value, "describe", None)
    if described is not None:
        return plain(described())
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(each) for each in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)
