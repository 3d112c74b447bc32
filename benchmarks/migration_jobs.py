# SPDX-License-Identifier: Apache-2.0
"""What running PodMigrationJobs cost the descheduler while things change around them:
``python -m benchmarks.migration_jobs --jobs 500``.

Half of the jobs wait for their pod to go, half for the new pod to take the reservation. Each second
of virtual time pods, reservations and nodes change as on a busy cluster. Prints one JSON document:
CPU of the process in percent of a core, with the jobs and with the changes alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from typing import Any

from msgspec.structs import replace

from koord.api import codec
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.timestamps import seconds_text
from koord.base.clock import VirtualClock, VirtualLoop
from koord.base.supervision import Supervisor
from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
from koord.controllers.descheduler.framework.handle import DeschedulerHandle, StrategyEvictor
from koord.controllers.descheduler.framework.limiter import EvictionLimiter, EvictionLimits
from koord.controllers.descheduler.framework.outcomes import RoundRecord
from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs
from koord.controllers.descheduler.migration.migration_controller import MigrationController
from koord.controllers.scheduler.cache.local_views import LocalViews
from tests.controllers.descheduler.migration.world import NOW, args_of

PODS, JOBS, SECONDS = 20_000, 500, 30
PODS_A_SECOND, RESERVATIONS_A_SECOND, NODES_A_SECOND = 200, 50, 500
_WORKLOAD = 20
"""Pods of one controller."""


class Views(LocalViews):
    """Objects that are put in by hand, of foreign kinds too."""

    def view_as(self, kind: Any, into: type[Any]) -> Any:
        return self.view(into)


class Client:
    """Writes what a job in its steady state writes: nothing but its status."""

    def __init__(self, views: Views) -> None:
        self.views, self.writes = views, 0

    async def patch(
        self, kind: Any, name: str, patch: Any, namespace: str = "", subresource: str = ""
    ) -> Any:
        self.writes += 1
        return self.views.view(kind).get(f"{namespace}/{name}" if namespace else name)

    async def list(self, *args: Any, **more: Any) -> Any:
        raise AssertionError("nothing is listed")

    async def get(self, *args: Any, **more: Any) -> Any:
        raise AssertionError("nothing is asked for")


class Events:
    """Takes every event."""

    def event(self, *args: Any, **more: Any) -> None:
        return None


def _pod(number: int, uid: str = "", **more: Any) -> Pod:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"r{number // _WORKLOAD}",
             "uid": f"r{number // _WORKLOAD}", "controller": True}  # fmt: skip
    document = {
        "metadata": {"name": f"p{number}", "namespace": "default", "uid": uid or f"u{number}",
                     "ownerReferences": [owner], **more},
        "spec": {"nodeName": f"n{number % 1000}", "schedulerName": "koord-scheduler",
                 "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip
    return codec.convert(document, Pod, "a pod")


def _reservation(number: int, job: str) -> Reservation:
    document = {
        "metadata": {
            "name": job, "uid": f"of-{job}",
            "labels": {"app.kubernetes.io/created-by": "koord-descheduler",
                       "scheduling.koordinator.sh/reservation-order": str(number + 1)},
            "ownerReferences": [{"apiVersion": "scheduling.koordinator.sh/v1alpha1",
                                 "kind": "PodMigrationJob", "name": job, "uid": job}],
        },
        "spec": {"owners": [{"controller": {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"r{number // _WORKLOAD}",
            "uid": f"r{number // _WORKLOAD}", "namespace": "default", "controller": True}}]},
        "status": {"phase": "Available", "nodeName": f"n{(number + 500) % 1000}", "conditions": [
            {"type": "Scheduled", "status": "True", "reason": "Scheduled"}]},
    }  # fmt: skip
    return codec.convert(document, Reservation, "a reservation")


def _job(number: int) -> PodMigrationJob:
    name = f"j{number}"
    said = [
        ("ReservationCreated", "True", ""), ("ReservationScheduled", "True", ""),
        ("Eviction", "False", "Evicting") if number % 2 else ("Eviction", "True", "EvictComplete"),
    ]  # fmt: skip
    if number % 2 == 0:
        said.append(("PodBoundReservation", "False", "WaitForPodBindReservation"))
    document = {
        "metadata": {"name": name, "uid": name, "creationTimestamp": seconds_text(NOW),
                     "annotations": {"descheduler.koordinator.sh/passed-arbitration": "true"}},
        "spec": {"mode": "ReservationFirst", "ttl": "1h",
                 "podRef": {"namespace": "default", "name": f"p{number}", "uid": f"u{number}"},
                 "reservationOptions": {"reservationRef": {"name": name, "kind": "Reservation"}}},
        "status": {
            "phase": "Running", "nodeName": f"n{(number + 500) % 1000}", "status": said[-1][0],
            "reason": said[-1][2],
            "conditions": [{"type": kind, "status": status, "reason": reason}
                           for kind, status, reason in said],
        },
    }  # fmt: skip
    return codec.convert(document, PodMigrationJob, "a job")


class Cluster:
    """Pods, and jobs that move the first of them.

    Args:
        clock: the time.
        jobs: how many.
        number: of pods.
    """

    def __init__(self, clock: VirtualClock, jobs: int, number: int) -> None:
        self.clock, self.views, self.jobs = clock, Views(), jobs
        self.client = Client(self.views)
        client: Any = self.client
        views: Any = self.views
        events: Any = Events()
        supervisor = Supervisor("descheduler", clock=self.clock)
        access = ClusterAccess(client, views, supervisor, events)
        evictor = StrategyEvictor(EvictionLimiter(EvictionLimits()), False, RoundRecord())
        args: MigrationControllerArgs = args_of()
        handle = DeschedulerHandle(evictor, client, self.clock, access)
        self.plugin = MigrationController(args, handle)
        going = {"deletionTimestamp": seconds_text(NOW)}
        pods = [
            _pod(at, **(going if at < jobs else {})) for at in range(number) if at >= jobs or at % 2
        ]
        self.views.view(Pod).put_page(pods)
        self.views.view(Reservation).put_page([_reservation(n, f"j{n}") for n in range(jobs)])
        self.views.view(PodMigrationJob).put_page([_job(n) for n in range(jobs)])
        self._pods = pods

    def change(self, second: int) -> None:
        """One second of a busy cluster: other pods, those that move, reservations and nodes."""
        pods, held = self.views.view(Pod), self.views.view(Reservation)
        for number in range(PODS_A_SECOND):
            pods.put(_again(self._pods[(second * 7919 + number * 37) % len(self._pods)]))
        for number in range(min(RESERVATIONS_A_SECOND, self.jobs)):
            found = held.get(f"j{(second * RESERVATIONS_A_SECOND + number) % self.jobs}")
            assert found is not None
            held.put(_again(found))
        nodes = self.views.view(Node)
        for number in range(NODES_A_SECOND):
            nodes.put(codec.convert({"metadata": {"name": f"n{number}"}}, Node, "a node"))

    async def play(self, seconds: int) -> float:
        """CPU seconds of so many seconds."""
        run = asyncio.create_task(self.plugin.run())
        await asyncio.sleep(10.0)
        began = time.process_time()
        for second in range(seconds):
            self.change(second)
            await asyncio.sleep(1.0)
        used = time.process_time() - began
        run.cancel()
        await asyncio.gather(run, return_exceptions=True)
        assert len(self.plugin.jobs) == self.jobs
        return used


def _again(value: Any) -> Any:
    return replace(value, metadata=replace(value.metadata))


def cpu_seconds(jobs: int, seconds: int = SECONDS, pods: int = PODS) -> float:
    """CPU seconds of a descheduler over so many seconds with so many running jobs."""
    clock = VirtualClock(NOW)

    async def whole() -> float:
        return await Cluster(clock, jobs, pods).play(seconds)

    with asyncio.Runner(loop_factory=lambda: VirtualLoop(clock)) as runner:
        return runner.run(whole())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    given = parser.parse_args()
    alone = cpu_seconds(0, given.seconds)
    used = cpu_seconds(given.jobs, given.seconds)
    print(json.dumps({
        "jobs": given.jobs,
        "percent_of_a_core": round(100 * used / given.seconds, 2),
        "percent_of_a_core_without_jobs": round(100 * alone / given.seconds, 2),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
