# SPDX-License-Identifier: Apache-2.0
"""Where koord's gangs are meant to be others than the original's."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from tests.vectors.area import Difference
from tests.vectors.gangs.facts import Facts, is_whole, named_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.vectors.area import Json

_ONCE = "once-satisfied"


def _as_ours(theirs: Json, ours: Json, gangs: Iterable[str], facts: Facts) -> Json:
    """The original's answer with koord's states of some gangs, and the pods of the history."""
    states = {key: state for key, state in theirs["gangs"].items() if key not in gangs}
    for gang in set(gangs) & set(ours["gangs"]):
        states[gang] = {**ours["gangs"][gang], **_members(facts.pods.get(gang, {}))}
    return {**theirs, "gangs": states}


def _members(pods: dict[str, str]) -> dict[str, list[str]]:
    found = {"children": sorted(pods)}
    for name in ("pending", "waiting", "bound"):
        found[name] = sorted(key for key, where in pods.items() if where == name)
    return found


def _forgotten(case: Json, theirs: Json, ours: Json) -> Json:
    facts = Facts(case)
    return _as_ours(theirs, ours, facts.forgotten, facts)


def _refused(case: Json, theirs: Json, ours: Json) -> Json:
    facts = Facts(case)
    return _as_ours(theirs, ours, facts.refused, facts)


def _ended(case: Json, theirs: Json, ours: Json) -> Json:
    facts = Facts(case)
    found = copy.deepcopy(_as_ours(theirs, ours, facts.emptied, facts))
    for state in found["gangs"].values():
        for name in ("children", "pending"):
            state[name] = [key for key in state[name] if key not in facts.ended]
    return found


def _own_member(case: Json, theirs: Json, ours: Json) -> Json:
    found = copy.deepcopy(theirs)
    for gang, state in found["gangs"].items():
        if state.get("groups"):
            state["groups"] = sorted({gang, *state["groups"]})
    return found


def _whole_list(case: Json, theirs: Json, ours: Json) -> Json:
    facts, found = Facts(case), copy.deepcopy(theirs)
    for gang, state in found["gangs"].items():
        texts = facts.lists.get(gang, [])
        broken = [sorted({gang, "", *named_in(text)}) for text in texts if not is_whole(text)]
        if state.get("groups") in broken:
            state["groups"] = [gang]
    return found


def _record(case: Json, theirs: Json, ours: Json) -> Json:
    facts, found = Facts(case), copy.deepcopy(theirs)
    shared = facts.shared
    for gang in shared & set(found["gangs"]) & set(ours["gangs"]):
        state, own = found["gangs"][gang], ours["gangs"][gang]
        if "once" not in state or "once" not in own or not _follows(gang, own, facts):
            continue
        state["once"] = own["once"]
        if state["policy"] == _ONCE:
            state["valid"] = own["valid"]
    permits = zip(facts.permits, found["permits"], ours["permits"], strict=True)
    found["permits"] = [
        mine if gang in shared else their for (gang, _), their, mine in permits
    ]  # fmt: skip
    return found


def _follows(gang: str, own: Json, facts: Facts) -> bool:
    """Whether bound pods allow what koord says of a gang."""
    return bool(facts.company(gang) & facts.bound) if own["once"] else not own["bound"]


def _alone(case: Json, theirs: Json, ours: Json) -> Json:
    facts = Facts(case)
    permits = zip(facts.permits, theirs["permits"], ours["permits"], strict=True)
    found = []
    for (gang, bound), their, mine in permits:
        policy = ours["gangs"].get(gang, {}).get("policy", _ONCE)
        goes = mine and bound and policy == _ONCE and len(facts.company(gang)) > 1
        found.append(goes or their)
    return {**theirs, "permits": found}


DIFFERENCES = {
    "gang-deleted-podgroup": Difference(
        "pods stay in a gang whose PodGroup goes", adjusted=_forgotten,
    ),
    "gang-refused-declaration": Difference(
        "what asks for a negative minimum or an unreadable topology declares no gang",
        adjusted=_refused,
    ),
    "gang-ended-pod": Difference(
        "a pod that ended before it had a node is of no gang", adjusted=_ended,
    ),
    "gang-own-group": Difference(
        "a gang is in its own group, and once", adjusted=_own_member,
    ),
    "gang-malformed-groups": Difference(
        "a list of groups that cannot be read whole counts as not said", adjusted=_whole_list,
    ),
    "gang-satisfied-alone": Difference(
        "a gang that is satisfied once waits for no other", adjusted=_alone,
    ),
    "gang-bound-satisfies": Difference(
        "what is satisfied follows from bound pods, not from the order of what is heard",
        adjusted=_record,
    ),
}  # fmt: skip
