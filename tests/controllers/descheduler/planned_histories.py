# SPDX-License-Identifier: Apache-2.0
"""Planned rounds while everything goes wrong that may: what must hold of each move they ask for.

Nodes get busy and quiet again; what they use is reported late, as by agents. Otherwise as in
``migration/histories.py``: deschedulers are cut off, killed, two at a time.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.api.protocol import keys
from koord.api.timestamps import seconds_text
from koord.controllers.descheduler.migration.arbitration.job_index import is_open
from koord.controllers.descheduler.migration.arbitration.pod_index import gang_of
from koord.kube.patches import Patch
from tests.controllers.descheduler.migration import histories as migrations
from tests.controllers.descheduler.migration.histories import (
    ARGS,
    ClusterShape,
    MigrationHistory,
    StartedHistory,
    shape_of,
)
from tests.controllers.descheduler.migration.history_checks import Checks
from tests.controllers.descheduler.planned_program import (
    BY_LOAD,
    PlannedProgram,
    configuration,
)
from tests.controllers.scheduler.histories.weather import STORMS

if TYPE_CHECKING:
    from koord.base.clock import VirtualClock
    from koord.base.faults import FaultPlan
    from koord.controlplane.embedded import EmbeddedControlPlane
    from tests.controllers.descheduler.migration.world import World

# Surges are the other histories'.
POINTS = tuple(point for point in migrations.POINTS if ".surge." not in point)
POD_MILLI, NODE_MILLI = 1000, 8000
QUIET_MILLI, BUSY_MILLI = 200, 4000
HIGH_MILLI = NODE_MILLI * 70 // 100
REPORT_SECONDS = 30.0
_ON_ITS_WAY_SECONDS = 1.0


class PlannedChecks(Checks):
    """What must hold of jobs that a plan made, beside what holds of all.

    Attributes:
        reported: by node, what its system used when it was last reported, in milli-cores.
        is_calm: whether the descheduler sees what happens.
        planned: how many jobs were looked at.
    """

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.reported: Counter[str] = Counter()
        self._before: dict[str, tuple[float, int]] = {}
        self.is_calm = True
        self.planned = 0
        self._seen: set[str] = set()
        self._moved: set[str] = set()
        self._nodes: dict[str, str] = {}
        self._left: dict[str, tuple[float, str]] = {}

    def report(self, name: str, milli: int, now: float) -> None:
        """What a node's system uses is reported."""
        self._before[name] = now, self.reported[name]
        self.reported[name] = milli

    def _used(self, name: str) -> int:
        """By a report that who planned may have seen: one of just now is on its way."""
        at, before = self._before.get(name, (0.0, 0))
        fresh = self._world.clock.wall_seconds() - at < _ON_ITS_WAY_SECONDS
        return max(before, self.reported[name]) if fresh else self.reported[name]

    def before_eviction(self, name: str) -> None:
        """A pod that a plan moves goes once its place is held elsewhere."""
        super().before_eviction(name)
        pod = self.stored.get(Pod, name, "default")
        own = [job for job in self.stored.all(PodMigrationJob) if pod and _is_open_for(job, pod)]
        # One that waits while another moves the pod has no part in it.
        movers = [job for job in own if job.status.phase == "Running"] or own
        for job in movers:
            if pod and keys.PLANNED_NODE in job.metadata.annotations:
                self._check_place(job, pod)

    def _check_place(self, job: PodMigrationJob, pod: Pod) -> None:
        options = job.spec.reservation_options
        name = options.reservation_ref.name if options and options.reservation_ref else ""
        assert name, f"{job.metadata.name}: evicted without a place"
        held = self.stored.get(Reservation, name)
        if held is None:
            return
        planned = job.metadata.annotations[keys.PLANNED_NODE]
        place = held.status.node_name
        # Jobs of one workload may have changed places; the job's own is named after it.
        right = place == planned or (place and name != job.metadata.uid)
        wrong = (
            f"{pod.metadata.name} leaves {pod.spec.node_name}, planned for {planned}, "
            f"and its place is on {place or 'no node'}"
        )
        assert right, wrong
        assert place != pod.spec.node_name, wrong

    def after_write(self) -> None:
        super().after_write()
        jobs = [job for job in self.stored.all(PodMigrationJob) if is_open(job)]
        for job in jobs:
            new = job.metadata.uid not in self._seen
            self._seen.add(job.metadata.uid)
            if job.spec.pod_ref is not None:
                self._moved.add(job.spec.pod_ref.uid)
            if new and keys.PLANNED_NODE in job.metadata.annotations:
                self.planned += 1
                if self.is_calm and self.leaders == 1:
                    self._check_cause(job, [each for each in jobs if each is not job])

    def note_pods(self) -> None:
        """Which pods have left which node, and when; before and after somebody deletes one."""
        now, pods = self._world.clock.wall_seconds(), self.stored.all(Pod)
        nodes = {pod.metadata.uid: pod.spec.node_name for pod in pods if _stays(pod)}
        for uid in self._nodes.keys() - nodes.keys():
            self._left[uid] = now, self._nodes[uid]
        self._nodes = nodes

    def _left_just_now(self, name: str) -> int:
        """Pods of a node that a user deleted, which is on its way to who planned."""
        now = self._world.clock.wall_seconds()
        return sum(
            node == name and now - at < _ON_ITS_WAY_SECONDS
            for uid, (at, node) in self._left.items()
            if uid not in self._moved
        )

    def _check_cause(self, job: PodMigrationJob, others: list[PodMigrationJob]) -> None:
        """Its node is busy by what is reported, all that moves counted as moved; and a budget that
        selects the pod allows one more than those that move already.
        """
        pods = {pod.metadata.uid: pod for pod in self.stored.all(Pod) if _stays(pod)}
        assert job.spec.pod_ref is not None
        pod = pods.get(job.spec.pod_ref.uid)
        if pod is None:
            return
        leave = {each.spec.pod_ref.uid for each in others if each.spec.pod_ref}
        node = pod.spec.node_name
        there = [uid for uid, each in pods.items() if each.spec.node_name == node]
        staying = len([uid for uid in there if uid not in leave]) + self._left_just_now(node)
        used = self._used(node) + POD_MILLI * staying
        # The first of a gang says for all why they move.
        follows = gang_of(pod) and any(gang_of(pods[uid]) for uid in leave if uid in pods)
        assert follows or used > HIGH_MILLI, (
            f"{pod.metadata.name} is to leave {node}, which uses {used} of {NODE_MILLI} once "
            "those that move already have left it"
        )
        app = pod.metadata.labels["app"]
        moving = [uid for uid in leave if uid in pods and pods[uid].metadata.labels["app"] == app]
        for budget in self.stored.all(PodDisruptionBudget):
            if budget.metadata.name == app:
                allowed = budget.status.disruptions_allowed
                assert len(moving) < allowed, f"{app}: {allowed} may go, {len(moving)} do already"


class PlannedHistory(MigrationHistory):
    """One history."""

    def __init__(
        self, plane: EmbeddedControlPlane, clock: VirtualClock, shape: ClusterShape
    ) -> None:
        super().__init__(plane, clock, shape)
        self.checks: PlannedChecks = PlannedChecks(self.world)
        self.world.descheduler = self._new()
        self.system: Counter[str] = Counter()
        self._reporter: asyncio.Task[None] | None = None

    def _new(self) -> Any:
        way = self._way()
        wish = configuration(BY_LOAD, migration=ARGS, maxNoOfPodsToEvictPerNode=2)
        program = PlannedProgram(way, self.world.clock, wish, silent=True)
        way.follow(program.app.views.view(PodMigrationJob))
        return program

    async def start(self) -> None:
        await super().start()
        for number in range(self._shape.nodes):
            meta = {"name": f"n{number}"}
            await self.world.create(
                "slo.koordinator.sh/v1alpha1", "NodeMetric", meta["name"], spec={}
            )
            self.system[meta["name"]] = QUIET_MILLI
        self._reporter = asyncio.create_task(self._report())

    async def stop(self) -> None:
        if self._reporter is not None:
            self._reporter.cancel()
            await asyncio.gather(self._reporter, return_exceptions=True)
        await self.world.stop()

    async def _report(self) -> None:
        """Agents, a node after the other."""
        while True:
            for name in sorted(self.system):
                await self._report_one(name)
                await asyncio.sleep(REPORT_SECONDS / len(self.system))

    async def _report_one(self, name: str) -> None:
        pods = [pod for pod in await self.world.pods() if pod.spec.node_name == name]
        used = {"resources": {"cpu": f"{POD_MILLI}m", "memory": "1Mi"}}
        system = {"resources": {"cpu": f"{self.system[name]}m", "memory": "1Mi"}}
        status = {
            "updateTime": seconds_text(self.world.clock.wall_seconds()),
            "nodeMetric": {"systemUsage": system},
            "podsMetric": [
                {"namespace": "default", "name": pod.metadata.name, "podUsage": used}
                for pod in pods
            ],
        }
        self.checks.report(name, self.system[name], self.world.clock.wall_seconds())
        change = Patch.merge({"status": status})
        await self.world.client.patch(NodeMetric, name, change, subresource="status")

    async def heat(self) -> None:
        """A node gets busy, most others quiet."""
        for name in sorted(self.system):
            self.system[name] = QUIET_MILLI
        for name in self._draw.sample(sorted(self.system), self._draw.choice([1, 1, 2])):
            self.system[name] = BUSY_MILLI

    async def wait(self) -> None:
        """Time for a report and some rounds."""
        await asyncio.sleep(45.0)

    async def delete_pod(self) -> None:
        self.checks.note_pods()
        await super().delete_pod()
        self.checks.note_pods()

    async def change_weather(self) -> None:
        self.checks.is_calm = False
        await super().change_weather()

    async def clear_up(self) -> None:
        """The weather is fine, and after some time all is seen."""
        self._weather.change(STORMS["calm"])
        await asyncio.sleep(20.0)
        self.checks.is_calm = True

    async def quiet(self) -> None:
        for name in self.system:
            self.system[name] = QUIET_MILLI
        self.checks.is_calm = False
        await super().quiet()

    STEPS = (heat, heat, heat, wait, wait, MigrationHistory.make_job, MigrationHistory.take_label,
             MigrationHistory.delete_job, MigrationHistory.abort_job, delete_pod,
             change_weather, clear_up, clear_up, MigrationHistory.restart,
             MigrationHistory.lead_twice)  # fmt: skip


def started(shape: ClusterShape) -> StartedHistory:
    """A cluster of a shape."""
    return StartedHistory(lambda plane, clock: PlannedHistory(plane, clock, shape))


def live(seed: int, steps: int) -> tuple[FaultPlan, int]:
    """One history; which fault points it passed, and how many jobs plans made.

    Raises:
        AssertionError: what does not hold.
    """
    with closing(started(shape_of(seed))) as world:
        plan, checks = world.play(seed, steps), world.history.checks
        assert isinstance(checks, PlannedChecks)
        return plan, checks.planned


def _is_open_for(job: PodMigrationJob, pod: Pod) -> bool:
    ref = job.spec.pod_ref
    return ref is not None and ref.uid == pod.metadata.uid and is_open(job)


def _stays(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is None
