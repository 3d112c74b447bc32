# SPDX-License-Identifier: Apache-2.0
"""MigrationController: arguments, Filter, a round of arbitration, the Reservation of a job, and
how far a job comes while nothing surroundings it moves.
"""

from __future__ import annotations

import asyncio
import copy
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.duration import Duration
from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation, ReservationSpec
from koord.api.kinds.workloads import Deployment, ReplicaSet, StatefulSet
from koord.api.protocol import keys
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.controllers.descheduler.migration.arbitration.arbitration_order import ordered
from koord.controllers.descheduler.migration.arbitration.arbitrator import Arbitrator
from koord.controllers.descheduler.migration.arbitration.job_index import (
    JobIndex,
    has_passed,
    job_pod_key,
)
from koord.controllers.descheduler.migration.arbitration.movability import Movability
from koord.controllers.descheduler.migration.arbitration.moving_limits import MovingLimits
from koord.controllers.descheduler.migration.arbitration.pod_checks import MigrationChecks
from koord.controllers.descheduler.migration.arbitration.pod_index import PodIndex
from koord.controllers.descheduler.migration.arbitration.workloads import Workloads
from koord.controllers.descheduler.migration.course import job_pass as steps
from koord.controllers.descheduler.migration.course.job_status import (
    EVICTION,
    FAILED_EVICT,
    FALSE,
    StatusDraft,
)
from koord.controllers.descheduler.migration.course.next_step import next_step
from koord.controllers.descheduler.migration.course.reservation_template import reservation_of
from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs
from koord.controllers.scheduler.config.field_path import FieldPath
from tests.vectors.area import Difference, Json
from tests.vectors.migration import clusters, courses, differences

if TYPE_CHECKING:
    import random

SEED = 20292
COVERAGE = {
    "arbitrator/filter.go:existingPodMigrationJob": "the rest looks for jobs that name no uid",
    "arbitrator/filter.go:filterExpectedReplicas": "the rest are look-ups that fail",
    "migration/controller.go:createReservation": "the rest are writes that fail",
    "migration/controller.go:waitForPodReady": "the rest are calls that fail",
}
DIFFERENCES: dict[str, Difference] = differences.DIFFERENCES
_PASSES = 8


def inputs(draw: random.Random) -> list[Json]:
    """Some 700 cases."""
    return [
        *({"ask": "args", "args": args} for args in clusters.arguments(draw, 60)),
        *(clusters.world(draw, "filter") for _ in range(140)),
        *(clusters.world(draw, "arbitrate") for _ in range(140)),
        *(courses.reservation(draw) for _ in range(80)),
        *(courses.course(draw) for _ in range(320)),
    ]


def answer(case: Json) -> Json:
    """What koord makes of a case."""
    try:
        args = MigrationControllerArgs.read(case.get("args", {}), FieldPath("the case", "args"))
    except KoordError:
        return {"error": True}
    if case["ask"] == "args":
        return {"error": False}
    if case["ask"] == "reservation":
        return {"template": _plain(reservation_of(case["jobs"][0], case["pods"][0], 0))}
    if case["ask"] == "course":
        return _course(case, args)
    return _Cluster(case, args).answer()


def pair(case: Json, theirs: Json) -> tuple[Json, Json]:
    """Reservations in one spelling, without the moment at which they were made."""
    if case["ask"] == "reservation":
        theirs = {"template": _plain(theirs["template"])}
    return case, theirs


def _plain(made: Json) -> Json:
    made = codec.without_nulls(made, "the reservation")
    found = codec.to_document(codec.convert(made, Reservation, "the reservation", ""))
    found["metadata"]["labels"][keys.RESERVATION_ORDER] = "now"
    ttl = found["spec"].get("ttl")
    if ttl is not None:
        found["spec"]["ttl"] = Duration.parse(ttl).nanoseconds
    return {"metadata": found["metadata"], "spec": found["spec"]}


class _Cluster:
    """Indexes over a case's objects."""

    def __init__(self, case: Json, args: MigrationControllerArgs) -> None:
        self._case = case
        self.pods = PodIndex(_decoded(case["pods"], Pod))
        self.jobs = JobIndex(self.pods.get)
        sets = _decoded(case["replicaSets"], ReplicaSet)
        views = {
            ("apps", kind): {f"{o.metadata.namespace}/{o.metadata.name}": o for o in objects}
            for kind, objects in (
                ("Deployment", _decoded(case["deployments"], Deployment)),
                ("ReplicaSet", sets),
                ("StatefulSet", _decoded(case["statefulSets"], StatefulSet)),
            )
        }
        workloads = Workloads(self.pods, views)
        for each in sets:
            workloads.add_set(each)
        threshold = args.priority_threshold.value if args.priority_threshold else None
        movability = Movability(args, lambda: threshold)
        limits = MovingLimits(args, self.jobs, workloads)
        self.checks = MigrationChecks(args, movability, limits, self.jobs)
        for job in _decoded(case["jobs"], PodMigrationJob):
            self.jobs.put(job)
        for uid in case["passed"]:
            self.jobs.let_pass(uid)

    def answer(self) -> Json:
        if self._case["ask"] == "filter":
            pods = _decoded(self._case["pods"], Pod)
            return {"filter": {_key(pod): self.checks.refusal(pod) is None for pod in pods}}
        waiting = [j for j in self.jobs.waiting() if j.metadata.uid not in self._case["passed"]]
        pod_of = {j.metadata.uid: pod for j in waiting if (pod := self.pods.get(job_pod_key(j)))}
        order = [job.metadata.name for job in ordered(waiting, pod_of, self._migrating)]
        writer: Any = _Writer(self.jobs)
        none: Any = _NoBudgets()
        # What the case says was passed is no doubt, as a job would be whose write was lost.
        clock = VirtualClock(0.0)
        live: Any = _LivePods()
        arbitrator = Arbitrator(0.5, self.jobs, self.pods, self.checks, none, writer, live, clock)
        asyncio.run(arbitrator.round())
        return {"order": order, "results": {j.metadata.name: self._result(j) for j in waiting}}

    def _migrating(self, owner: str) -> int:
        keys = self.pods.controlled_by(owner)
        return sum(has_passed(job) for key in keys for job in self.jobs.of_pod(key))

    def _result(self, waited: PodMigrationJob) -> str:
        job = self.jobs.get(waited.metadata.uid)
        assert job is not None
        if job.status.reason == "MissingPod":
            return "passed"  # The original lets it pass, and ends it so at its first look.
        if job.status.phase == "Failed":
            return f"failed {job.status.reason}"
        return "passed" if has_passed(job) else "waits"


class _NoBudgets:
    def covering(self, pod: Pod) -> list[Any]:
        return []


class _LivePods:
    """Of a case all pods are known."""

    async def is_newer(self, job: PodMigrationJob, known: Pod | None) -> bool:
        return False


class _Writer:
    """Writes into the index alone."""

    def __init__(self, jobs: JobIndex) -> None:
        self._jobs = jobs

    async def annotate(self, job: PodMigrationJob, annotations: dict[str, str]) -> None:
        changed = copy.deepcopy(job)
        changed.metadata.annotations.update(annotations)
        self._jobs.put(changed)

    async def status(self, job: PodMigrationJob, status: Any, events: Any = ()) -> None:
        changed = copy.deepcopy(job)
        changed.status = status
        self._jobs.put(changed)

    async def ask(self, job: PodMigrationJob) -> None:
        """A job that was passed before the case began."""


def _course(case: Json, args: MigrationControllerArgs) -> Json:
    """Steps until nothing changes any more."""
    job = _decoded(case["jobs"], PodMigrationJob)[0]
    pods = {_key(pod): pod for pod in _decoded(case["pods"], Pod)}
    held = _decoded([case["reservation"]], Reservation)[0] if case["reservation"] else None
    found: dict[str, Any] = {"created": 0, "deleted": 0, "evicted": 0, "events": []}
    for _ in range(_PASSES):
        options = job.spec.reservation_options
        ref = options.reservation_ref if options else None
        named = held if held and ref and held.metadata.name == ref.name else None
        bound = None
        if named and named.status.current_owners:
            owner = named.status.current_owners[0]
            bound = pods.get(f"{owner.namespace}/{owner.name}")
        surroundings = steps.JobSurroundings(
            case["now"], pods.get(job_pod_key(job)), named, bound, None, args.default_job_mode
        )
        step = next_step(job, surroundings)
        job = copy.deepcopy(job)
        if step.status is not None:
            job.status = step.status
        _tell(found, *(f"{kind} {reason}" for kind, reason, _ in step.events))
        if step.action == steps.NAME_POD:
            job.spec.pod_ref.uid = surroundings.pod.metadata.uid  # type: ignore[union-attr]
        elif step.action == steps.RESERVE:
            held = _reserve(case, job)
            found["created"] += 1
            _tell(found, "Normal ReservationCreated")
        elif step.action == steps.ORDER and held is not None:
            held.metadata.labels[keys.RESERVATION_ORDER] = "1"
        elif step.action == steps.ROLL_BACK:
            held = None
            found["deleted"] += 1
        elif step.action == steps.EVICT:
            _evict(case, job, found)
    return {**_told(job), **found, "evicted": min(found["evicted"], 1)}


def _tell(found: dict[str, Any], *events: str) -> None:
    """Events, equal ones in a row once."""
    for event in events:
        if found["events"][-1:] != [event]:
            found["events"].append(event)


def _reserve(case: Json, job: PodMigrationJob) -> Reservation:
    made = reservation_of(case["jobs"][0], case["pods"][0], 0)
    reservation = codec.convert(made, Reservation, "the reservation", "")
    reservation.status.phase = ""
    assert isinstance(reservation.spec, ReservationSpec)
    ref = {"name": made["metadata"]["name"], "kind": "Reservation", "uid": "made"}
    changed = codec.to_document(job)
    changed["spec"].setdefault("reservationOptions", {})["reservationRef"] = ref
    job.spec = codec.convert(changed, PodMigrationJob, "the job", "").spec
    return reservation


def _evict(case: Json, job: PodMigrationJob, found: dict[str, Any]) -> None:
    found["evicted"] += 1
    if not case["refused"]:
        _tell(found, "Normal Evicting")
        return
    draft = StatusDraft(job.status, case["now"])
    draft.report(EVICTION, FALSE, FAILED_EVICT, "refused")
    job.status = draft.status
    _tell(found, "Warning Evicting")


def _told(job: PodMigrationJob) -> dict[str, Any]:
    status = job.status
    conditions = sorted([c.type, c.status, c.reason, c.message] for c in status.conditions)
    told: dict[str, Any] = {
        "phase": status.phase, "status": status.status, "reason": status.reason,
        "message": status.message, "conditions": conditions, "node": status.node_name,
    }  # fmt: skip
    if job.spec.pod_ref is not None:
        told["pod"] = job.spec.pod_ref.uid
    if status.pod_ref is not None:
        told["bound"] = status.pod_ref.name
    return told


def _decoded(documents: list[Json], kind: type[Any]) -> list[Any]:
    return [codec.convert(each, kind, "the case", "") for each in documents]


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
