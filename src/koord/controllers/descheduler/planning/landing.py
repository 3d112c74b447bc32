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
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.descheduler.planning.plan import StayReason
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.explain.pod_explainer import as_it_came
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koord.api.kinds.meta import Object
    from koord.base.clock import Clock
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
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._moves: list[_Move] = []

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
            by_kind.setdefault(type(each), []).append(each)
        # Pods come last: they find their nodes, and plugins what they refer to.
        pods = by_kind.pop(Pod, [])
        listed: list[tuple[Any, list[Any]]] = [*by_kind.items(), (Pod, pods)]
        for kind, page in listed:
            views.view(kind).put_page(page)
        return cls(scheduler)

    @contextmanager
    def planning(self) -> Iterator[None]:
        """Moves count inside, and are taken back at the end."""
        with self._scheduler.world.accounts.what_if():
            try:
                yield
            finally:
                while self._moves:
                    move = self._moves.pop()
                    move.decider.retract(move.decision)

    def move(self, pod: Pod) -> Landing:
        """Where the pod would go from its node if it were evicted now; that counts from now on."""
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
        with accounts.what_if():
            accounts.drop(left)
            decision = self._decide(decider, pod, row)
        if decision.row < 0:
            assert decision.diagnosis is not None
            message = decision.diagnosis.message().strip()
            return Landing("", (), StayReason.NOWHERE, message)
        accounts.drop(left)
        requires = self._requires(decider, decision)
        refusal = decider.assume(decision)
        if refusal is not None:
            accounts.add(row, left)
            return Landing("", (), StayReason.NOWHERE, refusal.text)
        self._moves.append(_Move(left, row, decider, decision))
        return Landing(self._scheduler.world.table.name(decision.row), requires)

    def take_back(self) -> None:
        """Takes the last move back."""
        move = self._moves.pop()
        move.decider.retract(move.decision)
        self._scheduler.world.accounts.add(move.row, move.left)

    def _decide(self, decider: Decider, pod: Pod, row: int) -> Decision:
        """The best node but its own for what takes the pod's place."""
        shapes, table = self._scheduler.world.shapes, decider.table
        anew = as_it_came(pod)
        metadata = replace(anew.metadata, uid=_TWIN + pod.metadata.uid)
        asks = shapes.info(replace(anew, metadata=metadata))
        cycle = Cycle(PodInfo(asks.pod, asks.shape), table)
        others = np.flatnonzero(table.open[: table.size])
        cycle.restrict(others[others != row])
        return decider.attempt(cycle)

    def _requires(self, decider: Decider, decision: Decision) -> tuple[int, ...]:
        """Earlier moves whose pods would keep this one out if they had stayed.

        They are put back one after the other, on top of those that came: what still fits then fits
        whichever of the other moves are done.
        """
        accounts, row, asks = decider.accounts, decision.row, decision.cycle.pod
        everywhere = _minds_others(asks.pod)
        needed = []
        with accounts.what_if():
            for number, move in enumerate(self._moves):
                if not everywhere and move.row != row:
                    continue
                accounts.add(move.row, move.left)
                again = Cycle(PodInfo(asks.pod, asks.shape), decider.table)
                if decider.try_row(again, row).row < 0:
                    accounts.drop(move.left)
                    needed.append(number)
        return tuple(needed)


def _minds_others(pod: Pod) -> bool:
    """Whether pods on other nodes may keep it from a node."""
    return pod.spec.affinity is not None or bool(pod.spec.topology_spread_constraints)
