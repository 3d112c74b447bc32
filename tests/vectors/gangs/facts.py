# SPDX-License-Identifier: Apache-2.0
"""What happened to gangs in a history, as far as koord and the original may differ on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from koord.api.protocol import keys

if TYPE_CHECKING:
    from tests.vectors.area import Json

_OVER = ("Succeeded", "Failed")


class Facts:
    """What to know of a history, by gang id.

    Attributes:
        forgotten: gangs whose PodGroup went while they had pods.
        refused: gangs that asked for a negative minimum, or for a topology that cannot be read.
        ended: pods that ended before they had a node, by key.
        emptied: gangs whose last pod ended so.
        lists: what was said of ``groups``, in order.
        records: gangs whose record of what was satisfied the original takes from elsewhere: it was
            made before its ``groups`` were known, its ``groups`` changed, or none was pending when
            its PodGroup made it complete.
        permits: for each pod at Permit its gang, and whether a pod of its group was bound.
        pods: the pods of each gang by key, with where they are.
        bound: gangs that ever had a bound pod.
    """

    def __init__(self, case: Json) -> None:
        self.forgotten: set[str] = set()
        self.refused: set[str] = set()
        self.ended: set[str] = set()
        self.emptied: set[str] = set()
        self.records: set[str] = set()
        self.lists: dict[str, list[str]] = {}
        self.permits: list[tuple[str, bool]] = []
        self.pods: dict[str, dict[str, str]] = {}
        self.bound: set[str] = set()
        self._group_given: set[str] = set()
        self._declared: set[str] = set()
        for step in case["steps"]:
            if "group" in step:
                self._of_group(step["do"], step["group"])
            else:
                self._of_pod(step["do"], step["pod"])

    def company(self, gang: str) -> set[str]:
        """The gangs that ever were named together with one."""
        found = {gang}
        for owner, lists in self.lists.items():
            for text in lists:
                named = {owner, *named_in(text)}
                found |= named if gang in named else set()
        return found

    @property
    def shared(self) -> set[str]:
        """Gangs whose group has a gang in it that the two see with other eyes."""
        odd = self.forgotten | self.refused | self.emptied | self.records
        for gang, lists in self.lists.items():
            if not all(is_plain(gang, text) for text in lists):
                odd.add(gang)
        return {mate for gang in odd for mate in self.company(gang)}

    def _of_group(self, do: str, group: Json) -> None:
        gang = f"d/{group['metadata']['name']}"
        pods = self.pods.get(gang, {})
        if do == "delete":
            self._group_given.discard(gang)
            if pods:
                self.forgotten.add(gang)
            return
        if gang in self._declared and gang not in self._group_given:
            self.records.add(gang)
        self._group_given.add(gang)
        self._declared.add(gang)
        if group["spec"]["minMember"] < 0:
            self.refused.add(gang)
        complete = len(pods) >= group["spec"]["minMember"]
        if "bound" in pods.values() or (complete and "pending" not in pods.values()):
            self.records.add(gang)
        self._said(gang, group["metadata"]["annotations"])

    def _said(self, gang: str, notes: dict[str, str]) -> None:
        text = notes.get(keys.GANG_GROUPS, "")
        before = self.lists.setdefault(gang, [])
        if before and set(named_in(before[-1])) != set(named_in(text)):
            self.records.add(gang)
        before.append(text)
        topology = notes.get(keys.GANG_NETWORK_TOPOLOGY_SPEC, "")
        if topology == "{":
            self.refused.add(gang)

    def _of_pod(self, do: str, pod: Json) -> None:
        meta = pod["metadata"]
        labels, notes, key = meta["labels"], meta["annotations"], f"d/{meta['name']}"
        named = labels.get(keys.POD_GROUP) or labels.get(keys.POD_GROUP_OLD)
        gang = f"d/{named or notes[keys.GANG_NAME]}"
        pods = self.pods.setdefault(gang, {})
        if do == "delete":
            pods.pop(key, None)
            return
        if do == "permit":
            mates = self.company(gang)
            self.permits.append((gang, bool(mates & self.bound)))
        ended = pod["status"].get("phase") in _OVER and not pod["spec"]
        if ended:
            pods.pop(key, None)
            self.ended.add(key)
            if not pods:
                self.emptied.add(gang)
            return
        is_bound = do == "bind" or "nodeName" in pod["spec"]
        if is_bound or do != "update":
            pods[key] = "bound" if is_bound else "waiting" if do == "permit" else "pending"
        if is_bound:
            self.bound.add(gang)
        if not labels.get(keys.POD_GROUP):
            self._declares(gang, labels, notes)

    def _declares(self, gang: str, labels: dict[str, str], notes: dict[str, str]) -> None:
        least = labels.get(keys.POD_GROUP_MIN_AVAILABLE_OLD) or notes.get(keys.GANG_MIN_AVAILABLE)
        if gang in self._declared:
            return
        if least is None or not least.lstrip("+-").isdigit() or int(least) >= 1 << 31:
            # The record is that of the gang alone from here on.
            self.records.add(gang)
            self.lists.setdefault(gang, []).append(notes.get(keys.GANG_GROUPS, ""))
            return
        if int(least) < 0:
            self.refused.add(gang)
        self._declared.add(gang)
        self._said(gang, notes)


def named_in(text: str) -> list[str]:
    """The gangs of a text for ``groups``; those that can be read where not all can."""
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return []
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


def is_whole(text: str) -> bool:
    """Whether all that a text for ``groups`` lists are names."""
    try:
        found = json.loads(text or "[]")
    except ValueError:
        return True
    return not isinstance(found, list) or all(isinstance(each, str) for each in found)


def is_plain(gang: str, text: str) -> bool:
    """Whether a gang's list is whole and names itself, and nobody twice."""
    named = named_in(text)
    return is_whole(text) and (not named or (gang in named and len(named) == len(set(named))))
