# SPDX-License-Identifier: Apache-2.0
"""CronJob: a Job at each time of a schedule, and an end to old ones.

The name of a Job follows from the minute that it is for, so that a start is made once whatever
fails in between. Of starts that were missed only the last is made up for.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from koord.api.kinds.registry import Kind
from koord.base.documents import Document
from koord.controlplane import cron_schedules
from koord.controlplane.controllers.base import conditions
from koord.controlplane.controllers.base.objects import (
    JOB,
    Owner,
    controller_reference,
    key_of,
    seconds_of,
    timestamp,
)
from koord.controlplane.controllers.base.plans import Create, ObjectEvent, Plan, delete
from koord.controlplane.controllers.workload import jobs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controlplane.cron_schedules import Schedule

CRON_JOB = Kind("batch", "v1", "CronJob", "cronjobs", True, "meta.Object")
SCHEDULED = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY_MISSED = 100
# A timer that fires a moment early must not find that nothing is due.
_LATER_SECONDS = 0.1


@dataclass
class _CronJobState:
    """A CronJob, its Jobs, and what its status will say."""

    owner: Owner
    jobs: Sequence[Owner]
    now: float
    plan: Plan = field(default_factory=Plan)

    @property
    def status(self) -> Document:
        assert self.plan.status is not None
        return self.plan.status

    @property
    def active(self) -> list[Document]:
        entries: list[Document] = self.status.setdefault("active", [])
        return entries

    def is_active(self, uid: str) -> bool:
        return any(entry["uid"] == uid for entry in self.active)

    def drop(self, uid: str) -> None:
        self.status["active"] = [entry for entry in self.active if entry["uid"] != uid]

    def note(self, reason: str, message: str, *, warning: bool = False) -> None:
        self.plan.actions.append(ObjectEvent(reason, message, "Warning" if warning else "Normal"))


def plan(owner: Owner, owned: Sequence[Owner], now: float) -> Plan:
    """What a CronJob needs.

    Args:
        owner: the CronJob.
        owned: the Jobs that it controls.
        now: wall seconds.
    """
    cron = _CronJobState(owner, sorted(owned, key=lambda job: job.metadata.name), now)
    cron.plan.status = copy.deepcopy(owner.status)
    _follow(cron)
    if owner.metadata.deletion_timestamp is None:
        _start(cron)
    _forget(cron)
    if not cron.active:
        del cron.status["active"]
    return cron.plan


def job_name(owner: Owner, scheduled: float) -> str:
    """The name of the Job for one time of the schedule."""
    return f"{owner.metadata.name}-{int(scheduled) // 60}"


def _follow(cron: _CronJobState) -> None:
    """Takes note of Jobs that have ended or gone."""
    for job in cron.jobs:
        ended = jobs.finished(job)
        uid, name = job.metadata.uid, job.metadata.name
        if ended is None:
            _follow_running(cron, job)
            continue
        if cron.is_active(uid):
            cron.drop(uid)
            said = f"Saw completed job: {name}, condition: {ended['type']}"
            cron.note("SawCompletedJob", said)
        done = job.status.get("completionTime")
        known = cron.status.get("lastSuccessfulTime")
        if ended["type"] == "Complete" and done and seconds_of(done) > seconds_of(known):
            cron.status["lastSuccessfulTime"] = done
    there = {job.metadata.uid for job in cron.jobs}
    for entry in [entry for entry in cron.active if entry["uid"] not in there]:
        cron.drop(entry["uid"])
        cron.note("MissingJob", f"Active job went missing: {entry.get('name', '')}")


def _follow_running(cron: _CronJobState, job: Owner) -> None:
    uid, deleted = job.metadata.uid, job.metadata.deletion_timestamp is not None
    if cron.is_active(uid):
        if deleted and cron.owner.spec.get("concurrencyPolicy") == "Replace":
            cron.drop(uid)
    elif not _is_ours(job):
        said = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
        cron.note("UnexpectedJob", said, warning=True)
    elif not deleted:
        _adopt(cron, job)


def _start(cron: _CronJobState) -> None:
    """Makes the Job that is due, or says when the next will be."""
    spec = cron.owner.spec
    try:
        zone = cron_schedules.zone_of(spec.get("timeZone"))
    except cron_schedules.ScheduleError as error:
        said = f'invalid timeZone: "{spec.get("timeZone")}": {error}'
        return cron.note("UnknownTimeZone", said, warning=True)
    if spec.get("suspend"):
        return None
    text = spec.get("schedule", "")
    try:
        schedule = cron_schedules.parse(text, zone)
    except cron_schedules.ScheduleError as error:
        said = f'unparseable schedule: "{text}" : {error}'
        return cron.note("UnparseableSchedule", said, warning=True)
    try:
        due, missed = _due(cron, schedule)
    except cron_schedules.ScheduleError as error:
        return cron.note("InvalidSchedule", f"invalid schedule: {text} : {error}", warning=True)
    if due is not None and missed > MANY_MISSED:
        said = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds"
        cron.note("TooManyMissedTimes", f"{said} or check clock skew", warning=True)
    following = schedule.after(cron.now)
    if following is not None:
        cron.plan.again(following - cron.now + _LATER_SECONDS)
    if due is not None and not _is_over(cron, due):
        _create(cron, due, zone)
    return None


def _due(cron: _CronJobState, schedule: Schedule) -> tuple[float | None, int]:
    """The last time that has come and is not done, and how many were missed.

    Raises:
        ScheduleError: there is no time within five years.
    """
    status, deadline = cron.status, cron.owner.spec.get("startingDeadlineSeconds")
    since = seconds_of(status.get("lastScheduleTime") or cron.owner.metadata.creation_timestamp)
    if deadline is not None:
        since = max(since, cron.now - deadline)
    first = schedule.after(since)
    if first is None:
        raise cron_schedules.ScheduleError("it has no time within five years")
    if first > cron.now:
        return None, 0
    second = schedule.after(first)
    if second is None or second > cron.now:
        return first, 1
    # Distances vary (nights, weekends); a few steps from shortly before now find the last one.
    step = max(1, round(second - first))
    count = int(cron.now - first) // step + 1
    latest, time = None, schedule.after(first + (count - 2) * step)
    while time is not None and time <= cron.now:
        latest, time = time, schedule.after(time)
    return latest, count


def _is_over(cron: _CronJobState, due: float) -> bool:
    """Whether nothing is to be started for a time: done, too late, or another Job still runs."""
    spec, name = cron.owner.spec, job_name(cron.owner, due)
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None and due + deadline < cron.now:
        when = datetime.fromisoformat(timestamp(due)).strftime("%a, %d %b %Y %H:%M:%S UTC")
        cron.note("MissSchedule", f"Missed scheduled time to start a job: {when}", warning=True)
        return True
    if seconds_of(cron.status.get("lastScheduleTime")) == due:
        return True
    if any(entry.get("name") == name for entry in cron.active):
        return True
    if spec.get("concurrencyPolicy") == "Forbid" and cron.active:
        said = (
            "Not starting job because prior execution is running and concurrency policy is Forbid"
        )
        cron.note("JobAlreadyActive", said)
        return True
    return False


def _create(cron: _CronJobState, due: float, zone: object) -> None:
    owner, template = cron.owner, cron.owner.spec.get("jobTemplate") or {}
    if owner.spec.get("concurrencyPolicy") == "Replace":
        _replace(cron)
    given = template.get("metadata") or {}
    when = datetime.fromtimestamp(due, zone).isoformat()  # type: ignore[arg-type]
    metadata: Document = {
        "name": job_name(owner, due),
        "namespace": owner.metadata.namespace,
        "annotations": {**(given.get("annotations") or {}), SCHEDULED: when.replace("+00:00", "Z")},
        "ownerReferences": [controller_reference(owner, CRON_JOB)],
    }
    if labels := given.get("labels"):
        metadata["labels"] = dict(labels)
    document = {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata}
    document["spec"] = copy.deepcopy(template.get("spec") or {})
    cron.plan.actions.append(Create(JOB, document, exists_ok=True))


def _replace(cron: _CronJobState) -> None:
    """Ends the Jobs that still run."""
    for job in cron.jobs:
        if cron.is_active(job.metadata.uid):
            cron.drop(job.metadata.uid)
            _remove(cron, job)


def _adopt(cron: _CronJobState, job: Owner) -> None:
    """Counts a Job of ours as active: it has just been made."""
    metadata = job.metadata
    scheduled = seconds_of(metadata.annotations[SCHEDULED])
    cron.active.append(
        {
            "apiVersion": JOB.api_version,
            "kind": JOB.name,
            "namespace": metadata.namespace,
            "name": metadata.name,
            "uid": metadata.uid,
            "resourceVersion": metadata.resource_version,
        }
    )
    if scheduled > seconds_of(cron.status.get("lastScheduleTime")):
        cron.status["lastScheduleTime"] = timestamp(scheduled)


def _is_ours(job: Owner) -> bool:
    """Whether the controller has made a Job, rather than ``kubectl create job --from``."""
    try:
        return seconds_of(job.metadata.annotations.get(SCHEDULED)) > 0
    except ValueError:
        return False


def _forget(cron: _CronJobState) -> None:
    """Removes the oldest of the Jobs that have ended, beyond what is to be kept."""
    spec = cron.owner.spec
    for outcome, limit in (
        ("Complete", spec.get("successfulJobsHistoryLimit")),
        ("Failed", spec.get("failedJobsHistoryLimit")),
    ):
        if limit is None:
            continue
        ended = [
            job
            for job in cron.jobs
            if conditions.holds(job.status.get("conditions") or [], outcome)
            and job.metadata.deletion_timestamp is None
        ]
        ended.sort(key=_started)
        for job in ended[: max(0, len(ended) - limit)]:
            _remove(cron, job)


def _started(job: Owner) -> tuple[bool, float, str]:
    started = job.status.get("startTime")
    return started is None, seconds_of(started), key_of(job.metadata)


def _remove(cron: _CronJobState, job: Owner) -> None:
    cron.plan.actions.append(delete(JOB, job, propagation="Background"))
    cron.note("SuccessfulDelete", f"Deleted job {job.metadata.name}")
