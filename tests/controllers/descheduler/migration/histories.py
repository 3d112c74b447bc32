# SPDX-License-Identifier: Apache-2.0
"""Migrations while everything goes wrong that may: what must hold of them at every write.

Deschedulers are killed, also between two writes, cut off and started again; for a while two of
them believe that they lead. Users make, pause and delete jobs, delete pods and change budgets.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.workloads import Deployment, PodDisruptionBudget
from koord.base import faults
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
                 "surge.undo.done")
)  # fmt: skip
"""Where a write of a migration may fail."""
GANG = {
    "annotations": {
        "gang.scheduling.koordinator.sh/name": "train",
        "gang.scheduling.koordinator.sh/min-available": "3",
    }
}
ARGS: dict[str, Any] = {
    "maxMigratingPerNode": 2, "maxMigratingGlobally": 4, "maxMigratingPerWorkload": 3,
    "maxUnavailablePerWorkload": 3, "skipCheckExpectedReplicas": True, "evictBurst": 4,
    "objectLimiters": {"workload": {"duration": "10s", "burst": 4}}, "defaultJobTTL": "90s",
}  # fmt: skip
PER_NODE, GLOBALLY = 2, 4
_SIZES = {"web": 5, "api": 4, "train": 3, "solo": 1}
SURGE_JOB = "descheduler.koordinator.sh/surge-job"
SURGE_COST = "descheduler.koordinator.sh/surge-deletion-cost"
_QUIET_SECONDS, _LOOK_SECONDS = 420.0, 10.0


class CheckedTransport:
    """A way to the server on which what a descheduler does is looked at."""

    def __init__(self, inner: Transport, check: Checks) -> None:
        self._inner, self._check = inner, check

    async def send(self, request: Request) -> Response:
        if request.method == "POST" and request.path.endswith("/eviction"):
            with self._check.noting():
                await self._check.before_eviction(request.path.split("/")[-2])
        answer = await self._inner.send(request)
        if request.method != "GET" and answer.status < 300:
            with self._check.noting():
                await self._check.after_write()
        return answer

    async def open(self, request: Request) -> Stream:
        return await self._inner.open(request)


class Checks:
    """What must hold.

    Attributes:
        leaders: how many deschedulers act; limits are each one's own.
        nodes: of pods, when their jobs began.
        scaled: whether the Deployment that is surged was scaled by its owner.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self.leaders = 1
        self.nodes: dict[str, str] = {}
        self.scaled = False
        self.evictions = 0
        self.broken: list[str] = []

    @contextmanager
    def noting(self) -> Iterator[None]:
        """What does not hold is kept: a supervisor would take it for a failure like others."""
        try:
            yield
        except AssertionError as error:
            self.broken.append(str(error))

    async def before_eviction(self, name: str) -> None:
        """A gang's first eviction waits for the places of all."""
        self.evictions += 1
        jobs = await self._world.jobs()
        with suppress(ApiError):
            pod = await self._world.client.get(Pod, name, "default")
            if not gang_of(pod):
                return
            own = [j for j in jobs if j.spec.pod_ref and j.spec.pod_ref.uid == pod.metadata.uid]
            groups = {group_of(job) for job in own if is_open(job)}
            for group in groups - {""}:
                members = [job for job in jobs if group_of(job) == group]
                others = [job for job in members if job not in own]
                # What has begun goes on: an eviction is tried again although a job is deleted.
                if not any(eviction_began(job.status) for job in others):
                    self._check_gang(members, group)

    def _check_gang(self, members: list[PodMigrationJob], group: str) -> None:
        assert len(members) == int(group.partition("/")[0]), "a gang is evicted in part"
        for job in members:
            found = condition(job.status, RESERVATION_SCHEDULED)
            direct = job.spec.mode == "EvictDirectly" and job.status.phase == "Running"
            placed = direct or (found is not None and found.status == TRUE)
            assert placed or job.status.phase == "Succeeded", f"{job.metadata.name} has no place"

    async def after_write(self) -> None:
        jobs = [job for job in await self._world.jobs() if job.status.phase == "Running"]
        uids = Counter(job.spec.pod_ref.uid for job in jobs if job.spec.pod_ref)
        assert all(number == 1 for number in uids.values()), f"two jobs move one pod: {uids}"
        pods = (await self._world.client.list(Pod, namespace="default")).items
        for pod in pods:
            if pod.spec.node_name:
                self.nodes[pod.metadata.uid] = pod.spec.node_name
        solo = [pod for pod in pods if pod.metadata.labels["app"] == "solo" and is_active(pod)]
        assert self.scaled or any(map(is_ready, solo)), "a pod that is surged has left a gap"
        if self.leaders > 1:
            return
        assert len(jobs) <= GLOBALLY, f"{len(jobs)} run, {GLOBALLY} may"
        here = {pod.metadata.uid for pod in pods}
        nodes = Counter(self.nodes.get(uid) for uid in uids if uid in here)
        assert all(n <= PER_NODE for n in nodes.values()), f"too many of a node: {nodes}"


class MigrationHistory:
    """One history."""

    def __init__(self, plane: EmbeddedControlPlane, clock: VirtualClock, seed: int) -> None:
        self._draw = random.Random(seed)
        self.world = World(plane, clock, **ARGS)
        self.checks = Checks(self.world)
        self._weather = Weather()
        self._second: Descheduler | None = None
        self._number = 0
        self.world.descheduler = self._new()

    def _new(self) -> Descheduler:
        checked = CheckedTransport(self.world.plane.transport(), self.checks)
        way = StormyTransport(checked, self._weather)
        return Descheduler(way, self.world.clock, self.world.args)

    async def start(self) -> None:
        await self.world.start()
        for number in range(5):
            await self.world.node(f"n{number}", cpu="8")
        await self.world.deployment("web", _SIZES["web"])
        await self.world.deployment("api", _SIZES["api"])
        await self.world.deployment("train", _SIZES["train"], **GANG)
        asks = {"annotations": {"descheduler.koordinator.sh/surge": "true"}}
        await self.world.deployment("solo", _SIZES["solo"], metadata=asks)
        await self.world.running(sum(_SIZES.values()))
        await self.world.budget("web", 3)

    async def play(self, steps: int) -> None:
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
            await self.world.job(f"user-{self._number}", name, mode=mode, ttl="2m")

    async def delete_job(self) -> None:
        jobs = await self.world.jobs()
        if jobs:
            name = self._draw.choice(jobs).metadata.name
            await self.world.client.delete(PodMigrationJob, name)

    async def pause_job(self) -> None:
        jobs = await self.world.jobs()
        if jobs:
            change = Patch.merge({"spec": {"paused": self._draw.random() < 0.5}})
            name = self._draw.choice(jobs).metadata.name
            await self.world.client.patch(PodMigrationJob, name, change)

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
        change = {"spec": {"minAvailable": self._draw.choice([2, 3, 5])}}
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
        await self.world.client.patch(
            PodDisruptionBudget, "web", Patch.merge({"spec": {"minAvailable": 3}}), "default"
        )
        before: set[str] = set()
        for _ in range(int(_QUIET_SECONDS / _LOOK_SECONDS)):
            await asyncio.sleep(_LOOK_SECONDS)
            after = await self._forsaken()
            assert not before & after, f"reservations of jobs that ended: {before & after}"
            before = after
        assert not self.checks.broken, self.checks.broken[0]
        opened = [job.metadata.name for job in await self.world.jobs() if is_open(job)]
        assert not opened, f"jobs that never end: {opened}"
        held = (await self.world.client.list(Reservation)).items
        left = [
            each.metadata.name
            for each in held
            if each.status.phase not in ("Succeeded", "Failed") and not each.status.current_owners
        ]
        assert not left, f"reservations are left: {left}"
        pods = await self.world.pods()
        sizes = Counter(pod.metadata.labels["app"] for pod in pods if is_ready(pod))
        assert sizes == _SIZES, f"workloads are not whole: {sizes}"
        solo = await self.world.client.get(Deployment, "solo", "default")
        assert SURGE_JOB not in solo.metadata.annotations, "a surge is left"
        marked = [pod.metadata.name for pod in pods if SURGE_COST in pod.metadata.annotations]
        assert not marked, f"pods that are to go first: {marked}"

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
             delete_job, pause_job, abort_job, delete_pod, change_budget, change_weather,
             change_weather, restart, lead_twice)  # fmt: skip


def live(seed: int, steps: int) -> FaultPlan:
    """One history; which fault points it passed.

    Raises:
        AssertionError: what does not hold.
    """
    clock = VirtualClock(NOW)
    lost = FaultRule(rate=0.05, error=TransportError("cut off at a fault point"))
    plan = FaultPlan(seed=seed, rules=dict.fromkeys(POINTS, lost))

    async def whole() -> None:
        async with EmbeddedControlPlane(Options(port=None, clock=clock, seed=seed)) as plane:
            history = MigrationHistory(plane, clock, seed)
            try:
                await history.start()
                await history.play(steps)
            finally:
                await history.world.stop()

    with faults.inject(plan), asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        runner.run(whole())
    return plan
