# SPDX-License-Identifier: Apache-2.0
"""Evictions of the node agent: what is to be released, who goes, and in which order."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from koord.agent.strategies.cpuevict.strategy import CPUEvict
from koord.agent.strategies.memoryevict.strategy import MemoryEvict
from koord.agent.strategies.options import StrategyOptions
from koord.agent.strategies.strategy import Actuators
from koord.base.errors import KoordError
from tests.agent.strategies.fakes import FakeEvictor
from tests.agent.strategies.options import gates
from tests.vectors.agent import documents
from tests.vectors.agent.scene import Scene
from tests.vectors.area import Difference

SEED = 20271
_COUNT = 800
_GIB = 2**30
_GATES = {
    "cpu": ["BECPUEvict", "CPUAllocatableEvict", "CPUEvict"],
    "memory": ["BEMemoryEvict", "MemoryAllocatableEvict", "MemoryEvict"],
}
_STRATEGIES = {"cpu": CPUEvict, "memory": MemoryEvict}
_LABEL = "koordinator.sh/"


def inputs(rng: Random) -> list[dict[str, Any]]:
    """Nodes of up to eight pods, two to four rounds each."""
    return [_case(rng) for _ in range(_COUNT)]


def answer(case: dict[str, Any]) -> object:
    """By round: the pods that were asked to go, for which feature; amounts; what is not valid."""
    evictor = FakeEvictor(frozenset(f"uid-{name}" for name in case["refused"]))
    strategy = _STRATEGIES[case["strategy"]](StrategyOptions(gates=gates(*case["gates"])))
    rounds, passed = [], 0.0
    with tempfile.TemporaryDirectory() as root:
        scene = Scene(case, Path(root))
        for seconds in case["passed"]:
            passed += seconds
            evictor.calls.clear()
            try:
                told = strategy.run(
                    scene.tick(case["samples"], passed), Actuators(scene.executor, evictor)
                )
            except KoordError:
                told = {}
            rounds.append(_round(case, told, evictor))
    return rounds


def _round(case: dict[str, Any], told: Any, evictor: FakeEvictor) -> dict[str, Any]:
    notes = told.get("notes", {})
    return {
        "calls": [[name, feature] for name, feature, _ in evictor.calls],
        "release": {
            feature: {name: amount for name, amount in amounts.items() if amount > 0}
            for feature, amounts in told.get("release", {}).items()
        },
        "invalid": [
            feature
            for feature in _GATES[case["strategy"]]
            if notes.get(feature, "").startswith("NodeSLO")
        ],
    }


def _case(rng: Random) -> dict[str, Any]:
    strategy = rng.choice(["cpu", "memory"])
    every = _GATES[strategy]
    on = rng.choice([[rng.choice(every)], rng.sample(every, 2), every])
    cores = rng.choice([4, 16, 16, 64])
    style = rng.choice(["set", "set", "set", "unset"])
    pods = [_pod(rng, f"p{at}", style) for at in range(rng.choice([0, 1, 3, 5, 6, 8]))]
    if rng.random() < 0.15:
        pods.append(_pod(rng, "mixed", "unset"))
    names = [each["metadata"]["name"] for each in pods]
    refused = rng.sample(names, min(len(names), rng.choice([0] * 4 + [1, 3])))
    case: dict[str, Any] = {
        "strategy": strategy, "gates": sorted(on, key=every.index), "refused": refused,
        "passed": [0, *(rng.choice([30, 30, 3, 8]) for _ in range(rng.choice([1, 1, 2])))],
        "node": None if rng.random() < 0.02 else _node(rng, cores),
        "slo": {"resourceUsedThresholdWithBE": _threshold(rng)},
        "pods": pods, "files": {}, "version": 2,
    }  # fmt: skip
    if rng.random() < 0.02:
        case["slo"] = {}
    case["samples"] = _samples(rng, strategy, cores, names, case["slo"])
    return case


def _node(rng: Random, cores: int) -> dict[str, Any]:
    capacity = {"cpu": str(cores), "memory": f"{4 * cores}Gi"}
    allocatable = dict(capacity)
    if rng.random() < 0.1:
        name = rng.choice(["cpu", "memory"])
        capacity[name] = "0"
        if rng.random() < 0.5:
            del capacity[name]
    for tier in ("batch", "mid"):
        if rng.random() < 0.85:
            allocatable[f"kubernetes.io/{tier}-cpu"] = str(
                rng.choice([0, 500, *[1000 * cores] * 3])
            )
            allocatable[f"kubernetes.io/{tier}-memory"] = rng.choice(["0", "777M", f"{cores}Gi"])
    return documents.node(rng, str(cores), allocatable=allocatable) | {
        "status": {"capacity": capacity, "allocatable": allocatable}
    }


def _pod(rng: Random, name: str, style: str) -> dict[str, Any]:
    tier = rng.choice(["batch", "batch", "batch", "mid", "mid", "prod", "free", "none"])
    qos = {"batch": "BE", "mid": "LS", "free": "BE"}.get(tier, rng.choice(["LS", "LSR", ""]))
    labels, annotations = {}, {}
    if rng.random() < 0.85:
        labels[f"{_LABEL}eviction-enabled"] = rng.choice(["true"] * 8 + ["false", "True"])
    if rng.random() < 0.3:
        labels[f"{_LABEL}priority"] = rng.choice(["1", "-3", "5500", "9999999999", "x", ""])
    if rng.random() < 0.25:
        annotations[f"{_LABEL}eviction-priority"] = rng.choice(["0", "-1", "7", "x", "2147483648"])
    if rng.random() < 0.2:
        annotations[f"{_LABEL}eviction-policy"] = rng.choice([
            '["BECPUEvict","CPUEvict","MemoryEvict"]', '["BEMemoryEvict","CPUAllocatableEvict"]',
            "[]", "null", "x", '"MemoryEvict"', "",
        ])  # fmt: skip
    spec: dict[str, Any] = {}
    if style == "set":
        spec["priority"] = _priority(rng, tier)
    elif rng.random() < 0.7 and tier != "none":
        labels[f"{_LABEL}priority-class"] = f"koord-{tier}"
    if rng.random() < 0.2:
        always = {"restartPolicy": "Always"} if rng.random() < 0.7 else {}
        spec["initContainers"] = [_container(rng, "i", tier) | always]
    containers = [_container(rng, mark, tier) for mark in "ab"[: rng.choice([1, 1, 2])]]
    phase = rng.choice(["Running"] * 14 + ["Pending", "Pending", "Succeeded", "Failed"])
    return documents.pod(
        name, containers, qos=qos, kube="BestEffort" if qos == "BE" else "Burstable",
        labels=labels, annotations=annotations, phase=phase, **spec,
    )  # fmt: skip


def _priority(rng: Random, tier: str) -> int:
    low = {"batch": 5000, "mid": 7000, "prod": 9000, "free": 3000}.get(tier)
    if low is None:
        return rng.choice([0, 100, 6500, -5])
    return low + rng.choice([0, 0, 1, 500, 999]) if rng.random() < 0.94 else 0


def _container(rng: Random, name: str, tier: str) -> dict[str, Any]:
    cpu, memory = "cpu", "memory"
    if tier in ("batch", "mid"):
        cpu, memory = f"kubernetes.io/{tier}-cpu", f"kubernetes.io/{tier}-memory"
    asked = {}
    if rng.random() < 0.9:
        amount = rng.choice([0, 100, 1000, 2500, 8000, rng.randint(1, 20_000)])
        asked[cpu] = f"{amount}m" if cpu == "cpu" else str(amount)
    if rng.random() < 0.9:
        asked[memory] = rng.choice(["0", "1Gi", "4Gi", "500M", f"{rng.randint(1, 9999)}Mi", "1001"])
    return documents.container(name, requests=asked)


def _threshold(rng: Random) -> dict[str, Any]:
    """A strategy that is valid in most cases, else something of it is missing or odd."""
    upper = rng.choice([0, 10, 50, 65, 80])
    found: dict[str, Any] = {
        "enable": rng.random() < 0.95,
        "evictEnabledPriorityThreshold": rng.choice([5999, 5500, 7999, 9999, 0]),
        "allocatableEvictPriorityThreshold": rng.choice([5999, 7999, 5000, 0, 8000]),
        "cpuEvictBESatisfactionLowerPercent": rng.choice([*[60, 50, 50, 34] * 3, 1, 61, 0]),
        "cpuEvictBESatisfactionUpperPercent": rng.choice([*[99, 80, 80, 60, 50] * 3, 29, 100, -1]),
        "cpuEvictBEUsageThresholdPercent": rng.choice([90, 50, 0]),
        "cpuEvictTimeWindowSeconds": rng.choice([1, 5, 9, 20, 60]),
        "cpuEvictPolicy": rng.choice(["", "evictByRealLimit", "evictByAllocatable"]),
    }
    for kind in ("cpu", "memory"):
        for field in (f"{kind}Evict", f"{kind}AllocatableEvict"):
            found[f"{field}ThresholdPercent"] = upper
            found[f"{field}LowerPercent"] = upper - rng.choice([1, 5, 30, 30])
    for name in list(found):
        if rng.random() < 0.07:
            del found[name]
    if rng.random() < 0.1:
        name = rng.choice([each for each in found if each.endswith("Percent")] or [""])
        found[name] = rng.choice([-1, 0, 100, 101])
    found.pop("", None)
    return found


def _samples(
    rng: Random, strategy: str, cores: int, names: list[str], slo: dict[str, Any]
) -> list[dict[str, Any]]:
    """Usage whose sums are exact in any order: 64ths of a core, or bytes."""
    found = []

    def use(kind: str, label: str, age: int, value: float) -> None:
        found.append({"kind": kind, "label": label, "age_ms": age, "value": value})

    busy = rng.choice([0.3, 0.7, 0.9, 1.0])
    scale, unit = (cores, 64) if strategy == "cpu" else (4 * cores * _GIB, 1)
    for age in _ages(rng):
        use(f"node_{strategy}", "", age, int(unit * scale * busy * rng.uniform(0.8, 1)) / unit)
    for name in names:
        if rng.random() < 0.93:
            age = rng.choice([100] * 9 + [1500, 3500])
            value = rng.choice([0, rng.randint(0, unit * scale // 4), unit * scale // 8]) / unit
            use(f"pod_{strategy}", f"uid-{name}", age, value)
    if strategy == "cpu":
        _tier(rng, cores, use)
    return found


def _ages(rng: Random) -> list[int]:
    count = rng.choice([0, 1, 3, 3, 8, 8, 30])
    newest = rng.choice([200] * 9 + [3300])
    return [newest + 1000 * at for at in range(count)]


def _tier(rng: Random, cores: int, use: Any) -> None:
    """Best-effort usage, requests and limit, in milli-cores."""
    limit = rng.choice([0, 500, *[1000, 1000 * cores // 4, 1000 * cores // 2] * 2])
    asked = rng.choice([0, limit, *[2 * limit, 3 * limit, 10 * limit] * 2])
    steady = rng.random() < 0.6
    ages = _ages(rng)
    for kind, amount in (("usage", limit), ("request", asked), ("real-limit", limit)):
        own = ages if rng.random() < 0.95 else ages[:1]
        for age in own:
            odd = rng.randint(amount // 2, amount) if kind == "usage" or not steady else amount
            use("be_cpu", kind, age, float(odd if rng.random() < 0.9 else amount))


def _asked_again(case: Any, theirs: Any, ours: Any) -> Any:
    return [each | {"calls": _once(each["calls"])} for each in theirs]


def _once(calls: list[list[str]]) -> list[list[str]]:
    first: dict[str, list[str]] = {}
    for name, feature in calls:
        first.setdefault(name, [name, feature])
    return list(first.values())


def _native_cpu(case: Any, theirs: Any, ours: Any) -> Any:
    return [_thousandth(a, b) for a, b in zip(theirs, ours, strict=True)]


def _thousandth(theirs: Any, ours: Any) -> Any:
    feature = "CPUAllocatableEvict"
    amounts = theirs["release"].get(feature, {})
    mine = ours["release"].get(feature, {}).get("cpu", 0)
    if not mine or amounts.get("cpu") != 1000 * mine:
        return theirs
    return theirs | {"release": theirs["release"] | {feature: amounts | {"cpu": mine}}}


def _from_first(condition: Callable[[Any, Any, Any], bool]) -> Callable[[Any, Any, Any], Any]:
    """Adjusts from the first round that differs on, if it does so for the reason."""

    def adjusted(case: Any, theirs: Any, ours: Any) -> Any:
        for at, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            if a != b:
                meant = a["invalid"] == b["invalid"] and condition(case, a, b)
                return theirs[:at] + ours[at:] if meant else theirs
        return theirs

    return adjusted


def _thousandfold(case: Any, theirs: Any, ours: Any) -> bool:
    more = ours["calls"][len(theirs["calls"]) :]
    return (
        bool(more)
        and theirs["release"] == ours["release"]
        and ours["calls"][: len(theirs["calls"])] == theirs["calls"]
        and all(feature == "MemoryEvict" for _, feature in more)
    )


def _old_window(case: Any, theirs: Any, ours: Any) -> bool:
    newest = [each["age_ms"] for each in case["samples"] if each["kind"] == "node_cpu"]
    rest = {name: amounts for name, amounts in theirs["release"].items() if name != "CPUEvict"}
    return min(newest, default=0) > 2000 and rest == ours["release"]


def _ended(case: Any, theirs: Any, ours: Any) -> bool:
    """Best-effort pods that ended are called, or requests of ended pods count, only there."""
    ended = {
        pod["metadata"]["name"]
        for pod in case["pods"]
        if pod["status"]["phase"] in ("Succeeded", "Failed")
    }
    if any(name in ended for name, _ in ours["calls"]):
        return False
    called = any(name in ended and "BE" in feature for name, feature in theirs["calls"])
    features = theirs["release"].keys() | ours["release"].keys()
    counted = {f for f in features if theirs["release"].get(f) != ours["release"].get(f)}
    return bool(ended) and (called or bool(counted)) and all("Allocatable" in f for f in counted)


def _gains_nothing(case: Any, theirs: Any, ours: Any) -> bool:
    """The same pods are called for requests, but for those that ask for nothing that is due."""
    pods = {pod["metadata"]["name"]: pod for pod in case["pods"]}

    def gaining(calls: list[list[str]]) -> list[list[str]]:
        return [
            [name, feature]
            for name, feature in calls
            if "Allocatable" in feature and _gain(pods[name], theirs["release"][feature])
        ]

    same = theirs["release"] == ours["release"]
    left = gaining(theirs["calls"])
    useless = sum("Allocatable" in feature for _, feature in theirs["calls"]) - len(left)
    return same and useless > 0 and left == gaining(ours["calls"])


def _gain(pod: Any, due: dict[str, int]) -> bool:
    spec = pod["spec"]
    sidecars = [each for each in spec.get("initContainers", []) if "restartPolicy" in each]
    asked = [each["resources"].get("requests", {}) for each in spec["containers"] + sidecars]
    return any(each.get(name, "0") != "0" for each in asked for name in due if "/" in name)


def _not_total(case: Any, theirs: Any, ours: Any) -> bool:
    """Best-effort pods are called in another order, and some have no priority of their own."""
    without = any(
        "priority" not in pod["spec"]
        for pod in case["pods"]
        if pod["metadata"]["labels"].get(documents.QOS) == "BE"
    )
    pairs = zip(theirs["calls"], ours["calls"], strict=False)
    first = next((a[1] for a, b in pairs if a != b), "")
    return without and theirs["release"] == ours["release"] and first.startswith("BE")


DIFFERENCES = {
    "eviction-retry": Difference(
        "the original asks again in the next task of a round for a pod that was refused",
        adjusted=_asked_again,
    ),
    "eviction-native-cpu": Difference(
        "the original takes milli-cores of native CPU for cores",
        adjusted=_native_cpu,
    ),
    "eviction-memory-bytes": Difference(
        "the original counts a thousand times what a pod uses of memory",
        adjusted=_from_first(_thousandfold),
    ),
    "eviction-old-data": Difference(
        "the original looks at a window whose newest sample is old",
        adjusted=_from_first(_old_window),
    ),
    "eviction-running-only": Difference(
        "the original evicts and counts pods that ended",
        adjusted=_from_first(_ended),
    ),
    "eviction-gains-nothing": Difference(
        "the original evicts pods that ask for nothing of what is short",
        adjusted=_from_first(_gains_nothing),
    ),
    "eviction-order": Difference(
        "the original compares no best-effort pods by priority of which one has none of its own",
        adjusted=_from_first(_not_total),
    ),
}  # fmt: skip

COVERAGE = {
    "plugins/util/evict.go:EvictTaskCheck": "a task that is none, or totals that are, is not made",
    "plugins/util/evictor.go:EvictPodIfNotEvicted": "who was evicted is not asked for again",
}
