# SPDX-License-Identifier: Apache-2.0
"""Gangs as JSON, in Koordinator's shape (docs/reference/gangs.md#arguments-and-answers)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.timestamps import seconds_text
from koord.controllers.scheduler.plugins.coscheduling.state.gangs import MemberState

if TYPE_CHECKING:
    from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache
    from koord.controllers.scheduler.plugins.coscheduling.state.gangs import Gang, GangGroup


def gangs(cache: GangCache) -> dict[str, Any]:
    """All gangs by id, sorted."""
    return {gang_id: summary(cache.gangs[gang_id]) for gang_id in sorted(cache.gangs)}


def gang(cache: GangCache, namespace: str, name: str) -> dict[str, Any]:
    """One gang as the debug endpoint shows it in JSON.

    Raises:
        KeyError: there is no such gang.
    """
    found = cache.gangs.get(f"{namespace}/{name}")
    if found is None:
        raise KeyError(f"cannot find gang {namespace}/{name}")
    return summary(found)


def summary(gang: Gang) -> dict[str, Any]:
    """A gang; sets of pods are maps of their keys to nothing, times of waiting in nanoseconds."""
    declared = gang.declared
    source = "GangFromPodGroupCrd" if declared and declared.from_pod_group else ""
    return {
        "name": gang.id,
        "waitTime": round(declared.wait_seconds * 1e9) if declared else 0,
        "createTime": seconds_text(gang.created_seconds),
        "mode": declared.mode if declared else "",
        "gangMatchPolicy": declared.policy if declared else "",
        "minRequiredNumber": gang.minimum,
        "totalChildrenNum": declared.total if declared else 0,
        "gangGroup": list(declared.groups) if declared else [],
        "children": _keys(gang, *MemberState),
        "pendingChildren": _keys(gang, MemberState.PENDING),
        "waitingForBindChildren": _keys(gang, MemberState.WAITING),
        "boundChildren": _keys(gang, MemberState.BOUND),
        "onceResourceSatisfied": gang.group is not None and gang.group.once_satisfied,
        "gangGroupInfo": _group(gang.group, gang) if gang.group else None,
        "gangFrom": source or ("GangFromPodAnnotation" if declared else ""),
        "hasGangInit": declared is not None,
        "error": gang.error,
    }


def _group(group: GangGroup, gang: Gang) -> dict[str, Any]:
    waiting = list(group.gangs) if gang.count(MemberState.WAITING) else []
    return {
        "Initialized": True,
        "GangGroupId": group.id,
        "GangGroup": list(group.gangs),
        "OnceResourceSatisfied": group.once_satisfied,
        "WaitingGangIDs": {key: {} for key in waiting},
        "RepresentativePodKey": "",
        "BindingMemberPods": {uid: {} for uid in sorted(group.round)},
    }


def _keys(gang: Gang, *states: MemberState) -> dict[str, Any]:
    keys = sorted(member.key for member in gang.members.values() if member.state in states)
    return {key: {} for key in keys}
