# SPDX-License-Identifier: Apache-2.0
"""The status of a Deployment: counts, whether it is available, whether its rollout advances."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.controllers.base import conditions
from koord.controlplane.controllers.base.objects import seconds_of, timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.documents import Document
    from koord.controlplane.controllers.base.objects import Owner
    from koord.controlplane.controllers.base.plans import Plan
    from koord.controlplane.controllers.workload.rollout import RolloutBounds

_TIME_FIELDS = ("lastUpdateTime",)
_NO_DEADLINE = 2**31 - 1
_COMPLETE, _TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"


def put(
    plan: Plan,
    owner: Owner,
    new: Owner | None,
    replica_sets: Sequence[Owner],
    bounds: RolloutBounds,
    now: float,
) -> None:
    """Sets the plan's status, and when to look again for a rollout that may be stuck."""
    status = _counts(owner, new, replica_sets)
    known = owner.status.get("conditions", [])
    known = conditions.put(known, _available(status, bounds), now, _TIME_FIELDS)
    if _has_deadline(owner):
        known = _progress(owner, new, status, known, now)
        plan.again(_deadline_in(owner, known, now))
    else:
        known = conditions.without(known, "Progressing")
    failure = _failure([rs for rs in (new, *replica_sets) if rs])
    if failure:
        known = conditions.put(known, failure, now, _TIME_FIELDS)
    else:
        known = conditions.without(known, "ReplicaFailure")
    plan.status = {**status, "conditions": known}


def _counts(owner: Owner, new: Owner | None, replica_sets: Sequence[Owner]) -> Document:
    def total(field: str) -> int:
        return sum(rs.status.get(field, 0) for rs in replica_sets)

    available = total("availableReplicas")
    asked = sum(rs.spec.get("replicas", 1) for rs in replica_sets)
    status = {
        "observedGeneration": owner.metadata.generation,
        "replicas": total("replicas"),
        "updatedReplicas": new.status.get("replicas", 0) if new else 0,
        "readyReplicas": total("readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, asked - available),
        "terminatingReplicas": total("terminatingReplicas"),
    }
    if owner.status.get("collisionCount"):
        status["collisionCount"] = owner.status["collisionCount"]
    return status


def _available(status: Document, bounds: RolloutBounds) -> Document:
    if status["availableReplicas"] >= bounds.least_available:
        said = "Deployment has minimum availability."
        return conditions.condition("Available", True, "MinimumReplicasAvailable", said)
    said = "Deployment does not have minimum availability."
    return conditions.condition("Available", False, "MinimumReplicasUnavailable", said)


def _progress(
    owner: Owner, new: Owner | None, status: Document, known: list[Document], now: float
) -> list[Document]:
    current = conditions.find(known, "Progressing")
    reason = current["reason"] if current else ""
    if owner.spec.get("paused"):
        if reason in (_TIMED_OUT, _PAUSED):
            return known
        return _put(known, "Unknown", _PAUSED, "Deployment is paused", now)
    if reason == _PAUSED:
        return _put(known, "Unknown", _RESUMED, "Deployment is resumed", now)
    if reason == _COMPLETE and status["replicas"] == status["updatedReplicas"]:
        return known
    name = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{owner.metadata.name}"'
    if _is_complete(owner, status):
        said = f"{name} has successfully progressed."
        return _put(known, "True", _COMPLETE, said, now)
    if _has_progressed(owner.status, status):
        # The same reason again: the time of the last step counts.
        kept = conditions.without(known, "Progressing")
        kept = _put(kept, "True", "ReplicaSetUpdated", f"{name} is progressing.", now)
        if current and current["status"] == "True":
            kept[-1]["lastTransitionTime"] = current["lastTransitionTime"]
        return kept
    if current is None:
        if new is None:
            return known
        said = f'Created new replica set "{new.metadata.name}"'
        return _put(known, "True", "NewReplicaSetCreated", said, now)
    wait = _deadline_in(owner, known, now)
    if wait is not None and wait <= 0:
        return _put(known, "False", _TIMED_OUT, f"{name} has timed out progressing.", now)
    return known


def _put(
    known: Sequence[Document], status: str, reason: str, message: str, now: float
) -> list[Document]:
    new = conditions.condition("Progressing", status, reason, message)
    return conditions.put(known, new, now, _TIME_FIELDS)


def _is_complete(owner: Owner, status: Document) -> bool:
    wanted = owner.spec.get("replicas", 1)
    counts = (status["updatedReplicas"], status["replicas"], status["availableReplicas"])
    return all(count == wanted for count in counts)


def _has_progressed(old: Document, new: Document) -> bool:
    def remaining(status: Document) -> int:
        return int(status.get("replicas", 0)) - int(status.get("updatedReplicas", 0))

    counts = ("updatedReplicas", "readyReplicas", "availableReplicas")
    grown = any(int(new[count]) > int(old.get(count, 0)) for count in counts)
    return grown or remaining(new) < remaining(old)


def _has_deadline(owner: Owner) -> bool:
    deadline: int = owner.spec.get("progressDeadlineSeconds", _NO_DEADLINE)
    return deadline != _NO_DEADLINE


def _deadline_in(owner: Owner, known: Sequence[Document], now: float) -> float | None:
    """Seconds until the rollout counts as stuck; None if it is complete, stuck, or paused."""
    current = conditions.find(known, "Progressing")
    if current is None or current["reason"] in (_COMPLETE, _TIMED_OUT, _PAUSED):
        return None
    since = seconds_of(current.get("lastUpdateTime") or timestamp(now))
    left: float = since + owner.spec["progressDeadlineSeconds"] - now
    return left


def _failure(replica_sets: Sequence[Owner]) -> Document | None:
    for replica_set in replica_sets:
        found = conditions.find(replica_set.status.get("conditions", []), "ReplicaFailure")
        if found and found["status"] == "True":
            return {key: found[key] for key in ("type", "status", "reason", "message")}
    return None
