# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesFit: whether a node has enough free for the pod, and how full it would be then.

Rule: docs/reference/stock-plugins.md#noderesourcesfit. Extended resources may be ignored by the
filter; scores take CPU and memory as ``nonzero`` counts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from koord.api import requests
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import ABSENT, CPU, MEMORY, PODS, Aspect
from koord.controllers.scheduler.config.args_kube_scheduler import NodeResourcesFitArgs
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.noderesources import queueing_hints, resource_kinds
from koord.controllers.scheduler.plugins.noderesources.request_columns import (
    columns_beside_reservations,
    evaluate_rows,
    memo_key,
)
from koord.kernels.placement_board import LEAST, MOST, RATIO, RoomCheck, RoomScore

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import ContainerRequests, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.queue.events import HintedEvent

STRATEGIES = {"LeastAllocated": LEAST, "MostAllocated": MOST, "RequestedToCapacityRatio": RATIO}
_TOO_MANY_PODS = "Too many pods"
# What ``nonzero`` counts, and its place there.
_SCORED = {"cpu": CPU, "memory": MEMORY}
# For so many lists of resources it is kept where they stand.
_KINDS = 256
# From so many rows on they are compared in vectors before any is told of.
_IN_VECTORS = 16


class _FitColumns(NamedTuple):
    """Where what containers request stands in the table, for all that request the same resources.

    Attributes:
        key: the columns hold while this is the table's ``resources_key``.
        filtered: column and name, in the order of the reasons.
        absent: the reasons for what no node offers, in order.
        scored: by resource of the score, its name, and its place in ``ContainerRequests.scored``
            where ``nonzero`` counts it, -1 elsewhere.
        check: the kernel over the columns of ``filtered``, then of ``ABSENT`` if anything is.
        score: the same over those of ``scored``.
    """

    key: object
    filtered: list[tuple[int, str]]
    absent: tuple[str, ...]
    scored: list[tuple[str, int]]
    check: RoomCheck
    score: RoomScore


class FitRequest(NamedTuple):
    """What containers request: kernels of their amounts over the columns."""

    columns: _FitColumns
    check: RoomCheck
    score: RoomScore


class NodeResourcesFit(Plugin):
    """Filters by free amounts of what the pod requests, and scores by the configured strategy.

    Raises:
        KoordError: an argument is not what it should be.
    """

    name = "NodeResourcesFit"
    kernels_by_requests = True
    depends = Aspect.NODE | Aspect.PODS | Aspect.RESERVATIONS
    by_columns = True
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: NodeResourcesFitArgs | None, handle: Handle) -> None:
        super().__init__(args or NodeResourcesFitArgs(), handle)
        self._ignored = frozenset(self.args.ignored_resources)
        self._groups = frozenset(self.args.ignored_resource_groups)
        self._strategy, self._corners = _strategy(self.args)
        self._key = memo_key(self.name)
        self._columns: dict[tuple[str, ...], _FitColumns] = {}

    def generation(self, cycle: Cycle) -> Hashable:
        """Overlays that differ between pods of a shape."""
        return cycle.overlay_generation

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where all that is requested is free."""
        return evaluate_rows(cycle, rows, self._fit_request(cycle.shape).check.check)

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """0 to 100 by the strategy."""
        return evaluate_rows(cycle, rows, self._fit_request(cycle.shape).score.score)

    def fit_kernel(self, shape: PodShape) -> RoomCheck | None:
        """The kernel that gives the whole answer of :meth:`filter`."""
        return self._fit_request(shape).check

    def score_kernel(self, shape: PodShape) -> RoomScore | None:
        """The kernel that gives the whole answer of :meth:`score`."""
        return self._fit_request(shape).score

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """All resources that are short. Unresolvable where even the empty node has not enough."""
        # Reasons may be many, and are the same on most nodes.
        known: dict[tuple[int, ...], Rejection] = {}
        if len(rows) < _IN_VECTORS or cycle.has_overlay:
            return [self._diagnose(cycle, row, known) for row in rows.tolist()]
        # Rows that lack the same are refused in the same words: one of each is asked.
        _, first, which = np.unique(
            self._shortage_codes(cycle, rows), return_index=True, return_inverse=True
        )
        asked = [self._diagnose(cycle, row, known) for row in rows[first].tolist()]
        return list(map(asked.__getitem__, which.tolist()))

    def _shortage_codes(self, cycle: Cycle, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """By row, a number that says which resources are short, and of which even the empty node
        has not enough."""
        table, request = cycle.table, cycle.shape.request
        found = np.zeros(len(rows), np.int64)
        for index, name in self._fit_request(cycle.shape).columns.filtered:
            has, amount = table.allocatable[index, rows], _amount(request, index, name)
            short = amount > has - table.requested[index, rows]
            found = found * 3 + np.where(short, np.where(amount > has, 2, 1), 0)
            # Few differ, however many resources there are: no number overflows.
            found = np.unique(found, return_inverse=True)[1].astype(np.int64)
        return found

    def events(self) -> Sequence[HintedEvent]:
        """Pods that go, requests and nodes that change."""
        return queueing_hints.of(self.handle, self._fits_empty)

    def _diagnose(
        self, cycle: Cycle, row: int, known: dict[tuple[int, ...], Rejection]
    ) -> Rejection:
        table, wanted, request = (
            cycle.table,
            self._fit_request(cycle.shape).columns,
            cycle.shape.request,
        )
        columns = columns_beside_reservations(cycle, row)
        used = table.requested[:, row] if columns is None else columns.requested[:, 0]
        reasons: list[str] = []
        short: list[int] = []
        unresolvable = bool(wanted.absent)
        for index, name in wanted.filtered:
            amount = _amount(request, index, name)
            has = int(table.allocatable[index, row])
            if amount <= has - int(used[index]):
                continue
            short.append(index)
            reasons.append(_TOO_MANY_PODS if index == PODS else _insufficient(name))
            unresolvable |= index != PODS and amount > has
        key = (unresolvable, *short)
        if key not in known:
            first = sum(index <= PODS for index in short)
            scalars = tuple(sorted((*reasons[first:], *wanted.absent)))
            reasons_in_order = (*reasons[:first], *scalars)
            known[key] = Rejection(self.name, reasons_in_order, unresolvable=unresolvable)
        return known[key]

    def _fits_empty(self, shape: PodShape, offered: dict[str, int]) -> bool:
        """Whether an empty node with this allocatable could take a pod of the shape."""
        if offered.get(requests.PODS, 0) < 1:
            return False
        return all(
            amount <= offered.get(name, 0)
            for name, amount in shape.request.items()
            if amount > 0 and not self._is_ignored(name)
        )

    def _fit_request(self, shape: PodShape) -> FitRequest:
        # Many shapes differ in labels alone.
        memo = shape.container_requests.memo
        fit_request: FitRequest | None = memo.get(self._key)
        if fit_request is None or fit_request.columns.key is not self.handle.table.resources_key:
            fit_request = memo[self._key] = self._build(shape.container_requests)
        return fit_request

    def _build(self, container_requests: ContainerRequests) -> FitRequest:
        columns, request = self._columns_of(container_requests.names), container_requests.request
        amounts = [_amount(request, index, name) for index, name in columns.filtered]
        cpu_and_memory = container_requests.scored
        counted = [
            cpu_and_memory[place] if place >= 0 else request.get(name, 0)
            for name, place in columns.scored
        ]
        check, score = columns.check.asking(amounts), columns.score.requesting(counted)
        return FitRequest(columns, check, score)

    def _columns_of(self, names: tuple[str, ...]) -> _FitColumns:
        """The columns of some resources."""
        found = self._columns.get(names)
        if found is None or found.key is not self.handle.table.resources_key:
            if len(self._columns) >= _KINDS:
                self._columns.clear()
            found = self._columns[names] = self._find_columns(names)
        return found

    def _find_columns(self, names: tuple[str, ...]) -> _FitColumns:
        table = self.handle.table
        counted = [name for name in names if not self._is_ignored(name)]
        columns = {name: table.resource(name) for name in counted}
        filtered = [(i, name) for name, i in columns.items() if i != ABSENT]
        filtered.append((PODS, table.resources[PODS]))
        filtered.sort(key=lambda each: _place(*each))
        absent = tuple(_insufficient(name) for name in counted if columns[name] == ABSENT)
        scored = [
            each
            for each in self.args.scoring_strategy.resources
            if each.name in names or not resource_kinds.is_scalar(each.name)
        ]
        weights = [
            (table.resource(each.name), 0, each.weight or 1, each.name in _SCORED)
            for each in scored
        ]
        return _FitColumns(
            table.resources_key,
            filtered,
            absent,
            [(each.name, _SCORED.get(each.name, -1)) for each in scored],
            RoomCheck([*[(index, 0) for index, _ in filtered], *[(ABSENT, 1)] * bool(absent)]),
            RoomScore(self._strategy, weights, self._corners),
        )

    def _is_ignored(self, resource: str) -> bool:
        if not resource_kinds.is_extended(resource):
            return False
        return resource in self._ignored or resource.partition("/")[0] in self._groups


def _amount(request: Mapping[str, int], index: int, resource: str) -> int:
    """What is requested of a column; of pods, the pod itself."""
    return request[resource] if index != PODS else 1


def _insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


def _place(index: int, resource: str) -> tuple[bool, int, str]:
    """Reasons name pods first, then CPU, memory and storage, then the others by name."""
    return index != PODS, min(index, PODS), resource if index > PODS else ""


def _strategy(args: NodeResourcesFitArgs) -> tuple[int, list[tuple[int, int]]]:
    strategy = args.scoring_strategy
    where = "NodeResourcesFitArgs"
    if strategy.type not in STRATEGIES:
        expected = "one of " + ", ".join(STRATEGIES)
        raise KoordError(where, "scoringStrategy.type", strategy.type, expected)
    if strategy.type != "RequestedToCapacityRatio":
        return STRATEGIES[strategy.type], []
    param: Any = strategy.requested_to_capacity_ratio
    corners = [(point.utilization, point.score * 10) for point in param.shape] if param else []
    field = "scoringStrategy.requestedToCapacityRatio.shape"
    if not corners:
        raise KoordError(where, field, None, "one point or more")
    used = [corner[0] for corner in corners]
    if used != sorted(set(used)) or not 0 <= used[0] <= used[-1] <= 100:
        raise KoordError(where, field, used, "utilization of 0 to 100, ascending")
    if not all(0 <= score <= 100 for _, score in corners):
        raise KoordError(where, field, [score // 10 for _, score in corners], "scores of 0 to 10")
    return RATIO, corners
