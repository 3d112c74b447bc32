# SPDX-License-Identifier: Apache-2.0
"""Where a pod would land if it were evicted: the scheduler's filters and scores, as a library.

The scheduler's framework and plugins are imported here and nowhere else in the descheduler. The
moves of a plan count in the scheduler's own accounts while it is made, and are all taken back.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec.structs import replace

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.descheduler.planning.library.held_views import HeldViews, as_held
from koord.controllers.descheduler.planning.library.moved_pods import MovedPods, minds_others
from koord.controllers.descheduler.planning.plan import StayReason
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.explain.pod_explainer import as_it_came
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from koord.api.kinds.meta import Object
    from koord.base.clock import Clock
    from koord.base.supervision import Supervisor
    from koord.controllers.cluster.views import InformerViews
    from koord.controllers.descheduler.planning.library.held_views import HeldChanges
    from koord.controllers.scheduler.config.load import SchedulerConfiguration
    from koord.controllers.scheduler.decision.decider import Decider, Decision
    from koord.controllers.scheduler.registry import Registry

_TWIN = "moved-"


class _Move(NamedTuple):
    """A move that counts: who left which row, and the decision for its twin."""

    left: PodInfo
    row: int
    decider: Decider
    decision: Decision


class Landing(NamedTuple):
    """Where a pod goes, or why nowhere.

    Attributes:
        node: empty for nowhere.
        requires: which earlier moves of this plan it could not do without, counted from 0.
        reason: why nowhere.
        message: the same in one line.
    """

    node: str
    requires: tuple[int, ...] = ()
    reason: StayReason | None = None
    message: str = ""


class LandingNodes:
    """A scheduler without queue and bindings, asked where pods would go.

    Args:
        scheduler: over views that hold the cluster; none of its loops runs.
        changes: of the cluster, which wait while a plan is made; None where nothing happens.
    """

    def __init__(self, scheduler: Scheduler, changes: HeldChanges | None = None) -> None:
        self._scheduler, self._changes = scheduler, changes
        self._moves: list[_Move] = []
        self._moved = MovedPods()

    @classmethod
    def of(
        cls,
        objects: Iterable[Object],
        configuration: SchedulerConfiguration,
        registry: Registry,
        clock: Clock,
    ) -> LandingNodes:
        """Over objects of a snapshot.

        Args:
            objects: all that the scheduler's plugins may look up, in any order.
            configuration: of the scheduler, checked.
            registry: its plugins.
            clock: the time.
        """
        views = LocalViews()
        name = configuration.profiles[0].scheduler_name
        world = ClusterState(views, clock, scheduler_name=name)
        scheduler = Scheduler(world, configuration.profiles, registry, configuration.queue)
        by_kind: dict[type[Object], list[Object]] = {Node: []}
        for each in objects:
            held = as_held(each) if isinstance(each, Reservation) else each
            # Pods may be cut to what is read of them.
            kind = Pod if isinstance(each, Pod) else type(each)
            by_kind.setdefault(kind, []).append(held)
        # Pods come last: they find their nodes, and plugins what they refer to.
        pods = by_kind.pop(Pod, [])
        listed: list[tuple[Any, list[Any]]] = [*by_kind.items(), (Pod, pods)]
        for kind, page in listed:
            views.view(kind).put_page(page)
        return cls(scheduler)

    @classmethod
    def following(
        cls,
        views: InformerViews,
        configuration: SchedulerConfiguration,
        registry: Registry,
        clock: Clock,
        supervisor: Supervisor,
    ) -> LandingNodes:
        """Over a program's informers: its columns follow what happens, and wait while a plan is
        made.

        Args:
            views: asked for the kinds that the scheduler's plugins look up; run by the program,
                which hands on nodes and pods as the scheduler counts them.
            configuration: of the scheduler, checked.
            registry: its plugins.
            clock: the time.
            supervisor: counts what cannot be taken in.
        """
        held = HeldViews(views, supervisor)
        name = configuration.profiles[0].scheduler_name
        world = ClusterState(held, clock, scheduler_name=name, supervisor=supervisor)
        scheduler = Scheduler(world, configuration.profiles, registry, configuration.queue)
        return cls(scheduler, held.changes)

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Moves count inside, and are taken back at the end; changes of the cluster wait for it."""
        if self._changes is not None:
            self._changes.held = True
        try:
            with self._scheduler.world.accounts.what_if():
                try:
                    yield
                finally:
                    while self._moves:
                        self._pop()
        finally:
            if self._changes is not None:
                self._changes.release()

    def move(self, pod: Pod, avoid: Collection[str] = (), together: int = 0) -> Landing:
        """Where the pod would go from its node if it were evicted now; that counts from now on.

        Args:
            pod: which.
            avoid: names of nodes that are to be left alone, whether or not they would take it.
            together: so many last moves are of pods that go at the same time: what they leave is
                no place for this one.
        """
        accounts = self._scheduler.world.accounts
        decider = self._scheduler.deciders.get(pod.spec.scheduler_name)
        if decider is None:
            served = ", ".join(sorted(self._scheduler.deciders))
            message = f"schedulerName is {pod.spec.scheduler_name}, the configuration has {served}"
            return Landing("", (), StayReason.UNSERVED, message)
        left = accounts.get(pod.metadata.uid)
        if left is None:
            message = f"the scheduler does not count it on {pod.spec.node_name}"
            return Landing("", (), StayReason.NOWHERE, message)
        row = left.row
        own = self._moves[len(self._moves) - together :]
        with accounts.what_if():
            accounts.drop(left)
            for move in own:
                accounts.add(move.row, move.left)
            decision = self._decide(decider, pod, row, avoid)
        if decision.row < 0:
            assert decision.diagnosis is not None
            message = decision.diagnosis.message().strip()
            if avoid:
                message += f" Above thresholds with it: {len(avoid)} nodes."
            return Landing("", (), StayReason.NOWHERE, message)
        accounts.drop(left)
        requires = self._requires(decider, decision, together)
        refusal = decider.assume(decision)
        if refusal is not None:
            accounts.add(row, left)
            return Landing("", (), StayReason.NOWHERE, refusal.text)
        self._moved.push(row, pod)
        self._moves.append(_Move(left, row, decider, decision))
        return Landing(self._scheduler.world.table.name(decision.row), requires)

    def take_back(self) -> None:
        """Takes the last move back."""
        move = self._pop()
        self._scheduler.world.accounts.add(move.row, move.left)

    def _pop(self) -> _Move:
        move = self._moves.pop()
        self._moved.pop()
        move.decider.retract(move.decision)
        return move

    def refusal(self, pod: Pod, target: str, coming: Iterable[tuple[Pod, str]]) -> str:
        """Why a node would not take a pod now, in one line; empty where it would.

        Args:
            pod: on another node.
            target: the node.
            coming: pods that go elsewhere, and where; they do not count there yet.
        """
        world = self._scheduler.world
        row = world.table.row(target)
        decider = self._scheduler.deciders.get(pod.spec.scheduler_name)
        if row is None or decider is None:
            return f"node {target} is gone"
        everywhere = minds_others(pod)
        placed: list[tuple[Decider, Decision]] = []
        with world.accounts.what_if():
            for other, node in coming:
                if everywhere or node == target:
                    placed += self._placed(other, node)
            left = world.accounts.get(pod.metadata.uid)
            if left is not None:
                world.accounts.drop(left)
            decision = decider.try_row(Cycle(self._twin(pod), decider.table), row)
            for each, made in reversed(placed):
                each.retract(made)
        if decision.row >= 0:
            return ""
        assert decision.diagnosis is not None
        return f"node {target} takes it no more: {decision.diagnosis.message().strip()}"

    def _placed(self, pod: Pod, node: str) -> Iterator[tuple[Decider, Decision]]:
        """Counts a pod on the node where it goes, if that takes it."""
        row = self._scheduler.world.table.row(node)
        decider = self._scheduler.deciders.get(pod.spec.scheduler_name)
        if row is None or decider is None:
            return
        decision = decider.try_row(Cycle(self._twin(pod), decider.table), row)
        if decision.row >= 0 and decider.assume(decision) is None:
            yield decider, decision

    def _twin(self, pod: Pod) -> PodInfo:
        """What takes the pod's place, as it would come."""
        anew = as_it_came(pod)
        metadata = replace(anew.metadata, uid=_TWIN + pod.metadata.uid)
        asks = self._scheduler.world.shapes.info(replace(anew, metadata=metadata))
        return PodInfo(asks.pod, asks.shape)

    def _decide(self, decider: Decider, pod: Pod, row: int, avoid: Collection[str]) -> Decision:
        """The best node but its own, and those avoided, for what takes the pod's place."""
        table = decider.table
        cycle = Cycle(self._twin(pod), table)
        others = table.open[: table.size].astype(np.bool_)
        others[[row, *(each for name in avoid if (each := table.row(name)) is not None)]] = False
        cycle.restrict(np.flatnonzero(others))
        return decider.attempt(cycle)

    def _requires(self, decider: Decider, decision: Decision, together: int) -> tuple[int, ...]:
        """Earlier moves whose pods would keep this one out if they had stayed.

        They are put back one after the other, on top of those that came: what still fits then fits
        whichever of the other moves are done. First those that go at the same time, beside which
        the place was found.
        """
        accounts, row, asks = decider.accounts, decision.row, decision.cycle.pod
        numbers = self._moved.of_row(row)
        if minds_others(asks.pod):
            numbers |= self._moved.minded_by(asks.pod)
        first = len(self._moves) - together
        left = [
            (number, self._moves[number])
            for number in sorted(numbers, key=lambda number: (number < first, number))
        ]
        if not left:
            return ()

        def fits() -> bool:
            again = Cycle(PodInfo(asks.pod, asks.shape), decider.table)
            return decider.try_row(again, row).row >= 0

        with accounts.what_if():
            for _, move in left:
                accounts.add(move.row, move.left)
            # Mostly it needs none of them, which is one question.
            if fits():
                return ()
        needed = []
        with accounts.what_if():
            for number, move in left:
                accounts.add(move.row, move.left)
                if not fits():
                    accounts.drop(move.left)
                    needed.append(number)
        return tuple(sorted(needed))
