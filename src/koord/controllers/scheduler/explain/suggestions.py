# SPDX-License-Identifier: Apache-2.0
"""Single changes that would get a pod onto a node: each is tried on the decider, then told.

A change of the pod is tried by deciding the pod that has it; a change of the cluster by making it
in a what-if. What no node takes even then is not told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api.protocol import keys
from koord.controllers.cluster.node_table import ABSENT
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.explain import absent_resources, annotation_variants, pod_variants
from koord.controllers.scheduler.explain.explanation import SuggestedChange, amount
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from numpy.typing import NDArray

    from koord.api.kinds.constraints import Taint
    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import Shapes
    from koord.controllers.scheduler.decision.decider import Decider

# How many nodes, taints, reservations are looked at, the nearest first.
_TRIED = 20
_TAINTS, _RESERVATIONS = 10, 10
# In which steps amounts are looked for; CPU of pods that ask for whole ones in whole ones.
_STEP = {"memory": 1 << 20, "ephemeral-storage": 1 << 20}
_CORE = 1000


class SuggestionFinder:
    """Finds changes of one thing of a pod, or of one node, with which the pod would fit.

    Args:
        decider: of the pod's profile.
        shapes: interns what is tried.
        cycle: an attempt for the pod, that fits nowhere.

    Attributes:
        pods: by text, the pod that has the change.
        larger_nodes: by text, the node and what it has more.
    """

    def __init__(self, decider: Decider, shapes: Shapes, cycle: Cycle) -> None:
        self._decider = decider
        self._shapes = shapes
        self._cycle = cycle
        self._table = decider.table
        self._pod: Pod = cycle.pod.pod
        self._not_offered = absent_resources.not_offered(cycle.shape, decider.table)
        self.pods: dict[str, Pod] = {}
        self.larger_nodes: dict[str, tuple[str, dict[str, int]]] = {}

    def suggestions(self) -> list[SuggestedChange]:
        """All that help, those that open the most nodes first."""
        tried = (
            *self._of_pod(),
            *self.annotation_changes(),
            *self._taints(),
            *self._requests(),
            *self._node_with_more(),
            *self._reservations(),
        )
        return sorted(tried, key=lambda change: (-change.nodes, change.text))

    def fits(self, pod: Pod) -> int:
        """How many nodes would take a pod."""
        return fits(self._decider, self._shapes, pod)

    def _of_pod(self) -> Iterator[SuggestedChange]:
        for variant in (*pod_variants.looser(self._pod), pod_variants.undaunted(self._pod)):
            yield from self._tried(variant.text, variant.pod)

    def annotation_changes(self) -> Iterator[SuggestedChange]:
        """What koord's own labels and annotations ask for, one thing less.

        No node needs to have been looked at.
        """
        for variant in annotation_variants.looser(self._pod):
            yield from self._tried(variant.text, variant.pod)

    def _taints(self) -> Iterator[SuggestedChange]:
        seen: dict[tuple[str, str, str], Taint] = {}
        for row in self._near().tolist():
            node = self._table.nodes[row]
            for taint in node.spec.taints if node is not None else ():
                seen.setdefault((taint.key, taint.value, taint.effect), taint)
        for taint in list(seen.values())[:_TAINTS]:
            if taint.effect == "PreferNoSchedule" or taint.key == pod_variants.CORDONED:
                continue
            variant = pod_variants.tolerant(self._pod, taint)
            yield from self._tried(variant.text, variant.pod)

    def _tried(self, text: str, pod: Pod) -> Iterator[SuggestedChange]:
        count = self.fits(pod)
        if count:
            self.pods[text] = pod
            yield SuggestedChange(text, count)

    # Amounts.

    def _short(self) -> tuple[list[str], NDArray[np.int64], NDArray[np.int64]]:
        """The resources that the pod asks for, how much, and by row how much of it is not free."""
        table = self._table
        columns = table.columns_of(self._cycle.shape.container_requests)
        index, wanted = columns.counted
        more = columns.unoffered
        names = [*(table.resources[column] for column in index.tolist()), *more]
        wanted = np.append(wanted, np.array(list(more.values()), np.int64))
        index = np.append(index, np.full(len(more), ABSENT))
        free = table.allocatable[index] - table.requested[index]
        return names, wanted, np.maximum(wanted[:, None] - free, 0)

    def _near(self, *, with_kinds: bool = False) -> NDArray[np.intp]:
        """Open rows, those that lack the smallest part of what is asked for first.

        Args:
            with_kinds: only those that have some of each thing that is asked for.
        """
        _, wanted, short = self._short()
        rows = np.flatnonzero(self._table.open[: self._table.size])
        if with_kinds:
            rows = rows[~absent_resources.absent(self._cycle.shape, self._table, rows).any(axis=0)]
        worst = (short[:, rows] / np.maximum(wanted[:, None], 1)).max(axis=0)
        near: NDArray[np.intp] = rows[np.lexsort((self._table.rank[rows], worst))]
        return near

    def _requests(self) -> Iterator[SuggestedChange]:
        """The smallest cut that fits: what a node lacks, or else of one resource.

        A node that has nothing of a kind lacks all of it: to ask for none is the last advice.
        """
        names, wanted, short = self._short()
        requested = dict(zip(names, wanted.tolist(), strict=True))
        lacks: dict[tuple[int, ...], bool] = {}
        for row in self._near().tolist():
            lack = short[:, row]
            if lack.any() and len(lacks) < _TRIED:
                lacks.setdefault(tuple(lack.tolist()), bool((lack < wanted).all()))
        cuts = [
            ({name: cut for name, cut in zip(names, lack, strict=True) if cut}, leaves_some)
            for lack, leaves_some in lacks.items()
        ]
        change = self._first_cut((less for less, some in cuts if some), requested)
        if change is not None:
            yield change
            return
        rows = np.flatnonzero(self._table.open[: self._table.size])
        if np.count_nonzero(short[:, rows].all(axis=1)) > 1:
            return  # less of one of them helps nowhere
        bisected = [self._bisected(name, amount) for name, amount in requested.items()]
        changes = [self._cut(less, requested) for less in bisected if less]
        if any(changes):
            yield from filter(None, changes)
        elif change := self._first_cut((less for less, some in cuts if not some), requested):
            yield change

    def _first_cut(
        self, cuts: Iterable[dict[str, int]], requested: dict[str, int]
    ) -> SuggestedChange | None:
        return next(filter(None, (self._cut(less, requested) for less in cuts)), None)

    def _cut(self, less: dict[str, int], wanted: dict[str, int]) -> SuggestedChange | None:
        if not less.keys().isdisjoint(self._not_offered):
            # What is wrong is the cluster's: a batch pod that asks for nothing is no batch pod.
            return None
        pod = pod_variants.smaller(self._pod, less)
        if pod is None:
            return None
        texts = [
            f"ask for {name} {amount(name, wanted[name] - cut)}, not {amount(name, wanted[name])}"
            if cut < wanted[name]
            else f"do not ask for {name}"
            for name, cut in less.items()
        ]
        return next(self._tried(" and ".join(texts), pod), None)

    def _bisected(self, name: str, requested: int) -> dict[str, int]:
        """The smallest cut of one resource with which the pod fits; empty for none."""
        step = _STEP.get(name, _CORE if name == "cpu" and requested % _CORE == 0 else 1)
        low, high = 0, requested // step
        if not high or not self._with_less(name, high * step):
            return {}
        while high - low > 1:
            middle = (low + high) // 2
            if self._with_less(name, middle * step):
                high = middle
            else:
                low = middle
        return {name: high * step}

    def _with_less(self, name: str, cut: int) -> bool:
        pod = pod_variants.smaller(self._pod, {name: cut})
        return pod is not None and self.fits(pod) > 0

    # The cluster.

    def _node_with_more(self) -> Iterator[SuggestedChange]:
        """The node that needs the smallest part more."""
        names, wanted, short = self._short()
        requested = dict(zip(names, wanted.tolist(), strict=True))
        # A pod that asks for what no node offers has no nodes to be looked at here.
        index, _ = self._table.columns_of(self._cycle.shape.container_requests).counted
        column = self._table.allocatable
        for row in self._near(with_kinds=True)[:_TRIED].tolist():
            if not short[:, row].any():
                continue
            column[index, row] += short[:, row]
            try:
                helps = self._passes(row)
            finally:
                column[index, row] -= short[:, row]
            if helps:
                pairs = zip(names, short[:, row].tolist(), strict=True)
                more = {name: lack for name, lack in pairs if lack}
                node, size = self._table.name(row), column[index, row].tolist()
                text = _more(node, more, requested, dict(zip(names, size, strict=True)))
                self.larger_nodes[text] = node, more
                yield SuggestedChange(text, 1)
                return

    def _passes(self, row: int) -> bool:
        decision = self._decider.try_row(Cycle(self._cycle.pod, self._table), row)
        return decision.row == row

    def _reservations(self) -> Iterator[SuggestedChange]:
        """A reservation whose end would make room."""
        accounts = self._decider.accounts
        held = [
            info
            for row in self._near().tolist()
            for info in self._table.pods[row].values()
            if stands_for_reservation(info.pod)
        ]
        for info in held[:_RESERVATIONS]:
            row = info.row
            with accounts.what_if():
                accounts.drop(info)
                helps = self._passes(row)
            if helps:
                name = info.pod.metadata.annotations.get(keys.RESERVATION_NAME, info.key)
                yield SuggestedChange(f"delete the reservation {name}", 1)


def _more(
    node: str, more: Mapping[str, int], requested: Mapping[str, int], size: Mapping[str, int]
) -> str:
    """What would have to be free on a node, or on a machine like it where it is too small."""
    if any(requested[name] > size[name] for name in more):
        words = (f"{name} {amount(name, requested[name])}" for name in more)
        return f"have a machine like {node} with {' and '.join(words)} free"
    words = (f"{name} {amount(name, lack, up=True)}" for name, lack in more.items())
    return f"have {' and '.join(words)} more free on {node}"


def fits(decider: Decider, shapes: Shapes, pod: Pod) -> int:
    """How many nodes would take a pod as it is."""
    info = shapes.info(pod)
    cycle = Cycle(PodInfo(info.pod, info.shape), decider.table)
    if decider.attempt(cycle).row < 0:
        return 0
    return len(fitting(decider, cycle))


def fitting(decider: Decider, cycle: Cycle) -> NDArray[np.intp]:
    """The rows that all filters and PreFilters let an attempted pod go to."""
    table = decider.table
    refused = decider.evaluator.entry(cycle).rejected[: table.size]
    mask = (refused == 0) & table.open[: table.size]
    if cycle.allowed is not None:
        mask &= cycle.allowed
    rows: NDArray[np.intp] = np.flatnonzero(mask)
    return rows
