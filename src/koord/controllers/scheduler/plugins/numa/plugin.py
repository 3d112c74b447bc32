# SPDX-License-Identifier: Apache-2.0
"""The plugin: feeds nodes, pods and reservations to the functions that decide."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from koord.api.kinds.topology import NodeResourceTopology
from koord.api.protocol import annotation, keys
from koord.api.protocol.scheduling import resource_spec
from koord.base.errors import KoordError
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.framework.recount import by_row
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.noderesources.room import ask
from koord.controllers.scheduler.plugins.numa import columns, designated, reasons
from koord.controllers.scheduler.plugins.numa.allocation import Allocation, recorded
from koord.controllers.scheduler.plugins.numa.debug import node_report
from koord.controllers.scheduler.plugins.numa.events import events
from koord.controllers.scheduler.plugins.numa.holdings import NAME
from koord.controllers.scheduler.plugins.numa.judge import Judge
from koord.controllers.scheduler.plugins.numa.ledger import Ledger, log
from koord.controllers.scheduler.plugins.numa.machine import Machines
from koord.controllers.scheduler.plugins.numa.rating import FEW, Rating
from koord.controllers.scheduler.plugins.numa.reasons import Refusal
from koord.controllers.scheduler.plugins.numa.request import Request, completed_spec, request_of
from koord.controllers.scheduler.queue.events import Action
from koord.controllers.scheduler.topology.alignment import Alignment, Question
from koord.kernels.numa import Provider, Scorer, Strategy, Zones
from koord.kernels.topology import NUMAStrategy

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterator, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.config.args_koord import (
        AllocationStrategy,
        NodeNUMAResourceArgs,
    )
    from koord.controllers.scheduler.framework.cycle import Changes, Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.plugins.reservation.offer import Offer
    from koord.controllers.scheduler.queue.events import HintedEvent
    from koord.kernels.placement_board import RoomScore

    WeakRequests = WeakValueDictionary[Hashable, Request]

NRT_EVENT = "noderesourcetopologies.v1alpha1.topology.node.k8s.io"


class NodeNUMAResource(Plugin):
    """Which CPUs and zones a pod gets, and whether a node has them.

    Filter looks at summary columns, and at one node after the other only where these do not decide:
    pods that use a reservation, nodes with a NUMA topology policy, machines with unequal cores.
    """

    name: ClassVar[str] = NAME
    account: ClassVar[str] = "cpus"
    restores_from: ClassVar[tuple[str, ...]] = (keys.RESOURCE_STATUS,)
    told_by_shape: ClassVar[bool] = False
    depends: ClassVar[Aspect] = Aspect.NODE | Aspect.PODS | Aspect.NUMA | Aspect.RESERVATIONS
    applies_by_shape: ClassVar[bool] = True
    allocations_only: ClassVar[bool] = True
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: NodeNUMAResourceArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._default_policy: str = args.default_cpu_bind_policy
        self._memo = f"{NAME}/{self._default_policy}"
        zones = _scorer(args.numa_scoring_strategy)
        most = zones.strategy is Strategy.MOST_ALLOCATED
        default = NUMAStrategy.MOST_ALLOCATED if most else NUMAStrategy.LEAST_ALLOCATED
        view = handle.view(NodeResourceTopology)
        machines = Machines(default, compatible=args.compatible_topology_policies)
        self.ledger = Ledger(handle.table, NAME, machines, view.get)
        scorer = _scorer(args.scoring_strategy)
        self.judge = Judge(self.ledger, scorer, zones)
        self._rating = Rating(handle.table, self.judge, scorer)
        self._requests: WeakRequests = WeakValueDictionary()
        view.on_change(
            lambda nrt: self._reported(None, nrt),
            self._reported,
            lambda nrt, _: self._reported(nrt, None),
        )

    def events(self) -> Sequence[HintedEvent]:
        """Bound CPUs and zones come free when a pod goes, or when a node reports others."""
        return events(self.ledger, NRT_EVENT, self._wants)

    def idle_at(self, shape: PodShape) -> Collection[str]:
        """Pods that ask for nothing; where neither pod nor any node cares for CPUs and zones."""
        if self._easy(shape) is None:
            return () if _asks(shape) else ("filter", "score")
        points = ("pre_filter", "filter", "reserve", "pre_bind")
        return points if _asks(shape) else (*points, "score")

    def applies(self, cycle: Cycle) -> bool:
        """Whether the pod asks for anything."""
        return _asks(cycle.shape)

    def room_score(self, shape: PodShape) -> RoomScore | None:
        """All that :meth:`score` asks where neither pod nor any node cares."""
        request = self._easy(shape)
        return None if request is None else self._rating.of_room(request)

    def _easy(self, shape: PodShape) -> Request | None:
        """What a pod asks for that takes what any node has, and brings no allocation."""
        self.ledger.sync()
        request = self._request(shape)
        if isinstance(request, Rejection) or not self._indifferent(request):
            return None
        return None if designated.may_be(shape) else request

    def recount(self) -> Iterator[str | None]:
        """CPUs and zones that pods hold, node by node."""
        return by_row(self.handle.table, self.ledger.differs)

    debug_paths: ClassVar[Sequence[str]] = ("nodes/:name",)

    def debug(self, path: Sequence[str]) -> object:
        """``nodes/NAME``: what is known of a node's CPUs and zones, and who holds them.

        Raises:
            KeyError: there is no such node or path.
            KoordError: nothing can be said of the node's CPUs.
        """
        if len(path) != 2 or path[0] != "nodes":
            return super().debug(path)
        row = self.handle.table.row(path[1])
        if row is None:
            raise KeyError(f"cannot find node {path[1]}")
        self.ledger.sync()
        return node_report(path[1], self.ledger.state(row))

    def stamp(self, cycle: Cycle) -> Hashable:
        """Answers for a pod with an allocation of its own hold for no other pod of its shape."""
        return None if designated.of(cycle) is not None else 0

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Reads the pod; a pod with nonsense in an annotation goes nowhere and is told so."""
        self.ledger.sync()
        request = self._request(cycle.shape)
        if isinstance(request, Rejection):
            return request
        try:
            designated.read(cycle)
        except KoordError as error:
            return Rejection(NAME, (str(error),), unresolvable=True)
        alignment = Alignment.of(cycle)
        alignment.lead(self)
        alignment.join(self)
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where the pod can be given what it asks for."""
        request = self._need(cycle)
        self.ledger.sync()
        index = self._index(rows)
        if designated.of(cycle) is not None:
            return self._filter_designated(cycle, request, index)
        if self._indifferent(request):
            return np.ones(len(index), np.bool_)
        if len(index) <= FEW:
            found = [self._passes(cycle, request, row) for row in index.tolist()]
            return np.array(found, np.bool_)
        codes, unsure = self._codes(cycle, request, index)
        passes: NDArray[np.bool_] = codes == 0
        for place in np.flatnonzero(unsure).tolist():
            passes[place] = self._passes(cycle, request, int(index[place]))
        return passes

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> list[Rejection]:
        """Why not, row by row."""
        request = self._need(cycle)
        self.ledger.sync()
        codes, unsure = self._codes(cycle, request, rows)
        # Where zones count they say better what is missing than a sum over all of them.
        unsure |= (codes == columns.NOT_ENOUGH) & ~self.ledger.columns.decides(request, rows)
        unsure |= designated.of(cycle) is not None
        found = [self._rejection(columns.REFUSALS[code]) for code in codes.tolist()]
        for place in np.flatnonzero(unsure).tolist():
            refusal = self.judge.refusal(cycle, request, int(rows[place]))
            found[place] = refusal if isinstance(refusal, Rejection) else self._rejection(refusal)
        return found

    def lacks(self, cycle: Cycle, row: int) -> list[str]:
        """CPUs that are free for binding, amounts in the zone that comes nearest."""
        self.ledger.sync()
        return self.judge.lacks(cycle, self._need(cycle), row)

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """0 to 100; higher where the configured strategy would rather have the pod."""
        request = self._need(cycle)
        self.ledger.sync()
        if self._indifferent(request):
            return ask(cycle, rows, self._rating.of_room(request).score)
        columns = self.ledger.count() if self.ledger.special else self.ledger.columns
        return self._rating.scores(cycle, request, columns, self._index(rows))

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Chooses CPUs and zone amounts."""
        cycle.pod.allocations.pop(NAME, None)
        request = self._need(cycle)
        if self._indifferent(request) and designated.of(cycle) is None:
            return None
        found = self.judge.choose(cycle, request, row)
        if isinstance(found, Rejection):
            return found
        if isinstance(found, Refusal):
            return self._rejection(found)
        if found:
            cycle.pod.allocations[NAME] = found
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Forgets the choice."""
        cycle.pod.allocations.pop(NAME, None)

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Counts what the pod holds."""
        self.ledger.added(row, pod)

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """Counts it no longer."""
        self.ledger.removed(row, pod)

    def restore(self, pod: PodInfo) -> None:
        """Reads what a bound pod holds; what makes no sense is logged and counts as nothing."""
        try:
            held = recorded(pod.pod)
        except KoordError as error:
            log.warning("what the pod holds is ignored: %s", error)
            return
        if held:
            pod.allocations[NAME] = held

    async def pre_bind(self, cycle: Cycle, row: int, changes: Changes) -> None:
        """Writes on the pod what it got, and the bind policy that was used."""
        held = cycle.pod.allocations.get(NAME)
        if not isinstance(held, Allocation):
            return
        if held.cpus:
            terms = self.judge.terms(self._need(cycle), row)
            spec = resource_spec(cycle.pod.pod)
            full = None if isinstance(terms, Refusal) else completed_spec(spec, terms.binding)
            if full is not None:
                changes.annotations[keys.RESOURCE_SPEC] = annotation.text(full)
        changes.annotations[keys.RESOURCE_STATUS] = annotation.text(held.status())

    def heeds_reservations(self, cycle: Cycle) -> bool:
        """Not for pods that take what any node has."""
        return not self._indifferent(self._need(cycle))

    def filter_reservation(self, cycle: Cycle, row: int, offer: Offer) -> Rejection | None:
        """Why the pod cannot have its CPUs and zones from this reservation; None if it can."""
        refusal = self.judge.fits(cycle, self._need(cycle), row, offer)
        return self._rejection(refusal) if isinstance(refusal, Refusal) else refusal

    def question(self, cycle: Cycle, row: int) -> Question | Rejection | None:
        """How the pod is to be aligned on a node."""
        found = self.judge.question(self._need(cycle), row)
        return self._rejection(found) if isinstance(found, Refusal) else found

    def hints(self, cycle: Cycle, row: int, zones: Zones) -> Provider:
        """Which sets of zones have CPUs, memory and hugepages for the pod."""
        return self.judge.hints(cycle, self._need(cycle), row)

    def allocate(
        self, cycle: Cycle, row: int, affinity: tuple[int, ...] | None
    ) -> Rejection | None:
        """Why the pod cannot be served from these zones; None if it can."""
        found = self.judge.allocate(cycle, self._need(cycle), row, affinity)
        return self._rejection(found) if isinstance(found, Refusal) else None

    def _indifferent(self, request: Request) -> bool:
        """Whether a pod takes what any node has, as on a cluster without NUMA topology."""
        return not (request.bound or request.numa_policy or self.ledger.special)

    def _passes(self, cycle: Cycle, request: Request, row: int) -> bool:
        return self.judge.refusal(cycle, request, row, explain=False) is None

    def _codes(
        self, cycle: Cycle, request: Request, index: NDArray[np.intp]
    ) -> tuple[NDArray[np.int8], NDArray[np.bool_]]:
        """By row, what the columns say, and whether the node itself must be asked."""
        table = self.ledger.count()
        codes = table.codes(request, index, self.handle.table)
        matters = cycle.reserved(index) & columns.DEPENDS_ON_USE[codes]
        return codes, matters | ((codes == 0) & ~table.decides(request, index))

    def _filter_designated(
        self, cycle: Cycle, request: Request, index: NDArray[np.intp]
    ) -> NDArray[np.bool_]:
        passes = np.ones(len(index), np.bool_)
        for place, row in enumerate(index.tolist()):
            if cycle.allowed is None or cycle.allowed[row]:
                passes[place] = self.judge.refusal(cycle, request, row) is None
        return passes

    def _request(self, shape: PodShape) -> Request | Rejection:
        found: Request | Rejection | None = shape.memo.get(self._memo)
        if found is None:
            found = shape.memo[self._memo] = self._read(shape)
        return found

    def _read(self, shape: PodShape) -> Request | Rejection:
        try:
            found = request_of(shape.pod, shape.request, self._default_policy)
        except KoordError as error:
            return Rejection(NAME, (str(error),), error=True)
        if isinstance(found, Refusal):
            return self._rejection(found)
        # Shapes that ask for the same share one request, and with it all answers.
        return self._requests.setdefault(found.key(), found)

    def _wants(self, shape: PodShape) -> Request | None:
        request = self._request(shape)
        return None if isinstance(request, Rejection) else request

    def _need(self, cycle: Cycle) -> Request:
        request = self._request(cycle.shape)
        if isinstance(request, Rejection):
            raise TypeError(f"{cycle.pod.key}: got a pod that PreFilter refused: {request.text}")
        return request

    def _rejection(self, refusal: Refusal | None) -> Rejection:
        shown = refusal or reasons.NOT_ENOUGH_CPUS
        return Rejection(NAME, shown.reasons, shown.unresolvable)

    def _index(self, rows: Rows) -> NDArray[np.intp]:
        if isinstance(rows, slice):
            return np.arange(*rows.indices(self.handle.table.size), dtype=np.intp)
        return rows

    def _reported(self, old: NodeResourceTopology | None, new: NodeResourceTopology | None) -> None:
        there = new or old
        change = self.ledger.reported(there.metadata.name) if there is not None else None
        if change is not None:
            added, gone = old is None, new is None
            action = Action.ADD if added else Action.DELETE if gone else Action.UPDATE
            self.handle.table.turn()
            self.handle.wake(NRT_EVENT, action, *change)


def _asks(shape: PodShape) -> bool:
    return any(amount > 0 for amount in shape.request.values())


def _scorer(strategy: AllocationStrategy) -> Scorer:
    weights = {resource.name: resource.weight for resource in strategy.resources}
    return Scorer(Strategy(strategy.type), weights)
