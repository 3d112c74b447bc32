# SPDX-License-Identifier: Apache-2.0
"""Random histories of gangs: as the API and the scheduler would tell of them."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys

if TYPE_CHECKING:
    import random

    from tests.vectors.area import Json

GANGS = ["a", "b", "c"]
_POLICIES = ["once-satisfied", "waiting-and-running", "only-waiting"]
_BAD_NUMBERS = ["", "x", "1.5", "-1", "+2", " 2", "1_0", "0x2", "99999999999", "2147483648"]
_WAITS = ["30s", "1h30m", "1.5s", "250ms", "0", "-5s", "soon", "", "5", "1d", "2562047h"]
_GROUPS = [
    "", "[]", "null", "{", '"d/a"', "{}", '["d/b"]', '["d/c","d/a"]', '["d/b","d/a","d/a"]',
    '["d/a",1]', '["d/a",null]', '["d/x","d/a"]', '["e/a"]', '["d/a","d/b","d/c"]',
]  # fmt: skip
_PARTITIONS = [[["a"], ["b"], ["c"]], [["a", "b"], ["c"]], [["a", "b", "c"]], [["a"], ["b", "c"]]]


class _World:
    """What there is, and what may come next."""

    def __init__(self, draw: random.Random, *, wild: bool) -> None:
        self.draw = draw
        self.wild = wild
        self.steps: list[Json] = []
        self.pods: dict[str, Json] = {}
        self.held: set[str] = set()
        self.groups: dict[str, Json] = {}
        self.partition = draw.choice(_PARTITIONS)
        self.style = {gang: draw.choice(["group", "group", "old", "notes"]) for gang in GANGS}
        self.notes = {gang: self._notes(gang) for gang in GANGS}
        self.number = 0

    def odd(self, share: float = 0.25) -> bool:
        return self.wild and self.draw.random() < share

    def _notes(self, gang: str) -> dict[str, str]:
        draw, found = self.draw, {}
        company = next(each for each in self.partition if gang in each)
        if len(company) > 1:
            names = draw.sample(company, len(company))
            found[keys.GANG_GROUPS] = "[" + ",".join(f'"d/{name}"' for name in names) + "]"
        if self.odd():
            found[keys.GANG_GROUPS] = draw.choice(_GROUPS)
        if draw.random() < 0.5:
            policy = draw.choice(_POLICIES) if draw.random() < 0.85 else draw.choice(["", "Once"])
            found[draw.choice([keys.GANG_MATCH_POLICY, keys.POD_GROUP_MATCH_POLICY])] = policy
        if draw.random() < 0.1:
            found[keys.POD_GROUP_MATCH_POLICY] = draw.choice(_POLICIES)
        if draw.random() < 0.4:
            found[keys.GANG_MODE] = draw.choice(["Strict", "NonStrict", "nonstrict", ""])
        if draw.random() < 0.4:
            found[keys.GANG_TOTAL_NUMBER] = draw.choice(["1", "3", "7", *_BAD_NUMBERS])
        if self.odd(0.1):
            found[keys.GANG_NETWORK_TOPOLOGY_SPEC] = draw.choice(["", "{}", "{", "null"])
        return found

    def _group(self, gang: str) -> Json:
        draw = self.draw
        spec: dict[str, Any] = {"minMember": draw.choice([1, 1, 2, 2, 3])}
        if draw.random() < 0.1:
            spec["minMember"] = draw.choice([0, -1]) if self.wild else 0
        if draw.random() < 0.4:
            spec["scheduleTimeoutSeconds"] = draw.choice([1, 90, 3600, 0, -4])
        meta = {"namespace": "d", "name": gang, "annotations": dict(self.notes[gang])}
        return {"metadata": meta, "spec": spec, "status": {"phase": draw.choice(["", "Running"])}}

    def group(self) -> None:
        """A PodGroup comes, changes or goes."""
        draw, gang = self.draw, self.draw.choice(GANGS)
        if self.style[gang] != "group" and not self.odd(0.3):
            return self.pod()
        if gang in self.groups and draw.random() < 0.25:
            empty = not any(self.gang_of(pod) == gang for pod in self.pods.values())
            if empty or self.odd(0.5):
                self.steps.append({"do": "delete", "group": self.groups.pop(gang)})
                return None
        if gang in self.groups:
            groups = self.notes[gang].get(keys.GANG_GROUPS)
            self.notes[gang] = self._notes(gang)
            if groups is not None and not self.wild:
                self.notes[gang][keys.GANG_GROUPS] = groups
        do = "update" if gang in self.groups else "add"
        self.groups[gang] = self._group(gang)
        self.steps.append({"do": do, "group": copy.deepcopy(self.groups[gang])})
        return None

    @staticmethod
    def gang_of(pod: Json) -> str:
        """The gang's name of a pod."""
        meta = pod["metadata"]
        labels, notes = meta["labels"], meta["annotations"]
        named = labels.get(keys.POD_GROUP) or labels.get(keys.POD_GROUP_OLD)
        return str(named or notes[keys.GANG_NAME])

    def pod(self) -> None:
        """A pod comes, without a node or found with one."""
        draw, gang = self.draw, self.draw.choice(GANGS)
        style = draw.choice(["group", "old", "notes"]) if self.odd(0.2) else self.style[gang]
        if style == "group" and gang not in self.groups and not self.odd():
            self.style[gang] = "group"
            self.groups[gang] = self._group(gang)
            self.steps.append({"do": "add", "group": copy.deepcopy(self.groups[gang])})
        name = f"p{self.number}"
        self.number += 1
        labels, notes = self._words(gang, style)
        meta = {"namespace": "d", "name": name, "uid": f"u-{name}", "labels": labels}
        pod: Json = {"metadata": {**meta, "annotations": notes}, "spec": {}, "status": {}}
        if draw.random() < 0.2:
            pod["spec"]["nodeName"] = "n"
            self.held.add(name)
        self._tell("add", name, pod)

    def _words(self, gang: str, style: str) -> tuple[dict[str, str], dict[str, str]]:
        draw = self.draw
        if style == "group":
            return {keys.POD_GROUP: gang}, {}
        notes, labels = dict(self.notes[gang]), {}
        least = draw.choice(["1", "2", "2", "3"])
        if draw.random() < 0.15:
            bad = [each for each in _BAD_NUMBERS if self.wild or each != "-1"]
            least = draw.choice([*bad, "0"])
        if draw.random() < 0.4:
            notes[keys.GANG_WAITING_TIME] = draw.choice(_WAITS)
        if style == "old":
            labels = {keys.POD_GROUP_OLD: gang, keys.POD_GROUP_MIN_AVAILABLE_OLD: least}
            if draw.random() < 0.2:
                notes[keys.GANG_MIN_AVAILABLE] = "2"
            if draw.random() < 0.1:
                del labels[keys.POD_GROUP_MIN_AVAILABLE_OLD]
        else:
            notes |= {keys.GANG_NAME: gang, keys.GANG_MIN_AVAILABLE: least}
            if draw.random() < 0.1:
                del notes[keys.GANG_MIN_AVAILABLE]
        return labels, notes

    def _tell(self, do: str, name: str, pod: Json) -> None:
        self.pods[name] = pod
        self.steps.append({"do": do, "pod": copy.deepcopy(pod)})

    def change(self) -> None:
        """The scheduler takes a pod further, or it changes, ends or goes."""
        draw = self.draw
        if not self.pods:
            return self.pod()
        name = draw.choice(sorted(self.pods))
        pod = self.pods[name]
        if draw.random() < 0.15:
            del self.pods[name]
            self.held.discard(name)
            self.steps.append({"do": "delete", "pod": pod})
        elif pod["status"]:
            return self.pod()
        elif pod["spec"]:
            if draw.random() < 0.3:
                pod["status"] = {"phase": draw.choice(["Succeeded", "Failed"])}
            self._tell("update", name, pod)
        elif name not in self.held:
            if self.odd(0.1):
                pod["status"] = {"phase": "Failed"}
                self._tell("update", name, pod)
                return None
            self.held.add(name)
            self._tell("permit", name, pod)
        else:
            self._further(name, pod)
        return None

    def _further(self, name: str, pod: Json) -> None:
        chance = self.draw.random()
        if chance < 0.25:
            self.held.discard(name)
            self._tell("release", name, pod)
        elif chance < 0.4:
            self._tell("update", name, pod)
        else:
            if chance < 0.7:
                self._tell("bind", name, pod)
            pod["spec"]["nodeName"] = "n"
            self._tell("update", name, pod)


def history(draw: random.Random, *, wild: bool) -> Json:
    """Some three to twelve steps; malformed and contrary ones only if wild."""
    world = _World(draw, wild=wild)
    for _ in range(draw.randint(3, 12)):
        chance = draw.random()
        (world.group if chance < 0.2 else world.pod if chance < 0.5 else world.change)()
    return {"policy": draw.choice([*_POLICIES, "once-satisfied"]), "steps": world.steps[:12]}
