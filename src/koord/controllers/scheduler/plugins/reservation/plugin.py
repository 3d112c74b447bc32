# SPDX-License-Identifier: Apache-2.0
"""The Reservation plugin: pods use what is held for them, and nobody else does.

Rule: docs/reference/reservations.md#filter.

Capacity stands in the node table as a pod sees it that matches no reservation (see :mod:`.ledger`);
for pods that match, :meth:`Cycle.overlay` gives back what is held for them, row by row. Nothing is
added, removed or copied for an attempt, and a pod that matches nothing pays two look-ups.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation as ReservationObject
from koord.api.protocol import annotation, keys
from koord.api.protocol import reservations as protocol
from koord.base import log
from koord.base.errors import KoordError
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.config.args_gangs_and_quota import NAMESPACE_SCOPE
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin, PostFilterResult
from koord.controllers.scheduler.plugins.reservation import (
    preemption,
    queueing_hints,
    reasons,
)
from koord.controllers.scheduler.plugins.reservation.evaluation import (
    columnar,
    overlays,
    reserve_pod_placement,
)
from koord.controllers.scheduler.plugins.reservation.evaluation.cycle_state import (
    ReservationCycleState,
    state_of,
)
from koord.controllers.scheduler.plugins.reservation.evaluation.nominator import (
    ReservationNominator,
)
from koord.controllers.scheduler.plugins.reservation.evaluation.pre_allocation import (
    PreAllocationOptions,
)
from koord.controllers.scheduler.plugins.reservation.explain import metrics
from koord.controllers.scheduler.plugins.reservation.explain.diagnosis import ReservationDiagnoser
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    ALIGNED,
    PLUGIN,
    MatchedReservation,
    ReservationAllocation,
)
from koord.controllers.scheduler.plugins.reservation.objects import lifecycle
from koord.controllers.scheduler.plugins.reservation.objects.reservation_affinity import (
    ReservationRequest,
)
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    in_operating_mode,
    stands_for_reservation,
)
from koord.controllers.scheduler.plugins.reservation.state import fit
from koord.controllers.scheduler.plugins.reservation.state.pod_listener import (
    ReservationPodListener,
)
from koord.controllers.scheduler.plugins.reservation.state.reservation_index import ReservationIndex
from koord.controllers.scheduler.plugins.reservation.state.selector_index import SelectorIndex
from koord.controllers.scheduler.plugins.reservation.state.shape_matches import (
    PodMatches,
    ShapeMatches,
    matches_of,
)
from koord.controllers.scheduler.plugins.reservation.writers import reservation_writer
from koord.controllers.scheduler.plugins.reservation.writers.reservation_controller import (
    ReservationController,
)
from koord.controllers.scheduler.plugins.reservation.writers.surrogates import ReservationSurrogates
from koord.controllers.scheduler.queue.events import Action

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Hashable, Sequence

    from numpy.typing import NDArray

    from koord.base.metrics import MetricRegistry
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle, PendingPatch
    from koord.controllers.scheduler.framework.diagnosis import Diagnosis
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.plugins.reservation.state.reservation_info import (
        ReservationInfo,
    )
    from koord.controllers.scheduler.queue.events import HintedEvent

_LOG = log.get("scheduler")
_FIRST_CHOICE = 1000
# Where it has nothing to do for pods that have to do with no reservation.
_OF_RESERVATIONS = ("pre_filter", "filter", "score", "reserve", "pre_bind")


class Reservation(ReservationPodListener, ReservationSurrogates, Plugin):
    """Lets pods use what is held for them by reservations, and keeps all others out."""

    name: ClassVar[str] = PLUGIN
    reads = PodField.ANNOTATIONS
    restores_from: ClassVar[tuple[str, ...]] = (keys.RESERVATION_ALLOCATED,)
    listens_by_shape: ClassVar[bool] = False
    # NUMA and DEVICES for the plugins that have a say in which reservation a pod may use.
    depends: ClassVar[Aspect] = (
        Aspect.NODE | Aspect.PODS | Aspect.RESERVATIONS | Aspect.NUMA | Aspect.DEVICES
    )
    normalization: ClassVar[Normalization] = Normalization.DEFAULT
    filter_at_once: ClassVar[bool] = True
    score_at_once: ClassVar[bool] = True

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.book = ReservationIndex.of(handle.table)
        self.book.by_namespace |= args.reservation_scope == NAMESPACE_SCOPE
        skipped = fit.IgnoredResources(args.ignored_resources, args.ignored_resource_groups)
        self.chooser = ReservationNominator(
            skipped, skip_node=handle.gate("SkipReservationFitsNode")
        )
        self.explainer = ReservationDiagnoser(self.book)
        self.preemption = preemption.engine(args, handle) if args.enable_preemption else None
        self._options = PreAllocationOptions.of_args(args)
        self._index = SelectorIndex.of_args(args, self.book)
        self._node_labels = not handle.gate("OmitNodeLabelsForReservation")
        self.writer = reservation_writer.ReservationWriter(handle)
        handle.view(ReservationObject).on_change(self._put, self._replace, self._remove)
        handle.view(Pod).on_change(updated=self._follow)
        self.controller = ReservationController(
            handle,
            workers=args.controller_workers,
            gc_seconds=None if args.disable_garbage_collection else args.gc_duration_seconds,
            gc_interval_seconds=args.gc_interval_seconds,
            resync_seconds=args.resync_interval_seconds,
        )

    def join(self, plugins: Sequence[Any]) -> None:
        """Tells of the other plugins of the profile, of which some have a say in the choice."""
        self.chooser.join(plugins)

    def measure(self, into: MetricRegistry) -> None:
        """Begins to keep metrics."""
        self.controller.metrics = metrics.ReservationMetrics(into)

    def controllers(self) -> Sequence[tuple[str, Callable[[], Awaitable[object]]]]:
        """What runs while this process leads."""
        return (("reservation controller", self.controller.run),)

    def events(self) -> Sequence[HintedEvent]:
        """Which cluster events may help a pod that the plugin refused."""
        return queueing_hints.events(self._helps, self._concerns)

    def _concerns(self, pod: PodInfo) -> bool:
        """Whether a pod insists on a reservation, there is one for it, or it will be one."""
        if stands_for_reservation(pod.pod) or in_operating_mode(pod.pod):
            return True
        try:
            matches = self._matches(pod)
        except KoordError:
            return False
        return matches.request.required or bool(matches.by_row or matches.of_pod(pod.pod))

    def _helps(self, pod: PodInfo, uid: str) -> bool:
        """Whether a reservation that came or changed may be of use to a waiting pod."""
        record = self.book.get(uid)
        if record is None:
            return False
        try:
            matches = self._matches(pod)
        except KoordError:
            return False
        return matches.takes(pod.pod, record)

    debug_paths: ClassVar[Sequence[str]] = ("nodeReservations/:node",)

    def debug(self, path: Sequence[str]) -> object:
        """``nodeReservations/NODE``: the available reservations of a node."""
        if len(path) == 2 and path[0] == "nodeReservations":
            if self.handle.table.row(path[1]) is None:
                raise KeyError(f"cannot find node {path[1]}")
            return metrics.node_reservations(self.book, path[1])
        return super().debug(path)

    # What the API says.

    def _put(self, reservation: ReservationObject) -> None:
        self._take_in(reservation)
        self._judge_seats(reservation.metadata.uid)
        if lifecycle.is_available(reservation):
            self.handle.wake(queueing_hints.RESOURCE, Action.ADD, None, reservation)

    def _take_in(self, reservation: ReservationObject) -> None:
        self.book.put(reservation)
        record = self.book.get(reservation.metadata.uid)
        if record is not None and record.error:
            where = log.fields(reservation=reservation.metadata.name, error=record.error)
            _LOG.warning("a Reservation is of no use to pods", extra=where)

    def _replace(self, old: ReservationObject, reservation: ReservationObject) -> None:
        if old.metadata.uid != reservation.metadata.uid:
            self.book.remove(old.metadata.uid)
        self._take_in(reservation)
        if lifecycle.is_available(reservation) and _differs(old, reservation):
            self.handle.wake(queueing_hints.RESOURCE, Action.UPDATE, old, reservation)

    def _remove(self, reservation: ReservationObject, unknown: bool) -> None:
        self.book.remove(reservation.metadata.uid)

    def _follow(self, old: Pod, pod: Pod) -> None:
        if in_operating_mode(pod):
            record = self.book.get(pod.metadata.uid)
            if record is not None and record.pod is not None:
                was_available = record.available
                self.book.put_pod(pod)
                if record.available and not was_available:
                    self.handle.wake(queueing_hints.RESOURCE, Action.UPDATE, old, pod)

    # Filter.

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods that cannot name a reservation, as long as there is none."""
        nobody = not shape.annotations and not self.book.ledger.records
        return _OF_RESERVATIONS if nobody else ()

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Finds what matches the pod, and says so to the other plugins."""
        known = cycle.pod.shape.memo.get(PLUGIN)
        if known is not None and known.concerns_nobody(self.book) and not cycle.state:
            return None
        cycle.state.pop(PLUGIN, None)  # preemption's dry runs ask again
        if stands_for_reservation(cycle.pod.pod):
            return self._pre_filter_reserve_pod(cycle)
        try:
            matches = self._matches(cycle.pod)
        except KoordError as error:
            return reasons.failed(self._error_of(cycle.pod, error))
        attempt = PodMatches(matches, matches.of_pod(cycle.pod.pod))
        operates = in_operating_mode(cycle.pod.pod)
        if matches.by_row or attempt.own:
            self._show(cycle, attempt)
        elif attempt.request.required:
            return reasons.unresolvable(reasons.AFFINITY)
        elif not operates:
            return None
        cycle.state[PLUGIN] = ReservationCycleState(self.chooser, attempt, operates=operates)
        return None

    def _matches(self, pod: PodInfo) -> ShapeMatches:
        return matches_of(pod, self.book, PLUGIN, node_labels=self._node_labels, index=self._index)

    def _error_of(self, pod: PodInfo, error: KoordError) -> str:
        """The error under the pod's own name; its shape was made of another's."""
        try:
            ReservationRequest(pod.pod)
        except KoordError as own:
            return str(own)
        return str(error)

    def _show(self, cycle: Cycle, attempt: PodMatches) -> None:
        """Gives other plugins the reservations, and what of the node is held for the pod."""
        required = attempt.request.required
        cycle.own_rows = attempt.own_rows()
        if required:
            cycle.restrict(np.flatnonzero(attempt.mask(cycle.table.size)))

        def offers(row: int) -> list[MatchedReservation]:
            records = attempt.records(row)
            return [record.offer(required=required) for record in records]

        overlays.show(cycle, attempt)
        cycle.reservations = offers

    def _pre_filter_reserve_pod(self, cycle: Cycle) -> Rejection | None:
        record = self.book.get(cycle.pod.uid)
        if record is None or not isinstance(record.object, ReservationObject):
            return reasons.failed(reasons.NOT_FOUND)
        placement = reserve_pod_placement.ReservePodPlacement(
            record.object, cycle, self.book, self._options, self.chooser
        )
        cycle.state[PLUGIN] = ReservationCycleState(self.chooser, None, placement)
        return placement.begin()

    def applies(self, cycle: Cycle) -> bool:
        """Only to reserve pods, and to pods that match a reservation or insist on one."""
        return PLUGIN in cycle.state

    def answers_at_once(self, cycle: Cycle) -> bool:
        """Where columns say it all."""
        state = state_of(cycle)
        if state.placement is not None or state.operates:
            return False
        return self.chooser.is_columnar(cycle, state.attempt)

    def reserved_answers(self, cycle: Cycle) -> tuple[Any, ...]:
        """What is held for the pod, for a search that looks at few rows."""
        return self.chooser.question(cycle, state_of(cycle).attempt)

    def filter_generation(self, cycle: Cycle) -> Hashable:
        """A reserve pod's shape does not tell its policy, nor which pods it may take over."""
        placement = state_of(cycle).placement
        return placement.generation if placement is not None else 0

    def score_generation(self, cycle: Cycle) -> Hashable:
        """Which reservation is the first by order depends on which nodes are feasible."""
        state = state_of(cycle)
        if state.placement is not None:
            return state.placement.generation
        if cycle.board is None or not state.attempt.matches.orders:
            return -1
        feasible = cycle.board.refused == 0
        if cycle.allowed is not None:
            feasible[: len(cycle.allowed)] &= cycle.allowed
        state.first = state.attempt.first_by_order(feasible, cycle.table.rank)
        return state.first

    def score_stale_rows(self, cycle: Cycle, before: Hashable) -> NDArray[np.intp] | None:
        """The rows that were and are the first by order."""
        state = state_of(cycle)
        if state.placement is not None or not isinstance(before, int):
            return None
        return np.array([row for row in (before, state.first) if row >= 0], np.intp)

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """By row: whether the node, with what is held there for the pod, has room."""
        state = state_of(cycle)
        passes = np.ones(len(cycle.table.open[rows]), np.bool_)
        if state.placement is not None:
            state.placement.filter(rows, passes)
            return passes
        if state.operates:
            reserve_pod_placement.strike_conflicts(
                self.book.ledger, rows, passes, len(cycle.table.open)
            )
        if state.attempt.request.required:
            passes &= state.attempt.mask(len(cycle.table.open))[rows]
        if not self._is_few(rows):
            note = partial(self._note_order, cycle, state.attempt)
            return passes & columnar.passes(self.chooser, cycle, state.attempt, note)[rows]
        for place, row in enumerate(np.asarray(rows).tolist()):
            if state.attempt.records(row):
                passes[place] &= self.chooser.rejection(cycle, state.attempt, row) is None
            # Also where the last one went: what it was there for is no more.
            self._note_order(cycle, state.attempt, row)
        return passes

    def _is_few(self, rows: Rows) -> bool:
        return not isinstance(rows, slice) and len(rows) <= overlays.FEW

    def _note_order(self, cycle: Cycle, attempt: PodMatches, row: int) -> None:
        """Keeps which rows have a reservation with an order, before any is scored."""
        if any(record.order for record in attempt.records(row)):
            attempt.note_order(row, self.chooser.nominate(cycle, attempt, row))
        else:
            attempt.note_order(row, None)

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> list[Rejection]:
        """Why rows were refused."""
        state = state_of(cycle)
        found = []
        for row in rows.tolist():
            if state.placement is not None:
                refused = state.placement.rejection(row)
            elif state.operates and reserve_pod_placement.conflicts(self.book.ledger, row, ALIGNED):
                refused = reasons.unresolvable(reasons.POLICY_CONFLICT)
            else:
                refused = self.chooser.rejection(cycle, state.attempt, row)
            found.append(refused or reasons.refused(reasons.NONE_MEETS))
        return found

    # Score.

    def normalization_of(self, shape: PodShape) -> Normalization:
        """Of reserve pods scores count as they are."""
        return Normalization.NONE if protocol.is_reserve_pod(shape.pod) else self.normalization

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """By row: how well the pod fills the reservation it would get."""
        state = state_of(cycle)
        raw = np.zeros(len(cycle.table.open[rows]), np.int64)
        if state.placement is not None:
            state.placement.score(rows, raw)
            return raw
        if state.attempt.request.ignores:
            return raw
        if not self._is_few(rows):
            score = partial(self._score, cycle, state)
            return columnar.scores(self.chooser, cycle, state, score)[rows]
        for place, row in _places(rows, state.attempt):
            raw[place] = self._score(cycle, state, row)
        return raw

    def _score(self, cycle: Cycle, state: ReservationCycleState, row: int) -> int:
        if row == state.first:
            return _FIRST_CHOICE
        record = state.nominate_record(cycle, row)
        return self.chooser.score(cycle, record) if record is not None else 0

    # Reserve and what follows.

    def reserve(self, cycle: Cycle, row: int) -> Rejection | None:
        """Chooses the reservation the pod gets."""
        cycle.pod.allocations.pop(PLUGIN, None)  # of an attempt that broke off
        state = cycle.state.get(PLUGIN)
        if state is None:
            return None
        if state.placement is not None:
            refused: Rejection | None = state.placement.reserve(row)
            return refused
        record: ReservationInfo | None = state.nominate_record(cycle, row)
        if record is None:
            required = state.attempt.request.required and not state.attempt.request.ignores
            return reasons.refused(reasons.NONE_MEETS) if required else None
        if self.book.get(record.uid) is not record or not record.known:
            return reasons.failed(reasons.NOT_FOUND)
        if record.deleting:
            return reasons.failed(reasons.TERMINATING)
        cycle.pod.allocations[PLUGIN] = ReservationAllocation(record.uid, record.name)
        return None

    def unreserve(self, cycle: Cycle, row: int) -> None:
        """Takes the choice back, on the API too if it stands there."""
        allocation = cycle.pod.allocations.pop(PLUGIN, None)
        state = cycle.state.get(PLUGIN)
        if allocation is not None and state is not None and state.written:
            self.writer.take_back(cycle.pod, allocation)

    async def pre_bind(self, cycle: Cycle, row: int, changes: PendingPatch) -> None:
        """Writes into which reservation the pod goes."""
        allocation = cycle.pod.allocations.get(PLUGIN)
        if allocation is None:
            return
        state = cycle.state.get(PLUGIN)
        if state is not None:
            state.written = True
        if allocation.uid:
            value = protocol.ReservationAllocated(allocation.name, allocation.uid)
            changes.annotations[keys.RESERVATION_ALLOCATED] = annotation.text(value)
        if allocation.pre_allocated:
            record = self.book.get(cycle.pod.uid)
            name = record.name if record is not None else ""
            for uid in allocation.pre_allocated:
                await self.writer.take_over(uid, ReservationAllocation(cycle.pod.uid, name))

    async def bind(self, cycle: Cycle, node_name: str) -> bool:
        """Binds a reserve pod: the Reservation becomes available. False for other pods."""
        if not stands_for_reservation(cycle.pod.pod):
            return False
        record = self.book.get(cycle.pod.uid)
        if record is None or not isinstance(record.object, ReservationObject):
            raise KoordError(cycle.pod.key, "", cycle.pod.uid, "a Reservation that is still there")
        await self.writer.bind(record.object, node_name)
        return True

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Makes room if that is enabled, and says why the reservations for the pod are no use."""
        said = []
        if self.preemption is not None:
            result = self.preemption.post_filter(cycle, diagnosis)
            if result.success:
                return result
            said.append(result.message)
        if not stands_for_reservation(cycle.pod.pod):
            if diagnosis.early is None and not queueing_hints.HELPED.isdisjoint(diagnosis.plugins):
                # A reservation that is for the pod would help.
                diagnosis.also.add(PLUGIN)
            said.append(self._explain(cycle, diagnosis))
        return PostFilterResult(message=", ".join(text for text in said if text))

    def _explain(self, cycle: Cycle, diagnosis: Diagnosis) -> str:
        try:
            matches = self._matches(cycle.pod)
        except KoordError:
            return ""
        why = self.explainer.explain(cycle.pod.pod, matches, diagnosis)
        if matches.request.required:
            self.handle.event(cycle.pod.pod, "Warning", "FailedScheduling-Reservation", why.event)
        return why.message


def _differs(old: ReservationObject, new: ReservationObject) -> bool:
    """Whether pods may use a Reservation now that could not before."""
    return (
        not lifecycle.is_available(old)
        or old.spec != new.spec
        or old.metadata.labels != new.metadata.labels
        or old.metadata.annotations != new.metadata.annotations
    )


def _places(rows: Rows, attempt: PodMatches) -> list[tuple[int, int]]:
    """Those of a few rows that have reservations for the pod, with their places among these."""
    asked = np.asarray(rows).tolist()
    return [(place, row) for place, row in enumerate(asked) if attempt.records(row)]
