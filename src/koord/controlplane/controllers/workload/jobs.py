# SPDX-License-Identifier: Apache-2.0
"""Job: pods that run to completion, each counted once.

A finished pod keeps the tracking finalizer until the status has recorded its uid; the uid moves
from the record into the count once the finalizer is gone. The status is written against the version
that was read, so that whatever fails in between, no pod is lost and none counted twice.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.controllers.base import conditions, pods
from koord.controlplane.controllers.base.objects import (
    JOB,
    POD,
    Owner,
    seconds_of,
    selector_of,
    timestamp,
)
from koord.controlplane.controllers.base.plans import Create, ObjectEvent, Plan, delete, patch
from koord.controlplane.controllers.workload.completion_indexes import Indexes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.pod import Pod
    from koord.controlplane.controllers.base.plans import Action

FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_BURST = 500
# Uids that the status holds at most, so that it stays small.
_RECORDED = 500
_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 10.0, 600.0


@dataclass
class _JobState:
    """A Job, its pods, and what its status will say."""

    owner: Owner
    pods: Sequence[Pod]
    now: float
    status: Document
    done: Indexes = field(default_factory=Indexes)
    actions: list[Action] = field(default_factory=list)
    again_seconds: float | None = None

    @property
    def indexed(self) -> bool:
        return self.owner.spec.get("completionMode") == "Indexed"

    @property
    def suspended(self) -> bool:
        return bool(self.owner.spec.get("suspend"))

    @property
    def completions(self) -> int | None:
        completions: int | None = self.owner.spec.get("completions")
        return completions

    @property
    def active(self) -> list[Pod]:
        return [pod for pod in self.pods if pods.is_active(pod)]

    @property
    def terminating(self) -> int:
        return sum(
            pod.metadata.deletion_timestamp is not None and not pods.is_finished(pod)
            for pod in self.pods
        )

    @property
    def succeeded(self) -> int:
        """Pods (or indexes) that succeeded, recorded ones included."""
        if self.indexed:
            return len(self.done)
        return int(self.status["succeeded"]) + len(self.recorded("succeeded"))

    @property
    def failed(self) -> int:
        """Pods that failed, recorded ones included."""
        return int(self.status["failed"]) + len(self.recorded("failed"))

    def recorded(self, outcome: str) -> list[str]:
        uids: list[str] = self.status["uncountedTerminatedPods"].setdefault(outcome, [])
        return uids

    def target(self) -> Document | None:
        """The condition that says how the Job is going to end."""
        for name in ("SuccessCriteriaMet", "FailureTarget"):
            found = conditions.find(self.status["conditions"], name)
            if found and found["status"] == "True":
                return found
        return None

    def put(self, name: str, status: bool, reason: str, message: str) -> None:
        new = conditions.condition(name, status, reason, message)
        known = self.status["conditions"]
        self.status["conditions"] = conditions.put(known, new, self.now, ("lastProbeTime",))


def plan(owner: Owner, candidates: Sequence[Pod], now: float) -> Plan:
    """What a Job needs.

    Args:
        owner: the Job.
        candidates: pods it controls, and pods of its namespace that nobody does.
        now: wall seconds.
    """
    ended = finished(owner)
    selector = selector_of(owner.spec.get("selector"))
    mine, patches = pods.claim(owner, JOB, selector, candidates)
    if ended or owner.metadata.deletion_timestamp is not None:
        # Counted already, or of no interest any more: the pods may go.
        result = Plan(released(mine))
        if ended:
            _expire(result, owner, ended, now)
        return result
    job = _JobState(owner, mine, now, _started(owner, now))
    job.done = Indexes.parse(owner.status.get("completedIndexes", ""))
    _count(job)
    _decide(job)
    if job.target():
        _finish(job)
    else:
        _manage(job)
        _complete(job)
    result = Plan([*patches, *job.actions], _reported(job))
    result.again(job.again_seconds)
    return result


def released(left: Sequence[Pod]) -> list[Action]:
    """Lets go of pods that need not be counted any more."""
    return [_untracked(pod) for pod in left if FINALIZER in pod.metadata.finalizers]


def finished(owner: Owner) -> Document | None:
    """The condition that ended a Job, or None while it goes on."""
    for name in ("Complete", "Failed"):
        found = conditions.find(owner.status.get("conditions", []), name)
        if found and found["status"] == "True":
            return found
    return None


def _expire(result: Plan, owner: Owner, ended: Document, now: float) -> None:
    keep = owner.spec.get("ttlSecondsAfterFinished")
    if keep is None or owner.metadata.deletion_timestamp is not None:
        return
    left = seconds_of(ended["lastTransitionTime"]) + keep - now
    if left <= 0:
        result.actions.append(delete(JOB, owner, propagation="Foreground"))
    else:
        result.again(left)


def _started(owner: Owner, now: float) -> Document:
    status = copy.deepcopy(owner.status)
    for count in ("succeeded", "failed"):
        status.setdefault(count, 0)
    status.setdefault("conditions", [])
    status.setdefault("uncountedTerminatedPods", {})
    if "startTime" not in status and not owner.spec.get("suspend"):
        status["startTime"] = timestamp(now)
    return status


def _count(job: _JobState) -> None:
    """Moves recorded pods into the counts, records newly finished ones, releases recorded ones."""
    written = job.owner.status.get("uncountedTerminatedPods") or {}
    safe = {uid for uids in written.values() for uid in uids}
    indexes_written = Indexes.parse(job.owner.status.get("completedIndexes", ""))
    tracked = {pod.metadata.uid: pod for pod in job.pods if FINALIZER in pod.metadata.finalizers}
    for outcome in ("succeeded", "failed"):
        uids = job.recorded(outcome)
        job.status[outcome] += sum(uid not in tracked for uid in uids)
        uids[:] = [uid for uid in uids if uid in tracked]
    for uid, pod in tracked.items():
        index = _index(pod)
        if uid in safe or (pod.status.phase == "Succeeded" and index in indexes_written):
            job.actions.append(_untracked(pod))
        elif pod.status.phase == "Succeeded" and job.indexed:
            if index is not None and index < (job.completions or 0):
                job.done.add(index)
        elif pod.status.phase == "Succeeded":
            _record(job, "succeeded", uid)
        elif pod.status.phase == "Failed" or pod.metadata.deletion_timestamp is not None:
            _record(job, "failed", uid)
    if job.indexed:
        job.status["succeeded"] = len(job.done)


def _record(job: _JobState, outcome: str, uid: str) -> None:
    if sum(map(len, job.status["uncountedTerminatedPods"].values())) < _RECORDED:
        job.recorded(outcome).append(uid)


def _decide(job: _JobState) -> None:
    """Sets the condition that ends the Job early, once."""
    spec = job.owner.spec
    if job.target():
        return
    if job.failed > spec.get("backoffLimit", 6) or _restarted_too_often(job):
        said = "Job has reached the specified backoff limit"
        job.put("FailureTarget", True, "BackoffLimitExceeded", said)
        return
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is None or job.suspended:
        return
    left = seconds_of(job.status["startTime"]) + deadline - job.now
    if left <= 0:
        said = "Job was active longer than specified deadline"
        job.put("FailureTarget", True, "DeadlineExceeded", said)
    else:
        job.again_seconds = left


def _restarted_too_often(job: _JobState) -> bool:
    template = job.owner.spec["template"].get("spec", {})
    if template.get("restartPolicy") != "OnFailure":
        return False
    running = [pod for pod in job.pods if pod.status.phase in ("Running", "Pending")]
    restarts = sum(
        status.restart_count
        for pod in running
        for status in (*pod.status.init_container_statuses, *pod.status.container_statuses)
    )
    limit = job.owner.spec.get("backoffLimit", 6)
    return restarts > 0 if limit == 0 else restarts >= limit


def _finish(job: _JobState) -> None:
    """Takes down what still runs, and ends the Job when all is counted."""
    job.actions += [delete(POD, pod) for pod in job.active]
    target = job.target() or {}
    recorded = any(job.recorded(outcome) for outcome in ("succeeded", "failed"))
    uncounted = any(
        FINALIZER in pod.metadata.finalizers and not pods.is_finished(pod) for pod in job.pods
    )
    if job.active or job.terminating or recorded or uncounted:
        return
    if target["type"] == "FailureTarget":
        job.put("Failed", True, target["reason"], target["message"])
        job.actions.append(ObjectEvent(target["reason"], target["message"], "Warning"))
    else:
        job.status["completionTime"] = timestamp(job.now)
        job.put("Complete", True, target["reason"], target["message"])
        job.actions.append(ObjectEvent("Completed", "Job completed"))


def _manage(job: _JobState) -> None:
    """As many pods as parallelism and missing completions ask for; none while suspended."""
    if job.suspended:
        _drop(job, job.active)
        if not conditions.holds(job.status["conditions"], "Suspended"):
            job.put("Suspended", True, "JobSuspended", "Job suspended")
            job.actions.append(ObjectEvent("Suspended", "Job suspended"))
        job.status.pop("startTime", None)
        return
    if conditions.holds(job.status["conditions"], "Suspended"):
        job.put("Suspended", False, "JobResumed", "Job resumed")
        job.actions.append(ObjectEvent("Resumed", "Job resumed"))
        job.status["startTime"] = timestamp(job.now)
    wanted = _desired_pods(job)
    surplus = _surplus(job, wanted)
    if surplus:
        _drop(job, surplus[:_BURST])
        return
    waiting = job.terminating if _replaces_failed_only(job) else 0
    missing = min(wanted - len(job.active) - waiting, _BURST)
    if missing <= 0:
        return
    backoff = _backoff_seconds(job)
    if backoff > 0:
        job.again_seconds = min(backoff, job.again_seconds or backoff)
        return
    if job.indexed:
        taken = {_index(pod) for pod in job.active}
        free = job.done.missing(job.completions or 0, missing, taken)
        job.actions += [Create(POD, _pod(job.owner, index)) for index in free]
    else:
        job.actions += [Create(POD, _pod(job.owner))] * missing


def _desired_pods(job: _JobState) -> int:
    parallelism: int = job.owner.spec.get("parallelism", 1)
    if job.completions is None:
        return len(job.active) if job.succeeded else parallelism
    return max(0, min(job.completions - job.succeeded, parallelism))


def _surplus(job: _JobState, wanted: int) -> list[Pod]:
    """Pods of indexes that are out of range, done or doubled, and what exceeds the wish."""
    order = pods.deletion_order(job.active, (), job.now)
    wrong: list[Pod] = []
    if job.indexed:
        seen: set[int] = set()
        for pod in reversed(order):
            index = _index(pod)
            if index is None or index >= (job.completions or 0) or index in job.done | seen:
                wrong.append(pod)
            else:
                seen.add(index)
    rest = [pod for pod in order if pod not in wrong]
    return wrong + rest[: max(0, len(rest) - wanted)]


def _drop(job: _JobState, unwanted: Sequence[Pod]) -> None:
    """Takes pods down without counting them."""
    for pod in unwanted:
        if FINALIZER in pod.metadata.finalizers:
            job.actions.append(_untracked(pod))
        job.actions.append(delete(POD, pod))


def _complete(job: _JobState) -> None:
    wanted = job.completions
    enough = job.succeeded > 0 if wanted is None else job.succeeded >= wanted
    # The parallelism of a finished Job is of no interest: what is left has been dropped.
    if enough and not job.active:
        said = "Reached expected number of succeeded pods"
        job.put("SuccessCriteriaMet", True, "CompletionsReached", said)


def _replaces_failed_only(job: _JobState) -> bool:
    return job.owner.spec.get("podReplacementPolicy") == "Failed"


def _backoff_seconds(job: _JobState) -> float:
    """How long new pods wait after failures in a row: 10 s, 20 s, ..., at most ten minutes."""
    ended = [pod for pod in job.pods if pods.is_finished(pod)]
    ended.sort(key=finished_at)
    failures = 0
    for pod in reversed(ended):
        if pod.status.phase == "Succeeded":
            break
        failures += 1
    if not failures:
        return 0.0
    wait = min(_BACKOFF_SECONDS * 2.0 ** min(failures - 1, 16), _LONGEST_BACKOFF_SECONDS)
    return finished_at(ended[-1]) + wait - job.now


def finished_at(pod: Pod) -> float:
    """When a pod ended, in wall seconds: the last container's end, or ready no more."""
    ends = [
        seconds_of(status.state.get("terminated", {}).get("finishedAt"))
        for status in pod.status.container_statuses
    ]
    if ends and all(ends):
        return max(ends)
    ready = pods.condition_of(pod, "Ready")
    if ready and ready.status == "False" and ready.last_transition_time:
        return seconds_of(ready.last_transition_time)
    return seconds_of(pod.metadata.creation_timestamp)


def _pod(owner: Owner, index: int | None = None) -> Document:
    pod = pods.from_template(owner.spec["template"], owner, JOB)
    metadata, spec = pod["metadata"], pod["spec"]
    if FINALIZER not in metadata["finalizers"]:
        metadata["finalizers"].append(FINALIZER)
    if index is None:
        return pod
    metadata["labels"][INDEX] = str(index)
    metadata["annotations"] = {**metadata.get("annotations", {}), INDEX: str(index)}
    metadata["generateName"] = f"{owner.metadata.name}-{index}-"
    spec["hostname"] = f"{owner.metadata.name}-{index}"
    source = {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    for container in (*spec.get("initContainers", []), *spec["containers"]):
        known = container.setdefault("env", [])
        if not any(entry["name"] == variable["name"] for entry in known):
            known.append(variable)
    return pod


def _untracked(pod: Pod) -> Action:
    # In a strategic merge patch the finalizers are a set: only ours goes.
    body = {"metadata": {"$deleteFromPrimitiveList/finalizers": [FINALIZER]}}
    return patch(POD, pod, body, strategic=True)


def _index(pod: Pod) -> int | None:
    text = pod.metadata.annotations.get(INDEX, "")
    return int(text) if text.isdecimal() else None


def _reported(job: _JobState) -> Document:
    status = job.status
    status["active"] = len(job.active)
    status["ready"] = sum(pods.is_ready(pod) for pod in job.active)
    status["terminating"] = job.terminating
    if job.indexed:
        status["completedIndexes"] = str(job.done)
    uncounted = status["uncountedTerminatedPods"]
    status["uncountedTerminatedPods"] = {k: uids for k, uids in uncounted.items() if uids}
    for name in ("active", "succeeded", "failed", "conditions", "completedIndexes"):
        if name in status and not status[name]:
            del status[name]
    return status
