# SPDX-License-Identifier: Apache-2.0
"""Migrations while everything goes wrong that may: what must hold of them at every write.

Deschedulers are killed, also between two writes, cut off and started again; for a while two of
them believe that they lead. Users make, pause and delete jobs, delete pods and change budgets.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from typing import Any, NamedTuple

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.workloads import Deployment, PodDisruptionBudget
from koord.api.protocol import keys
from koord.base import faults, rng
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.faults import FaultPlan, FaultRule
from koord.controllers.descheduler.framework.points import PodEviction
from koord.controllers.descheduler.migration.arbitration.job_index import is_open
from koord.controllers.descheduler.migration.arbitration.pod_index import (
    is_ready,
)
from koord.controllers.descheduler.migration.migration_args import SOFT_EVICTION
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.errors import ApiError, TransportError
from koord.kube.patches import Patch
from tests.controllers.descheduler.migration.history_checks import (
    CheckedTransport,
    Checks,
    SenderTransport,
)
from tests.controllers.descheduler.migration.world import NOW, Descheduler, World
from tests.controllers.scheduler.histories.weather import STORMS, StormyTransport, Weather

POINTS = tuple(
    f"descheduler.migration.{name}"
    for name in ("annotate", "annotate.done", "name", "name.done", "reference", "reference.done",
                 "status", "status.done", "delete", "create", "evict", "evicted", "reserve",
                 "reserve.done", "release", "release.done", "give", "give.done", "surge.up",
                 "surge.up.done", "surge.cost", "surge.down", "surge.down.done", "surge.undo",
                 "surge.undo.done", "surge.restore", "order", "revoke")
)  # fmt: skip
"""Where a write of a migration may fail."""
ARGS: dict[str, Any] = {
    "maxMigratingPerNode": 2, "maxMigratingGlobally": 4, "maxMigratingPerWorkload": 3,
    "maxUnavailablePerWorkload": 3, "skipCheckExpectedReplicas": True, "evictBurst": 4,
    "objectLimiters": {"workload": {"duration": "10s", "burst": 4}}, "defaultJobTTL": "90s",
}  # fmt: skip
SURGE_JOB = "descheduler.koordinator.sh/surge-job"
SURGE_COST = "descheduler.koordinator.sh/surge-deletion-cost"
# What no pod has in the end.
_ASKED = {SURGE_COST, keys.SOFT_EVICTION, keys.SOFT_EVICTION_JOB}
_QUIET_SECONDS, _LOOK_SECONDS = 420.0, 10.0
# In a row at which nothing is open or left.
_ENOUGH_LOOKS = (3, 3, 3, 30)


class ClusterShape(NamedTuple):
    """How large a history's cluster is.

    Attributes:
        nodes: how many.
        web: pods under a budget.
        budget: how many of them have to be there.
        api: pods without one.
        train: pods of a gang.
    """

    nodes: int
    web: int
    budget: int
    api: int
    train: int

    @property
    def sizes(self) -> dict[str, int]:
        """By workload its pods; ``solo`` is surged."""
        return {"web": self.web, "api": self.api, "train": self.train, "solo": 1}


# Small ones more often than not: their histories cost less, and are as full.
SHAPES = (
    ClusterShape(nodes=3, web=3, budget=2, api=1, train=2),
    ClusterShape(nodes=4, web=4, budget=2, api=2, train=2),
    ClusterShape(nodes=3, web=3, budget=2, api=2, train=3),
    ClusterShape(nodes=5, web=5, budget=3, api=4, train=3),
)


def shape_of(seed: int) -> ClusterShape:
    """The cluster of a history."""
    return SHAPES[rng.stream(seed, "shape").randrange(len(SHAPES))]


def _gang(size: int) -> dict[str, Any]:
    name = "gang.scheduling.koordinator.sh/name"
    least = "gang.scheduling.koordinator.sh/min-available"
    return {"annotations": {name: "train", least: str(size)}}


class MigrationHistory:
    """One history."""

    def __init__(
        self, plane: EmbeddedControlPlane, clock: VirtualClock, shape: ClusterShape
    ) -> None:
        self._draw = random.Random()
        self._shape = shape
        self.world = World(plane, clock, silent=True, **ARGS)
        self.checks = Checks(self.world)
        self._weather = Weather()
        self._second: Descheduler | None = None
        self._number = 0
        self.world.descheduler = self._new()

    def _way(self) -> SenderTransport:
        """Of a process, to the server."""
        checked = CheckedTransport(self.world.plane.transport(), self.checks)
        return SenderTransport(StormyTransport(checked, self._weather))

    def _new(self) -> Descheduler:
        way = self._way()
        process = Descheduler(way, self.world.clock, self.world.args, silent=True)
        way.follow(process.informers.view(PodMigrationJob))
        return process

    async def start(self) -> None:
        await self.world.start()
        sizes = self._shape.sizes
        for number in range(self._shape.nodes):
            await self.world.node(f"n{number}", cpu="8")
        await self.world.deployment("web", sizes["web"])
        await self.world.deployment("api", sizes["api"])
        await self.world.deployment("train", sizes["train"], **_gang(sizes["train"]))
        asks = {"annotations": {"descheduler.koordinator.sh/surge": "true"}}
        await self.world.deployment("solo", sizes["solo"], metadata=asks)
        await self.world.running(sum(sizes.values()))
        await self.world.budget("web", self._shape.budget)

    async def stop(self) -> None:
        await self.world.stop()

    async def play(self, seed: int, steps: int) -> None:
        """Everything from here on follows from the seed."""
        self._draw.seed(seed)
        for _ in range(steps):
            step = self._draw.choice(self.STEPS)
            with suppress(ApiError):
                await step(self)
            assert not self.checks.broken, self.checks.broken[0]
            await asyncio.sleep(self._draw.choice([0.0, 0.3, 1.0, 5.0, 20.0]))
        await self.quiet()

    async def evict(self) -> None:
        pods = await self.world.pods()
        for pod in self._draw.sample(pods, min(len(pods), 2)):
            await self.world.descheduler.plugin.evict(pod, PodEviction("History", "by lot"))

    async def make_job(self) -> None:
        pods = await self.world.pods()
        if pods:
            self._number += 1
            mode = self._draw.choice(["ReservationFirst", "ReservationFirst", "EvictDirectly"])
            name = self._draw.choice(pods).metadata.name
            policy = {keys.EVICT_POLICY: SOFT_EVICTION} if self._draw.random() < 0.15 else {}
            await self.world.job(
                f"user-{self._number}", name, mode=mode, ttl="2m", metadata={"labels": policy}
            )

    async def delete_job(self) -> None:
        jobs = await self.world.jobs()
        if jobs:
            job = self._draw.choice(jobs)
            self.checks.job_deleted(job.metadata.name)
            await self.world.client.delete(PodMigrationJob, job.metadata.name)

    async def pause_job(self) -> None:
        jobs = await self.world.jobs()
        if jobs:
            change = Patch.merge({"spec": {"paused": self._draw.random() < 0.5}})
            name = self._draw.choice(jobs).metadata.name
            await self.world.client.patch(PodMigrationJob, name, change)

    async def take_label(self) -> None:
        """Somebody takes from a reservation what says that it comes first."""
        held = await self.world.reservations()
        if held:
            change = Patch.merge({"metadata": {"labels": {keys.RESERVATION_ORDER: None}}})
            await self.world.client.patch(
                Reservation, self._draw.choice(held).metadata.name, change
            )

    async def abort_job(self) -> None:
        jobs = [job for job in await self.world.jobs() if is_open(job)]
        if jobs:
            name, change = self._draw.choice(jobs).metadata.name, {"status": {"phase": "Aborted"}}
            await self.world.client.patch(
                PodMigrationJob, name, Patch.merge(change), subresource="status"
            )

    async def move_solo(self) -> None:
        """The pod that only a surge may move."""
        pods = [p for p in await self.world.pods() if p.metadata.labels["app"] == "solo"]
        if pods:
            self._number += 1
            await self.world.job(f"solo-{self._number}", pods[0].metadata.name, ttl="2m")

    async def scale_solo(self) -> None:
        """Its owner has another number in mind for a while."""
        if self._draw.random() < 0.7:
            return
        self.checks.scaled = True
        for number in (self._draw.choice([2, 3]), 1):
            change = Patch.merge({"spec": {"replicas": number}})
            await self.world.client.patch(Deployment, "solo", change, "default")
            await asyncio.sleep(self._draw.choice([0.0, 5.0, 20.0]))

    async def delete_pod(self) -> None:
        pods = [p for p in await self.world.pods() if p.metadata.labels["app"] != "solo"]
        if pods:
            await self.world.client.delete(Pod, self._draw.choice(pods).metadata.name, "default")

    async def change_budget(self) -> None:
        size = self._shape.web
        least = self._draw.choice([size - 2, self._shape.budget, size])
        change = {"spec": {"minAvailable": least}}
        await self.world.client.patch(PodDisruptionBudget, "web", Patch.merge(change), "default")

    async def change_weather(self) -> None:
        self._weather.change(STORMS[self._draw.choice(sorted(STORMS))], self._draw.getrandbits(32))

    async def restart(self) -> None:
        await self.world.descheduler.stop()
        self.world.descheduler = self._new()
        await self.world.descheduler.start()

    async def lead_twice(self) -> None:
        """For a while another one believes that it leads too."""
        self.checks.leaders = 2
        self._second = self._new()
        await self._second.start()
        await asyncio.sleep(self._draw.choice([1.0, 10.0]))
        await self._second.stop()
        # What both let pass has to end before limits are one's own again.
        await self._ended()
        self.checks.leaders = 1

    async def _ended(self) -> None:
        async with asyncio.timeout(1800):
            while any(j.status.phase == "Running" for j in await self.world.jobs()):
                self._weather.change(STORMS["calm"])
                await self._unpause()
                await asyncio.sleep(5.0)

    async def _unpause(self) -> None:
        for job in await self.world.jobs():
            if job.spec.paused:
                change = Patch.merge({"spec": {"paused": False}})
                with suppress(ApiError):
                    await self.world.client.patch(PodMigrationJob, job.metadata.name, change)

    async def quiet(self) -> None:
        """Nothing goes wrong any more: all ends, and nothing is left."""
        self._weather.change(STORMS["calm"])
        await self._unpause()
        least = Patch.merge({"spec": {"minAvailable": self._shape.budget}})
        await self.world.client.patch(PodDisruptionBudget, "web", least, "default")
        before: set[str] = set()
        # Now and then until jobs that have ended are deleted, too.
        looks, enough = 0, self._draw.choice(_ENOUGH_LOOKS)
        for _ in range(int(_QUIET_SECONDS / _LOOK_SECONDS)):
            await asyncio.sleep(_LOOK_SECONDS)
            after = await self._forsaken()
            assert not before & after, f"reservations of jobs that ended: {before & after}"
            before = after
            looks = 0 if await self._unsettled() else looks + 1
            if looks == enough:
                break
        assert not self.checks.broken, self.checks.broken[0]
        left = await self._unsettled()
        assert not left, left[0]

    async def _unsettled(self) -> list[str]:
        """What has to end once nothing goes wrong any more."""
        found = [f"never ends: {j.metadata.name}" for j in await self.world.jobs() if is_open(j)]
        held = await self.world.reservations()
        found += [f"left: {each.title}" for each in held if not each.status.current_owners]
        pods = await self.world.pods()
        sizes = Counter(pod.metadata.labels["app"] for pod in pods if is_ready(pod))
        if sizes != self._shape.sizes:
            found.append(f"workloads are not whole: {sizes}")
        solo = self.world.stored.get(Deployment, "solo", "default")
        if solo is None or SURGE_JOB in solo.metadata.annotations:
            found.append("a surge is left")
        for pod in pods:
            asked = {
                SURGE_COST,
                keys.SOFT_EVICTION,
                keys.SOFT_EVICTION_JOB,
            } & pod.metadata.annotations.keys()
            found += [f"{pod.metadata.name} has {name}" for name in sorted(asked)]
        return found

    async def _forsaken(self) -> set[str]:
        """Reservations that nobody has taken, of jobs that did not end well."""
        failed = {
            job.metadata.uid
            for job in await self.world.jobs()
            if job.status.phase in ("Failed", "Aborted")
        }
        return {
            each.metadata.name
            for each in await self.world.reservations()
            if not each.status.current_owners
            and any(owner.uid in failed for owner in each.metadata.owner_references)
        }

    STEPS = (evict, evict, evict, make_job, make_job, move_solo, move_solo, scale_solo,
             delete_job, pause_job, abort_job, take_label, delete_pod, change_budget,
             change_weather, change_weather, restart, lead_twice)  # fmt: skip


class StartedHistory:
    """A cluster in which a history is about to begin; several may play from here, each in a fork.

    Args:
        make: the history in a world of a server and a clock.
    """

    def __init__(
        self, make: Callable[[EmbeddedControlPlane, VirtualClock], MigrationHistory]
    ) -> None:
        clock = VirtualClock(NOW)
        self._runner = asyncio.Runner(loop_factory=lambda: VirtualLoop(clock))
        self._plane = EmbeddedControlPlane(Options(port=None, clock=clock, seed=1))

        async def start() -> MigrationHistory:
            await self._plane.start()
            history = make(self._plane, clock)
            await history.start()
            return history

        self.history = self._runner.run(start())

    def play(self, seed: int, steps: int) -> FaultPlan:
        """The history of a seed; which fault points it passed.

        Raises:
            AssertionError: what does not hold.
        """
        lost = FaultRule(rate=0.05, error=TransportError("cut off at a fault point"))
        plan = FaultPlan(seed=seed, rules=dict.fromkeys(POINTS, lost))
        with faults.inject(plan):
            self._runner.run(self.history.play(seed, steps))
        return plan

    def close(self) -> None:
        """Ends all."""

        async def stop() -> None:
            await self.history.stop()
            await self._plane.stop()

        with self._runner:
            self._runner.run(stop())


def started(shape: ClusterShape) -> StartedHistory:
    """A cluster of a shape."""
    return StartedHistory(lambda plane, clock: MigrationHistory(plane, clock, shape))


def live(seed: int, steps: int) -> FaultPlan:
    """One history; which fault points it passed.

    Raises:
        AssertionError: what does not hold.
    """
    with closing(started(shape_of(seed))) as world:
        return world.play(seed, steps)
