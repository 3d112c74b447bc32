# SPDX-License-Identifier: Apache-2.0
"""Migrations while everything goes wrong that may: what must hold of them at every write.

Deschedulers are killed, also between two writes, cut off and started again; for a while two of
them believe that they lead. Users make, pause and delete jobs, delete pods and change budgets.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
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
from koord.controllers.descheduler.migration.arbitration.job_index import group_of, is_open
from koord.controllers.descheduler.migration.arbitration.pod_index import (
    gang_of,
    is_active,
    is_ready,
)
from koord.controllers.descheduler.migration.course.job_status import (
    RESERVATION_SCHEDULED,
    TRUE,
    condition,
    eviction_began,
)
from koord.controllers.descheduler.migration.migration_args import SOFT_EVICTION
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kube.errors import ApiError, TransportError
from koord.kube.patches import Patch
from koord.kube.transport.messages import Request, Response, Stream, Transport
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
PER_NODE, GLOBALLY = 2, 4
SURGE_JOB = "descheduler.koordinator.sh/surge-job"
SURGE_COST = "descheduler.koordinator.sh/surge-deletion-cost"
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


class CheckedTransport:
    """A way to the server on which what a descheduler does is looked at."""

    def __init__(self, inner: Transport, check: Checks) -> None:
        self._inner, self._check = inner, check

    async def send(self, request: Request) -> Response:
        name, check = _evicted(request), self._check
        with check.noting():
            if name:
                check.before_eviction(name)
        spared = check.spare(name) if name else None
        answer = await self._inner.send(request)
        if request.method != "GET" and answer.status < 300:
            with check.noting():
                check.after_write()
                assert spared is None or spared, f"{name} goes, and its budget allows none"
        return answer

    async def open(self, request: Request) -> Stream:
        return await self._inner.open(request)


def _evicted(request: Request) -> str:
    """The pod that a request is to take away; empty for others."""
    parts = request.path.split("/")
    if request.method == "POST" and parts[-1] == "eviction":
        return parts[-2]
    return parts[-1] if request.method == "DELETE" and parts[-2] == "pods" else ""


class Checks:
    """What must hold.

    Attributes:
        leaders: how many deschedulers act; limits are each one's own.
        nodes: of pods, when their jobs began.
        placed: by job the pod that it had a place for when its eviction began.
        scaled: whether the Deployment that is surged was scaled by its owner.
    """

    def __init__(self, world: World) -> None:
        self._world, self.stored = world, world.stored
        self.leaders = 1
        self.nodes: dict[str, str] = {}
        self.placed: dict[str, str] = {}
        self.scaled = False
        self.evictions = 0
        self.broken: list[str] = []
        # Groups of jobs, one of which says that its pod is asked to go.
        self._begun: set[str] = set()

    @contextmanager
    def noting(self) -> Iterator[None]:
        """What does not hold is kept: a supervisor would take it for a failure like others."""
        try:
            yield
        except AssertionError as error:
            self.broken.append(str(error))

    def before_eviction(self, name: str) -> None:
        """A pod that is to have a place first has one; a gang's jobs say first that they begin."""
        self.evictions += 1
        jobs, pod = self.stored.all(PodMigrationJob), self.stored.get(Pod, name, "default")
        if pod is None:
            return
        own = [j for j in jobs if j.spec.pod_ref and j.spec.pod_ref.uid == pod.metadata.uid]
        opened = [job for job in own if is_open(job)]
        first = all(job.spec.mode == "ReservationFirst" for job in opened)
        if opened and first and not self._goes_for_deleted(pod, jobs):
            self._check_held(opened, pod)
        if not gang_of(pod):
            return
        # What has begun goes on: an eviction is tried again although a job is deleted.
        for group in {group_of(job) for job in opened} - {""} - self._begun:
            self._check_gang([job for job in jobs if group_of(job) == group], group)

    def _goes_for_deleted(self, pod: Pod, jobs: list[PodMigrationJob]) -> bool:
        """Whether it may be on its way for a job that its user has deleted since."""
        there = {job.metadata.uid for job in jobs}
        return any(uid == pod.metadata.uid and job not in there for job, uid in self.placed.items())

    def _check_held(self, jobs: list[PodMigrationJob], pod: Pod) -> None:
        """One of its jobs has a place for it, on another node."""
        places = self._places(jobs, pod)
        assert places, f"{pod.metadata.name} goes from {pod.spec.node_name}, and has no place"

    def _places(self, jobs: list[PodMigrationJob], pod: Pod) -> set[str]:
        """The other nodes on which its jobs hold something."""
        options = [job.spec.reservation_options for job in jobs]
        names = {each.reservation_ref.name for each in options if each and each.reservation_ref}
        held = [each for each in self.stored.all(Reservation) if each.metadata.name in names]
        return {each.status.node_name for each in held} - {"", pod.spec.node_name}

    def spare(self, name: str) -> bool | None:
        """Whether the budget of a pod that is ready lets it go now; None where none is asked."""
        pod = self.stored.get(Pod, name, "default")
        if pod is None or not (is_active(pod) and is_ready(pod)):
            return None
        budget = self.stored.get(PodDisruptionBudget, pod.metadata.labels["app"], "default")
        return None if budget is None else budget.status.disruptions_allowed > 0

    def _check_groups(self) -> None:
        """A gang begins to go once all have a place; one that was refused begins anew."""
        jobs = [job for job in self.stored.all(PodMigrationJob) if group_of(job)]
        before = self._begun
        self._begun = {group_of(job) for job in jobs if eviction_began(job.status)}
        for group in sorted(self._begun - before):
            self._check_gang([job for job in jobs if group_of(job) == group], group)

    def _check_gang(self, members: list[PodMigrationJob], group: str) -> None:
        assert len(members) == int(group.partition("/")[0]), "a gang is evicted in part"
        for job in members:
            found = condition(job.status, RESERVATION_SCHEDULED)
            direct = job.spec.mode == "EvictDirectly" and job.status.phase == "Running"
            placed = direct or (found is not None and found.status == TRUE)
            assert placed or job.status.phase == "Succeeded", f"{job.metadata.name} has no place"

    def after_write(self) -> None:
        self._check_groups()
        jobs = [j for j in self.stored.all(PodMigrationJob) if j.status.phase == "Running"]
        uids = Counter(job.spec.pod_ref.uid for job in jobs if job.spec.pod_ref)
        assert all(number == 1 for number in uids.values()), f"two jobs move one pod: {uids}"
        pods = self.stored.all(Pod)
        for pod in pods:
            if pod.spec.node_name:
                self.nodes[pod.metadata.uid] = pod.spec.node_name
        self._note_placed(jobs, pods)
        solo = [pod for pod in pods if pod.metadata.labels["app"] == "solo" and is_active(pod)]
        assert self.scaled or any(map(is_ready, solo)), "a pod that is surged has left a gap"
        if self.leaders > 1:
            return
        assert len(jobs) <= GLOBALLY, f"{len(jobs)} run, {GLOBALLY} may"
        here = {pod.metadata.uid for pod in pods}
        nodes = Counter(self.nodes.get(uid) for uid in uids if uid in here)
        assert all(n <= PER_NODE for n in nodes.values()), f"too many of a node: {nodes}"

    def _note_placed(self, jobs: list[PodMigrationJob], pods: list[Pod]) -> None:
        """Which jobs have a place at the write that says that they are about to evict."""
        there = {pod.metadata.uid: pod for pod in pods}
        for job in jobs:
            pod = there.get(job.spec.pod_ref.uid) if job.spec.pod_ref else None
            if pod is not None and eviction_began(job.status) and self._places([job], pod):
                self.placed[job.metadata.uid] = pod.metadata.uid


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

    def _new(self) -> Descheduler:
        checked = CheckedTransport(self.world.plane.transport(), self.checks)
        way = StormyTransport(checked, self._weather)
        return Descheduler(way, self.world.clock, self.world.args, silent=True)

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
            # Who deletes a job that has asked softly is left with what it has written.
            if keys.EVICT_POLICY not in job.metadata.labels:
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
            asked = {SURGE_COST, keys.SOFT_EVICTION} & pod.metadata.annotations.keys()
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
