# SPDX-License-Identifier: Apache-2.0
"""Histories of quotas, pods and nodes, as steps: small trees, tight amounts, many changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    import random

    from tests.vectors.area import Json

_RESOURCES = ["cpu", "memory", "nvidia.com/gpu"]
_TEXTS = {
    "cpu": ["0", "1", "2", "500m", "1500m", "7", "10", "33", "100", "333m", "1m"],
    "memory": ["0", "1Gi", "2Gi", "7Gi", "10Gi", "100", "1", "512Mi", "1G", "333"],
    "nvidia.com/gpu": ["0", "1", "2", "3", "8", "100"],
}
_PARTS = [0, 0, 1, 10, 25, 33, 50, 50, 75, 100, 100]


def inputs(draw: random.Random) -> list[Json]:
    """Cases asked for figures, then for the admission of a pod, then for preemption."""
    counts = {"figures": 300, "admit": 200, "preempt": 60}
    return [_case(draw, kind) for kind, count in counts.items() for _ in range(count)]


def _case(draw: random.Random, kind: str) -> Json:
    history = _History(draw)
    case: dict[str, Any] = {
        "kind": kind, "scale": draw.random() < 0.7, "parents": draw.random() < 0.4,
        "runtime": draw.random() < 0.85, "spareDefault": draw.random() < 0.6,
        "guarantee": draw.random() < 0.2, "reset": draw.random() < 0.6,
        "defaultMax": _amounts(draw, draw.sample(_RESOURCES, 2)),
        "systemMax": _amounts(draw, ["cpu", "memory"]),
    }  # fmt: skip
    history.make(draw.randint(4, 25))
    names = sorted(history.pods)
    if kind == "admit":
        case["ask"] = history.asked()
    if kind == "preempt":
        history.make(6)
        names = sorted(history.pods) or [history.asked()]
        case["pairs"] = [[draw.choice(names), draw.choice(names)] for _ in range(12)]
    return case | {"steps": history.steps}


class _History:
    def __init__(self, draw: random.Random) -> None:
        self._draw = draw
        self.steps: list[Json] = []
        self.quotas: dict[str, Json] = {}
        self.pods: dict[str, Json] = {}
        self._nodes: list[str] = []
        self._made = 0
        self._claims_namespace = False
        self._kept = {"x", "d"}
        for _ in range(draw.randint(1, 2)):
            self._node()
        for _ in range(draw.randint(1, 4)):
            self._quota()

    def make(self, count: int) -> None:
        """Adds steps."""
        steps = [self._pod, self._pod, self._pod, self._bind, self._drop_pod, self._quota]
        steps += [self._change_quota, self._drop_quota, self._move, self._node, self._settle]
        for step in self._draw.choices(steps, [9, 0, 0, 5, 2, 3, 4, 1, 1, 1, 1], k=count):
            step()

    def asked(self) -> str:
        """The name of a new pod without a node."""
        self._put_pod(self._new_pod(bound=0.0))
        return f"p{self._made}"

    def _settle(self) -> None:
        self.steps.append({"do": "settle"})

    def _node(self) -> None:
        draw = self._draw
        name = draw.choice([*self._nodes, f"n{len(self._nodes)}"])
        if name in self._nodes and draw.random() < 0.3:
            self._nodes.remove(name)
            self.steps.append({"do": "dropNode", "name": name})
            return
        if name in self._nodes and draw.random() < 0.2:
            again = [each for each in self.steps if each["do"] == "node"]
            self.steps += [each for each in again if each["object"]["metadata"]["name"] == name][
                -1:
            ]
            return
        if name not in self._nodes:
            self._nodes.append(name)
        offered = {"cpu": draw.choice(["4", "10", "16", "3500m", "33"])}
        offered |= {"memory": draw.choice(["4Gi", "16Gi", "10G", "1000"])}
        offered |= {"nvidia.com/gpu": draw.choice(["1", "4", "8"])} if draw.random() < 0.6 else {}
        item = {"metadata": {"name": name}, "status": {"allocatable": offered}}
        self.steps.append({"do": "node", "object": item})

    def _quota(self) -> None:
        draw = self._draw
        if len(self.quotas) >= 8:
            return
        self._made += 1
        name, labels, notes = f"q{self._made}", {}, {}
        # Pods may name the one before it comes, and have the other by their namespace.
        name = draw.choice([*[name] * 10, *(each for each in "xd" if self._is_free(each))])
        parents = [each for each, quota in self.quotas.items() if _is_parent(quota)]
        if parents and draw.random() < 0.65:
            labels[keys.QUOTA_PARENT] = draw.choice(parents)
        if draw.random() < 0.45:
            labels[keys.QUOTA_IS_PARENT] = "true"
        if draw.random() < 0.3:
            labels[keys.QUOTA_ALLOW_LENT_RESOURCE] = draw.choice(["false", "false", "true", "no"])
        chosen = _RESOURCES if draw.random() < 0.5 else draw.sample(_RESOURCES, draw.randint(1, 3))
        most = _amounts(draw, chosen)
        spec = {"max": most, "min": _parts(draw, most)}
        if draw.random() < 0.4:
            weights = draw.choice(["", "{}", "null", "[", None, None, None, None, None])
            weights = json.dumps(_weights(draw, chosen)) if weights is None else weights
            notes[keys.QUOTA_SHARED_WEIGHT] = weights
        if name == "d" or (draw.random() < 0.1 and not self._claims_namespace):
            self._claims_namespace = True
            if name != "d":
                notes[keys.QUOTA_NAMESPACES] = '["e", "d"]'
            self._kept.add(name)
        meta = {"name": name, "namespace": "d", "labels": labels, "annotations": notes}
        self._put_quota({"metadata": meta, "spec": spec})

    def _is_free(self, name: str) -> bool:
        return name not in self.quotas and not (name == "d" and self._claims_namespace)

    def _put_quota(self, quota: Json) -> None:
        self.quotas[quota["metadata"]["name"]] = quota
        self.steps.append({"do": "quota", "object": json.loads(json.dumps(quota))})

    def _change_quota(self) -> None:
        draw = self._draw
        if not self.quotas:
            return
        quota = json.loads(json.dumps(self.quotas[draw.choice(sorted(self.quotas))]))
        spec, meta = quota["spec"], quota["metadata"]
        what = draw.choice(["max", "min", "min", "weight", "lent", "parent"])
        if what == "max":
            spec["max"] = most = _amounts(draw, list(spec["max"]))
            spec["min"] = _parts(draw, most)
        elif what == "min":
            spec["min"] = _parts(draw, spec["max"])
        elif what == "weight":
            weights = json.dumps(_weights(draw, list(spec["max"])))
            meta["annotations"][keys.QUOTA_SHARED_WEIGHT] = weights
        elif what == "lent":
            lent = draw.choice(["true", "false"])
            meta["labels"][keys.QUOTA_ALLOW_LENT_RESOURCE] = lent
        elif not self._children(meta["name"]):
            meta["labels"][keys.QUOTA_IS_PARENT] = draw.choice(["true", "false"])
        self._put_quota(quota)

    def _move(self) -> None:
        draw = self._draw
        if not self.quotas:
            return
        quota = json.loads(json.dumps(self.quotas[draw.choice(sorted(self.quotas))]))
        below = self._below(quota["metadata"]["name"])
        parents = [n for n, each in self.quotas.items() if _is_parent(each) and n not in below]
        quota["metadata"]["labels"][keys.QUOTA_PARENT] = draw.choice([*parents, ""])
        self._put_quota(quota)

    def _drop_quota(self) -> None:
        used = {each["metadata"]["labels"].get(keys.QUOTA_NAME) for each in self.pods.values()}
        used |= self._kept
        free = [n for n in sorted(self.quotas) if n not in used and not self._children(n)]
        if free:
            name = self._draw.choice(free)
            del self.quotas[name]
            self.steps.append({"do": "dropQuota", "name": name})

    def _children(self, name: str) -> list[str]:
        return [child for child, quota in self.quotas.items() if _parent(quota) == name]

    def _below(self, name: str) -> list[str]:
        return [name] + [each for child in self._children(name) for each in self._below(child)]

    def _new_pod(self, bound: float = 0.4) -> Json:
        draw = self._draw
        self._made += 1
        name, labels = f"p{self._made}", {}
        spec: dict[str, Any] = {"priority": draw.choice([0, 0, 5, 9, 9])}
        if draw.random() < 0.93:
            labels[keys.QUOTA_NAME] = draw.choice([*sorted(self.quotas), *sorted(self.quotas), "x"])
        if draw.random() < 0.3:
            labels[keys.QUOTA_PREEMPTIBLE] = draw.choice(["false", "false", "true", ""])
        if draw.random() < bound:
            spec["nodeName"] = "n0"
        asked = _amounts(draw, draw.sample(_RESOURCES, draw.randint(0, 3)))
        spec["containers"] = [{"name": "c", "resources": {"requests": asked}}]
        if draw.random() < 0.1:
            spec["overhead"] = {"cpu": "100m"}
        meta = {"name": name, "namespace": "d", "uid": name, "labels": labels}
        return {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}

    def _put_pod(self, pod: Json) -> None:
        self.pods[pod["metadata"]["name"]] = pod
        self.steps.append({"do": "pod", "object": json.loads(json.dumps(pod))})

    def _pod(self) -> None:
        self._put_pod(self._new_pod())

    def _bind(self) -> None:
        """A pod gets a node, another quota or another request."""
        draw = self._draw
        if not self.pods:
            return
        name = draw.choice(sorted(self.pods))
        old, other = self.pods[name], self._new_pod(0.9)
        pod = json.loads(json.dumps(old))
        if draw.random() < 0.3:
            pod["metadata"]["labels"] = other["metadata"]["labels"]
        # Who moves out of the default group is told of there with the first request.
        if draw.random() < 0.2 and old["metadata"]["labels"].get(keys.QUOTA_NAME) in self.quotas:
            pod["spec"]["containers"] = other["spec"]["containers"]
        pod["spec"].setdefault("nodeName", "n0")
        self._put_pod(pod)

    def _drop_pod(self) -> None:
        if self.pods:
            name = self._draw.choice(sorted(self.pods))
            del self.pods[name]
            self.steps.append({"do": "dropPod", "name": name})


def _is_parent(quota: Json) -> bool:
    return bool(quota["metadata"]["labels"].get(keys.QUOTA_IS_PARENT) == "true")


def _parent(quota: Json) -> str:
    parent: str = quota["metadata"]["labels"].get(keys.QUOTA_PARENT, "")
    return parent


def _amounts(draw: random.Random, names: list[str]) -> dict[str, str]:
    return {name: draw.choice(_TEXTS[name]) for name in names}


def _weights(draw: random.Random, names: list[str]) -> dict[str, str]:
    found = _amounts(draw, [name for name in names if draw.random() < 0.8])
    return found | ({"other": "1"} if draw.random() < 0.1 else {})


def _parts(draw: random.Random, most: dict[str, str]) -> dict[str, str]:
    """At most that, in some of the resources."""
    found = {}
    for name, text in most.items():
        if draw.random() < 0.75:
            part = Quantity.parse(text).milli() * draw.choice(_PARTS) // 100
            whole = part if name == "cpu" else part // 1000 * 1000
            found[name] = str(Quantity.from_milli(whole))
    return found
