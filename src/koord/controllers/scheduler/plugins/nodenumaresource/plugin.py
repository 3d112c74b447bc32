# SPDX-License-Identifier: Apache-2.0
"""The plugin NodeNUMAResource at the extension points."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from koord.api.kinds.topology import NodeResourceTopology
from koord.api.protocol import annotation, keys
from koord.api.protocol.scheduling import resource_spec
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.recounting import by_row
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.framework.topology_manager import Alignment, AlignmentRequest
from koord.controllers.scheduler.plugins.nodenumaresource import designated_allocation, reasons
from koord.controllers.scheduler.plugins.nodenumaresource.evaluation.node_evaluator import (
    NUMANodeEvaluator,
)
from koord.controllers.scheduler.plugins.nodenumaresource.evaluation.scoring import FEW, NUMAScorer
from koord.controllers.scheduler.plugins.nodenumaresource.explain.debug import node_report
from koord.controllers.scheduler.plugins.nodenumaresource.explain.shortfall import numa_shortfalls
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
    justified,
    recorded_allocation,
    text_of,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
    NodeTopologies,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.pod_request import (
    NUMARequest,
    completed_spec,
    request_of,
)
from koord.controllers.scheduler.plugins.nodenumaresource.queueing_hints import events
from koord.controllers.scheduler.plugins.nodenumaresource.reasons import NAME
from koord.controllers.scheduler.plugins.nodenumaresource.state import columns
from koord.controllers.scheduler.plugins.nodenumaresource.state.cache import NUMACache, log
from koord.controllers.scheduler.plugins.noderesources.request_columns import evaluate_rows
from koord.controllers.scheduler.queue.events import Action
from koord.kernels.numa import Provider, Scorer, Strategy, Zones
from koord.kernels.topology import BindPolicy, NUMAStrategy

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.config.args_koord import (
        AllocationStrategy,
        NodeNUMAResourceArgs,
    )
    from koord.controllers.scheduler.framework.cycle import Cycle, PendingPatch
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
        MatchedReservation,
    )
    from koord.controllers.scheduler.queue.events import HintedEvent
    from koord.kernels.placement_board import RoomScore

    WeakRequests = WeakValueDictionary[Hashable, NUMARequest]

_NRT_EVENT = "noderesourcetopologies.v1alpha1.topology.node.k8s.io"
_OWN_REQUEST = int(PodField.KOORD_LABELS | PodField.ANNOTATIONS)


_NOWHERE = np.zeros(0, np.bool_)


class NodeNUMAResource(Plugin):
    """Which CPUs and zones a pod gets, and whether a node has them.

    Filter looks at summary columns, and at one node after the other only where these do not decide:
    pods that use a reservation, nodes with a NUMA topology policy, machines with unequal cores.
    """

    name: ClassVar[str] = NAME
    reads = PodField.ANNOTATIONS | PodField.KOORD_LABELS
    kernels_by_requests: ClassVar[bool] = True
    account: ClassVar[str] = "cpus"
    restores_from: ClassVar[tuple[str, ...]] = (keys.RESOURCE_STATUS,)
    listens_by_shape: ClassVar[bool] = False
    depends: ClassVar[Aspect] = Aspect.NODE | Aspect.PODS | Aspect.NUMA | Aspect.RESERVATIONS
    applies_by_shape: ClassVar[bool] = True
    allocations_only: ClassVar[bool] = True
    filter_at_once: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: NodeNUMAResourceArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._default_policy: str = args.default_cpu_bind_policy
        self._memo = f"{NAME}/{self._default_policy}"
        zones = _scorer(args.numa_scoring_strategy)
        most = zones.strategy is Strategy.MOST_ALLOCATED
        default = NUMAStrategy.MOST_ALLOCATED if most else NUMAStrategy.LEAST_ALLOCATED
        view = handle.view(NodeResourceTopology)
        topologies = NodeTopologies(default, compatible=args.compatible_topology_policies)
        self.cache = NUMACache(handle.table, NAME, topologies, view.get)
        scorer = _scorer(args.scoring_strategy)
        self.evaluator = NUMANodeEvaluator(self.cache, scorer, zones)
        self._scorer_by_row = NUMAScorer(handle.table, self.evaluator, scorer)
        self._requests: WeakRequests = WeakValueDictionary()
        view.on_change(
            lambda nrt: self._reported(None, nrt),
            self._reported,
            lambda nrt, _: self._reported(nrt, None),
        )

    def events(self) -> Sequence[HintedEvent]:
        """Bound CPUs and zones come free when a pod goes, or when a node reports others."""
        return events(self.cache, _NRT_EVENT, self._wants)

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods that ask for nothing; where neither pod nor any node cares for CPUs and zones."""
        if self._easy(shape) is None:
            if not _asks(shape):
                return ("filter", "score")
            # It has nothing to do at Permit for anybody. But who has a kernel is told from who has
            # none by this alone, where containers ask for the same.
            return () if self._scored(shape) is None else ("permit",)
        points = ("pre_filter", "filter", "reserve", "pre_bind")
        return points if _asks(shape) else (*points, "score")

    def applies(self, cycle: Cycle) -> bool:
        """Whether the pod asks for anything."""
        return _asks(cycle.shape)

    def score_kernel(self, shape: PodShape) -> RoomScore | None:
        """All that :meth:`score` asks where neither pod nor any node cares."""
        request = self._scored(shape)
        return None if request is None else self._scorer_by_row.fit_kernel(request)

    def score_kernel_amounts(self, names: Sequence[str]) -> Sequence[str]:
        """Of what is scored for pods that request these resources."""
        return self._scorer_by_row.counted(names)

    def _scored(self, shape: PodShape) -> NUMARequest | None:
        """What a pod asks for whose score follows from the table's columns alone.

        Nodes that differ in more than these, where no node is constrained, are those without a CPU
        topology, and a pod that wants CPUs of its own is refused there.
        """
        self.cache.sync()
        request = self._request(shape)
        if isinstance(request, Rejection) or designated_allocation.may_be(shape):
            return None
        scored = self._indifferent(request) or self._goes_by_counts(request)
        return request if scored else None

    def _easy(self, shape: PodShape) -> NUMARequest | None:
        """What a pod asks for that takes what any node has, and brings no allocation."""
        self.cache.sync()
        request = self._request(shape)
        if isinstance(request, Rejection) or not self._indifferent(request):
            return None
        return None if designated_allocation.may_be(shape) else request

    def recount(self) -> Iterator[str | None]:
        """CPUs and zones that pods hold, node by node."""
        return by_row(self.handle.table, self.cache.differs)

    debug_paths: ClassVar[Sequence[str]] = ("nodes/:name",)

    def debug(self, path: Sequence[str]) -> object:
        """``nodes/NAME``: what is known of a node's CPUs and zones, and who holds them.

        Raises:
            KeyError: there is no such node or path.
            KoordError: nothing is known of the node's CPUs.
        """
        if len(path) != 2 or path[0] != "nodes":
            return super().debug(path)
        row = self.handle.table.row(path[1])
        if row is None:
            raise KeyError(f"cannot find node {path[1]}")
        self.cache.sync()
        return node_report(path[1], self.cache.state(row))

    def generation(self, cycle: Cycle) -> Hashable:
        """Answers for a pod with an allocation of its own hold for no other pod of its shape."""
        return None if designated_allocation.of(cycle) is not None else 0

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Reads the pod; one with an annotation that cannot be read goes nowhere."""
        self.cache.sync()
        request = self._request(cycle.shape)
        if isinstance(request, Rejection):
            return request
        try:
            designated_allocation.read(cycle)
        except KoordError as error:
            return Rejection(NAME, (str(error),), unresolvable=True)
        alignment = Alignment.of(cycle)
        alignment.lead(self)
        alignment.join(self)
        return None

    def answers_at_once(self, cycle: Cycle) -> bool:
        """Where two comparisons a node decide."""
        request = self._need(cycle)
        if not self._goes_by_counts(request) or designated_allocation.of(cycle) is not None:
            return False
        return request.required != BindPolicy.FULL_PCPUS or bool(self.cache.columns.uniform.all())

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where the pod can be given what it asks for."""
        request = self._need(cycle)
        self.cache.sync()
        index = self._index(rows)
        if designated_allocation.of(cycle) is not None:
            return self._filter_designated(cycle, request, index)
        if self._indifferent(request):
            return np.ones(len(index), np.bool_)
        if len(index) <= FEW:
            one_by_one = [self._passes(cycle, request, row) for row in index.tolist()]
            return np.array(one_by_one, np.bool_)
        passes, unsure = self._quick_answers(cycle, request, rows, index)
        for place in np.flatnonzero(unsure).tolist():
            passes[place] = self._passes(cycle, request, int(index[place]))
        return passes

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> list[Rejection]:
        """Why each of some rejected rows was rejected."""
        request = self._need(cycle)
        self.cache.sync()
        codes, unsure = self._codes(cycle, request, rows)
        # Where zones count they say better what is missing than a sum over all of them.
        unsure |= (codes == columns.NOT_ENOUGH) & ~self.cache.columns.decides(request, rows)
        unsure |= designated_allocation.of(cycle) is not None
        rejections = [
            columns.REJECTIONS[code] or reasons.NOT_ENOUGH_CPUS for code in codes.tolist()
        ]
        for place in np.flatnonzero(unsure).tolist():
            rejection = self.evaluator.rejection(cycle, request, int(rows[place]))
            rejections[place] = rejection or reasons.NOT_ENOUGH_CPUS
        return rejections

    def shortfall(self, cycle: Cycle, row: int) -> list[str]:
        """CPUs that are free for binding, amounts in the zone that comes nearest."""
        self.cache.sync()
        return numa_shortfalls(self.evaluator, cycle, self._need(cycle), row)

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """0 to 100; higher where the configured strategy would rather have the pod."""
        request = self._need(cycle)
        self.cache.sync()
        kernel = self.score_kernel(cycle.shape)
        if kernel is not None:
            return evaluate_rows(cycle, rows, kernel.score)
        columns = self.cache.count() if self.cache.constrained else self.cache.columns
        return self._scorer_by_row.scores(cycle, request, columns, self._index(rows))

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Chooses CPUs and zone amounts."""
        cycle.pod.allocations.pop(NAME, None)
        request = self._need(cycle)
        if self._indifferent(request) and designated_allocation.of(cycle) is None:
            return None
        chosen = self.evaluator.choose(cycle, request, row)
        if isinstance(chosen, Rejection):
            return chosen
        if chosen:
            cycle.pod.allocations[NAME] = chosen
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Forgets the choice."""
        cycle.pod.allocations.pop(NAME, None)

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts what the pod holds."""
        self.cache.added(row, pod)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """Counts it no longer."""
        self.cache.removed(row, pod)

    def restore(self, pod: PodInfo) -> None:
        """Reads what a bound pod holds; what makes no sense is logged and counts as nothing."""
        try:
            held = recorded_allocation(pod.pod)
        except KoordError as error:
            log.warning("what the pod holds is ignored: %s", error)
            return
        kept = justified(held, pod.shape.request)
        wrong = None
        if kept is not held:
            says, counts = text_of(held), text_of(kept)
            expected = f"no more than its requests justify, which is what counts: {counts}"
            field = annotation.field_of(keys.RESOURCE_STATUS)
            wrong = KoordError(pod.pod.title, field, says, expected)
        self.handle.contradictions.note(pod.pod, keys.RESOURCE_STATUS, wrong)
        if kept:
            pod.allocations[NAME] = kept

    async def pre_bind(self, cycle: Cycle, row: int, changes: PendingPatch) -> None:
        """Writes on the pod what it got, and the bind policy that was used."""
        held = cycle.pod.allocations.get(NAME)
        if not isinstance(held, NUMAAllocation):
            return
        if held.cpus:
            rules = self.evaluator.rules(self._need(cycle), row)
            spec = resource_spec(cycle.pod.pod)
            full = None if isinstance(rules, Rejection) else completed_spec(spec, rules.binding)
            if full is not None:
                changes.annotations[keys.RESOURCE_SPEC] = annotation.text(full)
        changes.annotations[keys.RESOURCE_STATUS] = annotation.text(held.status())

    def heeds_reservations(self, cycle: Cycle) -> bool:
        """Only for pods that bind CPUs or care for zones, or where a node does."""
        if not (cycle.shape.fields & _OWN_REQUEST or self.cache.constrained):
            return False  # who says nothing in the protocol's words binds none
        return not self._indifferent(self._need(cycle))

    def filter_reservation(
        self, cycle: Cycle, row: int, matched: MatchedReservation
    ) -> Rejection | None:
        """Why the pod cannot have its CPUs and zones from this reservation; None if it can."""
        return self.evaluator.fits(cycle, self._need(cycle), row, matched)

    def question(self, cycle: Cycle, row: int) -> AlignmentRequest | Rejection | None:
        """How the pod is to be aligned on a node."""
        return self.evaluator.alignment_request(self._need(cycle), row)

    def hints(self, cycle: Cycle, row: int, zones: Zones) -> Provider:
        """Which sets of zones have CPUs, memory and hugepages for the pod."""
        return self.evaluator.topology_hints(cycle, self._need(cycle), row)

    def allocate(
        self, cycle: Cycle, row: int, affinity: tuple[int, ...] | None
    ) -> Rejection | None:
        """Why the pod cannot be served from these zones; None if it can."""
        chosen = self.evaluator.allocate(cycle, self._need(cycle), row, affinity)
        return chosen if isinstance(chosen, Rejection) else None

    def _indifferent(self, request: NUMARequest) -> bool:
        """Whether a pod takes what any node has, as on a cluster without NUMA topology."""
        return not (request.bound or request.numa_policy or self.cache.constrained)

    def _passes(self, cycle: Cycle, request: NUMARequest, row: int) -> bool:
        return self.evaluator.rejection(cycle, request, row, explain=False) is None

    def _codes(
        self, cycle: Cycle, request: NUMARequest, index: NDArray[np.intp]
    ) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        """By row, the code of the columns, and whether the node itself must be evaluated."""
        table = self.cache.count()
        codes = table.codes(request, index, self.handle.table)
        matters = cycle.reserved(index) & columns.DEPENDS_ON_USE[codes]
        return codes, matters | ((codes == 0) & ~table.decides(request, index))

    def _quick_answers(
        self, cycle: Cycle, request: NUMARequest, rows: Rows, index: NDArray[np.intp]
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """By row, whether the columns let the pod in, and whether the node must be evaluated."""
        if self._goes_by_counts(request) and not cycle.has_reservations:
            passes, unsure = self.cache.count().bindable(request, rows)
            return passes, _NOWHERE if unsure is None else passes & unsure
        codes, unsure = self._codes(cycle, request, index)
        return codes == 0, unsure

    def _goes_by_counts(self, request: NUMARequest) -> bool:
        """Whether a pod wants CPUs of its own and nothing besides, where no node wants more."""
        return request.bound and not (request.numa_policy or self.cache.constrained)

    def _filter_designated(
        self, cycle: Cycle, request: NUMARequest, index: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        passes = np.ones(len(index), np.bool_)
        for place, row in enumerate(index.tolist()):
            if cycle.allowed is None or cycle.allowed[row]:
                passes[place] = self.evaluator.rejection(cycle, request, row) is None
        return passes

    def _request(self, shape: PodShape) -> NUMARequest | Rejection:
        # Containers tell it all where pods say nothing in the protocol's words.
        own = shape.fields & _OWN_REQUEST
        memo = shape.memo if own else shape.container_requests.memo
        request: NUMARequest | Rejection | None = memo.get(self._memo)
        if request is None:
            request = memo[self._memo] = self._read(shape)
        return request

    def _read(self, shape: PodShape) -> NUMARequest | Rejection:
        try:
            request = request_of(shape.pod, shape.request, self._default_policy)
        except KoordError as error:
            return Rejection(NAME, (str(error),), error=True)
        if isinstance(request, Rejection):
            return request
        # Shapes that request the same share one request, and with it all answers.
        return self._requests.setdefault(request.key(), request)

    def _wants(self, shape: PodShape) -> NUMARequest | None:
        request = self._request(shape)
        return None if isinstance(request, Rejection) else request

    def _need(self, cycle: Cycle) -> NUMARequest:
        request = self._request(cycle.shape)
        if isinstance(request, Rejection):
            raise TypeError(f"{cycle.pod.key}: got a pod that PreFilter refused: {request.text}")
        return request

    def _index(self, rows: Rows) -> NDArray[np.intp]:
        if isinstance(rows, slice):
            return np.arange(*rows.indices(self.handle.table.size), dtype=np.intp)
        return rows

    def _reported(self, old: NodeResourceTopology | None, new: NodeResourceTopology | None) -> None:
        nrt = new or old
        change = self.cache.reported(nrt.metadata.name) if nrt is not None else None
        if change is not None:
            added, gone = old is None, new is None
            action = Action.ADD if added else Action.DELETE if gone else Action.UPDATE
            self.handle.table.advance_generation()
            self.handle.wake(_NRT_EVENT, action, *change)


def _asks(shape: PodShape) -> bool:
    return any(amount > 0 for amount in shape.request.values())


def _scorer(strategy: AllocationStrategy) -> Scorer:
    weights = {resource.name: resource.weight for resource in strategy.resources}
    return Scorer(Strategy(strategy.type), weights)
