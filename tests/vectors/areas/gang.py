# SPDX-License-Identifier: Apache-2.0
"""What becomes of gangs while pods and PodGroups come, change, get nodes and go.

A history is of a few pods of three gangs; its answer is who was let go at Permit, and what is known
of each gang in the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import PodGroup
from koord.controllers.scheduler.plugins.coscheduling import debug
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration as decl
from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache
from tests.vectors.area import Json
from tests.vectors.gangs.differences import DIFFERENCES
from tests.vectors.gangs.history import history

if TYPE_CHECKING:
    import random

    from koord.controllers.scheduler.plugins.coscheduling.state.gangs import Gang

__all__ = ["COVERAGE", "DIFFERENCES", "SEED", "answer", "inputs"]
SEED = 20263
_OTHERS = "the rest counts gangs for an auditor, or reads tombstones and objects of another kind"
COVERAGE = dict.fromkeys(
    [
        "core/gang_cache.go:onPodDelete", "core/gang_cache.go:onPodGroupAdd",
        "core/gang_cache.go:onPodGroupDelete", "core/gang_cache.go:onPodGroupUpdate",
        "core/gang_cache.go:onPodUpdate",
    ],
    _OTHERS,
)  # fmt: skip
_SAID = {
    "minimum": "minRequiredNumber", "total": "totalChildrenNum", "mode": "mode",
    "policy": "gangMatchPolicy", "wait": "waitTime", "groups": "gangGroup", "from": "gangFrom",
    "once": "onceResourceSatisfied",
}  # fmt: skip
_PODS = {
    "children": "children", "pending": "pendingChildren", "waiting": "waitingForBindChildren",
    "bound": "boundChildren",
}  # fmt: skip


def inputs(draw: random.Random) -> list[Json]:
    """Histories; in four of ten hardly anything is as it should be."""
    return [history(draw, wild=at % 5 > 2) for at in range(800)]


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    cache = GangCache(decl.GangDefaults(600.0, case["policy"]), lambda: 0.0, lambda uids: None)
    permits: list[bool] = []
    for step in case["steps"]:
        if "group" in step:
            group = codec.convert(step["group"], PodGroup, "PodGroup")
            (cache.pod_group_deleted if step["do"] == "delete" else cache.pod_group_changed)(group)
        else:
            _pod_step(cache, step["do"], codec.convert(step["pod"], Pod, "Pod"), permits)
    return {"permits": permits, "gangs": {key: _state(gang) for key, gang in cache.gangs.items()}}


def _pod_step(cache: GangCache, do: str, pod: Pod, permits: list[bool]) -> None:
    uid = pod.metadata.uid
    if do in ("add", "update"):
        cache.pod_changed(pod)
    elif do == "delete":
        cache.pod_deleted(uid)
    elif do == "permit":
        cache.reserved(uid)
        gang = cache.of(uid)
        permits.append(gang is not None and cache.missing(gang) == 0)
    elif do == "release":
        cache.unreserved(uid)
    else:
        cache.bound(uid)


def _state(gang: Gang) -> Json:
    known = debug.summary(gang)
    found: dict[str, Any] = {name: list(known[key]) for name, key in _PODS.items()}
    found |= {"valid": gang.missing() == 0, "declared": known["hasGangInit"]}
    if found["declared"]:
        found |= {name: known[key] for name, key in _SAID.items()}
    return found
