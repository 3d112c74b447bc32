# SPDX-License-Identifier: Apache-2.0
"""Objects of the cases of admission."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

Json = Any
BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"
_KEYS = ("app", "team", "a", "b")
_VALUES = ("web", "db", "x", "")
CLASSES = {
    name: {
        "metadata": {"name": name}, "value": value,
        **({} if policy is None else {"preemptionPolicy": policy}),
    }
    for name, value, policy in (
        ("koord-prod", 9999, "PreemptLowerPriority"), ("koord-mid", 7000, None),
        ("koord-batch", 5999, "Never"), ("koord-free", 3000, None), ("plain", 17, None),
    )
}  # fmt: skip
_CPUS = ("1", "500m", "1500m", 2, "0", "100u", "1k")
_MEMORY = ("4Gi", "1G", 1024, "512Mi", "0")
GPU_AMOUNTS: dict[str, tuple[Json, ...]] = {
    "koordinator.sh/gpu": (0, 50, "100", "200", 150, 250),
    "koordinator.sh/gpu-core": (50, 100, "200", 150),
    "koordinator.sh/gpu-memory-ratio": (50, "100", 200, 300, 150, 0),
    "koordinator.sh/gpu-memory": ("8Gi", "0"),
    "koordinator.sh/gpu.shared": (0, 1, "2", 4),
    "huawei.com/npu-core": (0, 4),
}


def chance(draw: random.Random, share: float) -> bool:
    """Whether it happens."""
    return draw.random() < share


def labels_of(draw: random.Random, *, with_classes: bool = False) -> dict[str, str]:
    """Labels of pods and namespaces."""
    found = {key: draw.choice(_VALUES) for key in draw.sample(_KEYS, draw.randint(0, 3))}
    if with_classes:
        if chance(draw, 0.4):
            found["koordinator.sh/qosClass"] = draw.choice(["BE", "LS", "LSR", "LSE", "x"])
        if chance(draw, 0.15):
            found["koordinator.sh/priority-class"] = draw.choice(["koord-batch", "koord-prod", "x"])
        if chance(draw, 0.15):
            found["koordinator.sh/priority"] = draw.choice(["1", "2"])
    return found


def _amounts(draw: random.Random) -> Json:
    found: dict[str, Json] = {}
    for name, values, share in (
        ("cpu", _CPUS, 0.5), ("memory", _MEMORY, 0.5), (BATCH_CPU, (500, "1k", "0"), 0.15),
        (BATCH_MEMORY, _MEMORY, 0.1), ("kubernetes.io/mid-cpu", (250,), 0.05),
    ):  # fmt: skip
        if chance(draw, share):
            found[name] = draw.choice(values)
    if chance(draw, 0.3):
        for name in draw.sample(sorted(GPU_AMOUNTS), draw.randint(1, 3)):
            found[name] = draw.choice(GPU_AMOUNTS[name])
    return found


def _container(draw: random.Random, name: str) -> Json:
    found: Json = {"name": name}
    if chance(draw, 0.92):
        found["resources"] = {
            part: _amounts(draw) for part in ("requests", "limits") if chance(draw, 0.8)
        }
    return found


def pod_spec(draw: random.Random) -> Json:
    """The spec of a pod or template."""
    names = ["main", "side"][: draw.choice([1, 1, 2])]
    spec: Json = {"containers": [_container(draw, name) for name in names]}
    if chance(draw, 0.25):
        spec["initContainers"] = [_container(draw, "init")]
    if chance(draw, 0.2):
        spec["overhead"] = {"cpu": draw.choice(_CPUS), "memory": "100Mi"}
    if chance(draw, 0.3):
        spec["priority"] = draw.choice([5500, 7500, 9500, 3500, 0, 100])
    if chance(draw, 0.25):
        term = {
            "matchExpressions": [_POOL, {"key": "z", "operator": "Exists"}][: draw.randint(0, 2)]
        }
        terms = [term, {}][: draw.randint(0, 2)]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        spec["affinity"] = {"nodeAffinity": required}
    return spec


_POOL = {"key": "pool", "operator": "In", "values": ["a"]}


def _selector(draw: random.Random) -> Json:
    found: dict[str, Any] = {}
    if chance(draw, 0.6):
        found["matchLabels"] = {draw.choice(_KEYS): draw.choice(_VALUES)}
    if chance(draw, 0.3):
        operator = draw.choice(["In", "NotIn", "Exists", "DoesNotExist"])
        if chance(draw, 0.06):
            operator = "Near"
        each: dict[str, Any] = {"key": draw.choice(_KEYS), "operator": operator}
        if operator in ("In", "NotIn"):
            each["values"] = draw.sample(_VALUES, draw.randint(1, 2))
        found["matchExpressions"] = [each]
    return found


_PATCHES: tuple[Json, ...] = (
    {"metadata": {"labels": {"patched": "1", "team": None}}},
    {"spec": {"terminationGracePeriodSeconds": 5, "tolerations": [{"key": "t"}]}},
    {"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "1"}]}]}},
    {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}},
    {"spec": {"containers": [{"name": "new", "resources": {"limits": {"cpu": "1"}}}]}},
    {"metadata": {"annotations": {"$patch": "replace", "only": "this"}}},
    {"spec": {"overhead": {"cpu": "250m"}}},
)
_TEMPLATE_PATCHES: tuple[Json, ...] = (
    {"metadata": {"labels": {"patched": "1"}}},
    {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "i"}]}}}},
    {"spec": {"ttl": "1h0m0s"}},
)
BAD_PATCHES: tuple[Json, ...] = (
    {"$patch": "unheard-of"}, {"spec": {"containers": "none"}}, {"metadata": {"labels": {"a": 1}}},
)  # fmt: skip
BAD_TEMPLATE_PATCHES: tuple[Json, ...] = (
    {"$patch": "unheard-of"}, {"spec": {"template": "none"}}, {"metadata": {"labels": {"a": 1}}},
    {"spec": {"template": {"spec": {"containers": [{"image": "nameless"}]}}}},
)  # fmt: skip


def profile(draw: random.Random, name: str, *, of_pods: bool) -> Json:
    """A ClusterColocationProfile; suffixes and mappings have one outcome."""
    patches = _PATCHES if of_pods else _TEMPLATE_PATCHES
    bad = BAD_PATCHES if of_pods else BAD_TEMPLATE_PATCHES
    makers: dict[str, Any] = {
        "labels": lambda: {draw.choice(_KEYS): f"by-{name}"},
        "annotations": lambda: {draw.choice(_KEYS): f"by-{name}"},
        "labelKeysMapping": lambda: {draw.choice(_KEYS): f"new-{name}"},
        "annotationKeysMapping": lambda: {draw.choice(_KEYS): f"new-{name}"},
        "labelSuffixes": lambda: {draw.choice(_KEYS): f"-of-{name}"},
        "schedulerName": lambda: "koord-scheduler",
        "qosClass": lambda: draw.choice(["BE", "BE", "LS", "LSR"]),
        "priorityClassName": lambda: draw.choice(["koord-batch", "koord-batch", *CLASSES]),
        "koordinatorPriority": lambda: draw.choice([0, 1111, -1]),
        "patch": lambda: draw.choice(bad if chance(draw, 0.12) else patches),
    }
    spec = {key: make() for key, make in makers.items() if chance(draw, 0.3)}
    for key, share in (("selector", 0.5), ("namespaceSelector", 0.3)):
        if chance(draw, share):
            spec[key] = _selector(draw)
    if chance(draw, 0.3):
        spec["probability"] = draw.choice([0, 30, "50%", "100%", 100])
        if chance(draw, 0.1):
            spec["probability"] = draw.choice(["x", "30"])
    meta: Json = {"name": name}
    if chance(draw, 0.15):
        meta["annotations"] = {"config.koordinator.sh/skip-update-resources": ""}
    return {"metadata": meta, "spec": spec}


def quota(draw: random.Random, name: str, *, bound: bool) -> Json:
    """An ElasticQuota, in the namespace of its name or elsewhere."""
    labels = {}
    if chance(draw, 0.7):
        labels["quota.scheduling.koordinator.sh/tree-id"] = draw.choice(["1", "2", ""])
    if chance(draw, 0.5):
        labels["quota.scheduling.koordinator.sh/is-parent"] = draw.choice(["true", "false"])
    meta: Json = {"name": name, "namespace": draw.choice([name, "kube-system"]), "labels": labels}
    if bound:
        meta["annotations"] = {"quota.scheduling.koordinator.sh/namespaces": '["d"]'}
    return {"metadata": meta, "spec": {}}


def quota_profile(draw: random.Random, name: str) -> Json:
    """An ElasticQuotaProfile; its labels come in one order only, so there is one."""
    tree = {"quota.scheduling.koordinator.sh/tree-id": draw.choice(["1", "2"])}
    selector: Json = draw.choice([
        {"matchLabels": {"pool": "a"}}, {},
        {"matchLabels": {"pool": "a"}, "matchExpressions": [{"key": "gpu", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x", "y"]}]},
    ])  # fmt: skip
    return {
        "metadata": {"name": name, "namespace": "n", "labels": tree},
        "spec": {"quotaName": name, "nodeSelector": selector},
    }


def reservation(draw: random.Random) -> Json:
    """A Reservation."""
    found: Json = {
        "metadata": {"name": "r", "labels": labels_of(draw, with_classes=True)},
        "spec": {"owners": [{"object": {"name": "p", "namespace": "d"}}]},
    }
    if chance(draw, 0.9):
        found["spec"]["template"] = {"spec": pod_spec(draw)}
    return found
