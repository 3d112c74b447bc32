# SPDX-License-Identifier: Apache-2.0
"""How koord's MigrationController differs from the original's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.vectors.area import Difference

if TYPE_CHECKING:
    from tests.vectors.area import Json

_ENDED = {"Failed": "Warning", "Succeeded": "Normal"}


def _negative(case: Json, theirs: Json, ours: Json) -> bool:
    return case["ask"] == "args" and case["args"].get("maxMigratingPerWorkload") == -1


def _unscaled(case: Json, theirs: Json, ours: Json) -> Json:
    """Pods of batch jobs, which have no scale."""
    if case["ask"] not in ("filter", "arbitrate"):
        return theirs
    part = "filter" if case["ask"] == "filter" else "results"
    changed = dict(theirs[part])
    for pod in case["pods"]:
        meta = pod["metadata"]
        name = f"{meta['namespace']}/{meta['name']}" if part == "filter" else f"job-{meta['name']}"
        owners = meta.get("ownerReferences", [])
        if name in changed and any(owner["kind"] == "Job" for owner in owners):
            changed[name] = ours[part][name]
    return {**theirs, part: changed}


def _owned(case: Json, theirs: Json, ours: Json) -> Json:
    """The job as the owner, and no uid of another pod in the template."""
    if case["ask"] != "reservation":
        return theirs
    made = theirs["template"]
    owner = {"apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob",
             "name": "job", "uid": "uid-job"}  # fmt: skip
    meta = {**made["metadata"], "ownerReferences": [owner]}
    template = made["spec"]["template"]
    inner = {key: value for key, value in template.get("metadata", {}).items() if key != "uid"}
    template = {**template, **({"metadata": inner} if inner else {})}
    return {"template": {"metadata": meta, "spec": {**made["spec"], "template": template}}}


def _of_others(case: Json, theirs: Json, ours: Json) -> Json:
    """A reservation that its author made is its author's."""
    return {**theirs, "deleted": 0} if theirs.get("deleted") else theirs


def _told(case: Json, theirs: Json, ours: Json) -> Json:
    """The end of a job is an event of it."""
    before = case["jobs"][0]["status"]["phase"] if case["ask"] == "course" else "Failed"
    if before in _ENDED or theirs["phase"] not in _ENDED:
        return theirs
    event = f"{_ENDED[theirs['phase']]} {theirs['reason'] or 'Complete'}"
    if theirs["events"][-1:] == [event]:
        return theirs
    return {**theirs, "events": [*theirs["events"], event]}


def _refused(case: Json, theirs: Json, ours: Json) -> Json:
    """What keeps a pod is in the status of its job."""
    if case["ask"] != "course" or not case["refused"] or not theirs["evicted"]:
        return theirs
    conditions = [each for each in theirs["conditions"] if each[0] != "Eviction"]
    found = ["Eviction", "False", "FailedEvict", "refused"]
    changed = {"status": "Eviction", "reason": "FailedEvict", "message": "refused"}
    return {**theirs, **changed, "conditions": sorted([*conditions, found])}


def _asked_again(case: Json, theirs: Json, ours: Json) -> bool:
    return case["ask"] == "course" and _began(case) and ours["evicted"] == 1


def _gone(case: Json, theirs: Json, ours: Json) -> bool:
    return case["ask"] == "course" and ours["reason"] == "MissingReservation"


def _other(case: Json, theirs: Json, ours: Json) -> bool:
    if case["ask"] != "course":
        return False
    return case["jobs"][0]["spec"]["podRef"].get("uid") == "uid-other"


def _began(case: Json) -> bool:
    found = case["jobs"][0]["status"].get("conditions", [])
    return any((c["type"], c["reason"]) == ("Eviction", "Evicting") for c in found)


DIFFERENCES: dict[str, Difference] = {
    "migration-negative-amounts": Difference(
        "a negative number of pods is refused when the file is read", covers=_negative
    ),
    "migration-unscaled-workloads": Difference(
        "where a workload has no scale its pods are counted", adjusted=_unscaled
    ),
    "migration-owned-reservation": Difference(
        "the job owns its Reservation, whose template is no certain pod", adjusted=_owned
    ),
    "migration-reservations-of-others": Difference(
        "a Reservation that a job only names is not deleted with it", adjusted=_of_others
    ),
    "migration-ends-are-told": Difference("every end of a job is an event", adjusted=_told),
    "migration-refused-eviction": Difference(
        "a refused eviction stands in the job's conditions", adjusted=_refused
    ),
    "migration-eviction-repeated": Difference(
        "a pod that was not seen to go is asked again", covers=_asked_again
    ),
    "migration-missing-reservation": Difference(
        "a Reservation that is gone ends the job", covers=_gone
    ),
    "migration-other-pod": Difference(
        "a pod with another uid than the job names is left alone", covers=_other
    ),
}
