# SPDX-License-Identifier: Apache-2.0
"""FragmentationAware, ScaleDownBinPack, CustomPriority and the pod sorter: what a round over a
small cluster evicts, writes and cordons, in order; in which order pods go.

Ages are told beside the pods, in seconds before now; labels say what filters and the API refuse.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from koord.api import codec, requests
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.controllers.descheduler.framework.handle import DeschedulerHandle, StrategyEvictor
from koord.controllers.descheduler.framework.limiter import EvictionLimiter, EvictionLimits
from koord.controllers.descheduler.framework.outcomes import RoundRecord
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.plugins.loadaware.balance_phase import relief_score
from koord.controllers.descheduler.predicates.pod_order import by_sorter
from koord.controllers.descheduler.snapshot import ClusterSnapshot
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.kernels.quantity import Quantity
from tests.vectors.area import Difference, Json

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

    from koord.controllers.descheduler.framework.points import PodEviction

SEED = 20292
_MOST = str(2**31 - 1)
COVERAGE = {
    "custompriority/custom_priority.go:classifyNodesByPriority": (
        "levels without a selector, or with one that is none, are refused before"
    ),
}
_NOW = 1_700_000_000.0
_PRIORITIES = [9500, 9000, 7500, 5500, 3500, None, 100, -5]
_COSTS = ["1", "-5", "+5", "008", "x", "2147483648", "-2147483648", "100", "200"]
_LEVELS = {name: {"matchLabels": {"pool": name}} for name in "abc"}


def _with_skipped(case: Json, theirs: Json, ours: Json) -> Json:
    """Costs of skipped pods on nodes without eligible pods, which koord writes as well."""
    if case["plugin"] != "ScaleDownBinPack" or "costs" not in theirs:
        return theirs
    places = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in case["pods"]}
    ranked = {places[name] for name, cost in theirs["costs"].items() if cost != _MOST}
    more = {
        name: cost
        for name, cost in ours["costs"].items()
        if cost == _MOST and places[name] not in ranked
    }
    unwritable = [
        pod for pod in case["pods"]
        if pod["metadata"]["labels"].get("unwritable") and pod["spec"]["nodeName"] not in ranked
    ]  # fmt: skip
    failed = theirs["failed"] or (ours["failed"] and bool(unwritable))
    return theirs | {"costs": more | theirs["costs"], "failed": failed}


def _without_foreign_cordons(case: Json, theirs: Json, ours: Json) -> Json:
    """No cordon in a dry run, and none taken back that was not koord's."""
    if case["plugin"] != "CustomPriority" or "cordons" not in theirs:
        return theirs
    if case["args"].get("dryRun"):
        return theirs | {"cordons": []}
    cordoned = {name for name, on in theirs["cordons"] if on}
    return theirs | {"cordons": [each for each in theirs["cordons"] if each[0] in cordoned]}


def _held(case: Json, theirs: Json, ours: Json) -> bool:
    metas = [pod["metadata"] for pod in case["pods"]]
    held = {meta["name"] for meta in metas if meta["labels"].get("hold")}
    wanted = {name for name, _ in theirs.get("evicted", ())}
    return case["plugin"] != "FragmentationAware" and bool(held & wanted)


def _is_tight(case: Json, theirs: Json, ours: Json) -> bool:
    few = [node for node in case["nodes"] if node["status"]["allocatable"]["pods"] == "4"]
    drains = case["args"].get("mode") == "DrainNode" and "evicted" in theirs
    return drains and bool(few) and not _has_thresholds(case, theirs, ours)


def _has_thresholds(case: Json, theirs: Json, ours: Json) -> bool:
    if case["plugin"] != "CustomPriority" or "evicted" not in theirs or "evicted" not in ours:
        return False
    levels = case["args"]["evictionOrder"]
    return any({"keepThreshold", "rejectThreshold"} & level.keys() for level in levels)


DIFFERENCES = {
    "scale-down-skipped-pods": Difference(
        "skipped pods of nodes without eligible ones get their cost as well",
        adjusted=_with_skipped,
    ),
    "custom-priority-cordon": Difference(
        "a dry run cordons nothing, and a cordon of others is not taken back",
        adjusted=_without_foreign_cordons,
    ),
    "pre-eviction-filter-asked": Difference(
        "what PreEvictionFilter refuses is not evicted by these plugins either", covers=_held
    ),
    "custom-priority-arguments": Difference(
        "a mode that nobody knows and percentages out of range are refused",
        covers=lambda case, theirs, ours: case["plugin"] == "CustomPriority"
        and ours == {"invalid": True} and "evicted" in theirs,
    ),
    "custom-priority-thresholds": Difference(
        "keepThreshold and rejectThreshold have an effect", covers=_has_thresholds
    ),
    "custom-priority-pod-slots": Difference(
        "a pod that is placed takes a pod's room", covers=_is_tight
    ),
}  # fmt: skip


def inputs(draw: random.Random) -> list[Json]:
    """Rounds of each plugin, and orders of pods."""
    counts = {"FragmentationAware": 150, "ScaleDownBinPack": 150, "CustomPriority": 300}
    rounds = [_round(draw, kind) for kind, count in counts.items() for _ in range(count)]
    return rounds + [_sorting(draw) for _ in range(100)]


def _round(draw: random.Random, plugin: str) -> Json:
    by_level = plugin == "CustomPriority"
    few = "4" if by_level and draw.random() < 0.2 else "110"
    nodes = [_node(draw, number, few, by_level) for number in range(draw.randint(2, 5))]
    pods: list[Json] = []
    for node in nodes:
        for _ in range(draw.choice([1, 2, 3, 7] if by_level else [0, 2, 4, 8])):
            pods.append(_pod(draw, len(pods), node["metadata"]["name"], plugin))
    ages = draw.sample(range(1, 100), len(pods))
    return {
        "plugin": plugin,
        "args": _ARGS[plugin](draw),
        "nodes": nodes,
        "pods": pods,
        "ages": {pod["metadata"]["name"]: age for pod, age in zip(pods, ages, strict=True)},
        "dryRun": plugin == "ScaleDownBinPack" and draw.random() < 0.05,
    }


def _node(draw: random.Random, number: int, pods: str, by_level: bool) -> Json:
    name, cpu = f"n{number}", draw.choice([8, 16] if by_level else [4, 8, 16])
    allocatable = {"cpu": str(cpu), "memory": f"{cpu * draw.choice([1, 2, 4])}Gi", "pods": pods}
    if draw.random() < 0.4:
        allocatable["example.com/gpu"] = draw.choice(["2", "4", "0"])
    spec: Json = {"unschedulable": draw.random() < 0.1}
    if draw.random() < 0.05:
        spec["taints"] = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
    pool = "ab"[number] if number < 2 else draw.choice("abc")
    labels = {"pool": pool, "disk": draw.choice(["ssd", "hdd"])}
    return {
        "metadata": {"name": name, "labels": labels, "uid": f"uid-{name}"},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def _pod(draw: random.Random, number: int, node_name: str, plugin: str) -> Json:
    labels = {"app": draw.choice("xxxy")}
    for label, chance in (("stay", 0.15), ("refuse", 0.05), ("unwritable", 0.02)):
        if draw.random() < chance:
            labels[label] = "yes"
    if draw.random() < (0.15 if plugin == "FragmentationAware" else 0.02):
        labels["hold"] = "yes"
    cpu, memory = draw.choice(["100m", "1", "2", "500m"]), draw.choice(["512Mi", "2Gi"])
    asked = {"cpu": cpu, "memory": memory}
    if draw.random() < 0.1:
        asked.pop(draw.choice(["cpu", "memory"]))
    if draw.random() < (0.03 if plugin == "CustomPriority" else 0.15):
        asked["example.com/gpu"] = "1"
    spec: dict[str, Any] = {
        "nodeName": node_name,
        "containers": [{"name": "c", "resources": {"requests": asked}}],
    }
    if draw.random() < 0.1:
        more = {"cpu": draw.choice(["50m", "3"])}
        spec["initContainers"] = [{"name": "i", "resources": {"requests": more}}]
    if draw.random() < 0.06:
        spec["nodeSelector"] = {"disk": draw.choice(["ssd", "hdd"])}
    if draw.random() < 0.1:
        spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
    phase = draw.choice(["Running"] * 9 + ["Succeeded", "Pending"])
    return _named(draw, f"p{number:02}", labels, spec, phase)


def _named(draw: random.Random, name: str, labels: Json, spec: Json, phase: str) -> Json:
    namespace = draw.choice(["default", "default", "other"])
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels,
            "annotations": {}}  # fmt: skip
    return {"metadata": meta, "spec": spec, "status": {"phase": phase}}


def _some(draw: random.Random, options: dict[str, tuple[float, list[Any]]]) -> Json:
    common: dict[str, tuple[float, list[Any]]] = {
        "paused": (0.02, [True]),
        "evictableNamespaces": (0.1, [{"include": ["default"]}, {"exclude": ["default"]}]),
        "nodeSelector": (0.1, [{"matchLabels": {"disk": "ssd"}}]),
    }
    return {
        name: draw.choice(values)
        for name, (chance, values) in (common | options).items()
        if draw.random() < chance
    }


def _fragmentation(draw: random.Random) -> Json:
    selector = {"matchLabels": {"app": "x"}}
    return _some(draw, {
        "dryRun": (0.03, [True]), "nodeFit": (0.4, [False, True]),
        "podSelectors": (0.1, [[{"selector": selector}], [{}]]),
        "resources": (0.5, [["cpu", "memory", "example.com/gpu"], ["cpu", "pods"], [],
                            ["example.com/gpu", "cpu"], ["pods", "memory"],
                            ["cpu", "cpu"]]),
        "imbalanceThreshold": (0.5, [0, 0.05, 0.05, 0.1, 0.3, -0.1]),
        "minImprovementThreshold": (0.5, [0, 0, 0.01, 0.01, 0.1, -1]),
        "evictableNamespaces": (0.15, [{"include": ["default"]}, {"exclude": ["default"]},
                                       {"include": ["a"], "exclude": ["b"]}]),
    })  # fmt: skip


def _bin_pack(draw: random.Random) -> Json:
    selector = {"matchLabels": {"app": "x"}}
    return _some(draw, {
        "strategy": (0.6, ["EvictDirectly", "EvictDirectly", "CalculateOnly", "", "Other"]),
        "maxPodsToEvict": (0.8, [1, 2, 5, 0]),
        "podSelectors": (0.4, [[{"name": "x", "selector": selector}], [{"name": "all"}],
                               [{"name": "x", "selector": selector}, {"name": "all"}]]),
        # Of more than two resources the order of a map decides the last digit of a score.
        "resources": (0.3, [["cpu"], ["memory"], ["cpu", "example.com/gpu"], []]),
        "resourceWeights": (0.2, [{"cpu": 2.5}, {"cpu": 0.5, "memory": 3}, {"memory": -1},
                                  {"cpu": 0}]),
    })  # fmt: skip


def _priority(draw: random.Random) -> Json:
    names = draw.choice([*["ab", "abc", "abc", "ca", "bca"] * 5, "a", "aa"])
    levels = [{"name": name, "nodeSelector": _LEVELS[name]} for name in names]
    if draw.random() < 0.03:
        del levels[-1][draw.choice(["name", "nodeSelector"])]
    if draw.random() < 0.15:
        threshold = draw.choice([{"cpu": 30}, {"cpu": 60}, {"cpu": 80, "memory": 50}, {"cpu": 101}])
        draw.choice(levels)[draw.choice(["keepThreshold", "rejectThreshold"])] = threshold
    return {"evictionOrder": levels} | _some(draw, {
        "dryRun": (0.05, [True]), "nodeFit": (0.3, [False, True]),
        "mode": (0.7, ["DrainNode"] * 15 + ["BestEffort", "", "Other"]),
        "autoCordon": (0.5, [True]),
        "podSelectors": (0.1, [[{"name": "x", "selector": {"matchLabels": {"app": "x"}}}]]),
    })  # fmt: skip


_ARGS = {
    "FragmentationAware": _fragmentation, "ScaleDownBinPack": _bin_pack,
    "CustomPriority": _priority,
}  # fmt: skip


def _sorting(draw: random.Random) -> Json:
    pods = [_sortable(draw, f"p{number:02}") for number in range(draw.randint(2, 12))]
    ages = draw.sample(range(1, 100), len(pods))
    case: Json = {
        "plugin": "sorter",
        "args": {},
        "pods": pods,
        "ages": {pod["metadata"]["name"]: age for pod, age in zip(pods, ages, strict=True)},
    }
    if draw.random() < 0.6:
        case["exceeded"] = draw.choice([{"cpu": "2"}, {"cpu": "2", "memory": "4Gi"}, {"cpu": "0"}])
        case["weights"] = draw.choice([{"cpu": 1}, {"cpu": 1, "memory": 2}, {}])
        case["usage"] = {
            pod["metadata"]["name"]: {"cpu": f"{draw.randint(1, 60) * 100}m",
                                      "memory": f"{draw.randint(1, 80) * 100}Mi"}
            for pod in pods if draw.random() < 0.8
        }  # fmt: skip
    return case


def _sortable(draw: random.Random, name: str) -> Json:
    labels = {}
    if draw.random() < 0.3:
        labels["koordinator.sh/qosClass"] = draw.choice(["LS", "BE", "LSR", "LSE", "SYSTEM", "?"])
    if draw.random() < 0.1:
        labels["koordinator.sh/priority-class"] = draw.choice(["koord-batch", "koord-prod", "?"])
    amounts = {"cpu": "1", "memory": "1Gi"}
    resources = draw.choice([{}, {"requests": amounts}, {"requests": amounts, "limits": amounts}])
    spec: Json = {"containers": [{"name": "c", "resources": resources}]}
    # Few priorities, so that later keys decide too.
    priority = draw.choice([*_PRIORITIES, *[5500] * 8])
    if priority is not None:
        spec["priority"] = priority
    pod = _named(draw, name, labels, spec, "Running")
    for key in (keys.POD_DELETION_COST, keys.EVICTION_COST):
        if draw.random() < 0.4:
            pod["metadata"]["annotations"][key] = draw.choice(_COSTS)
    return pod


class _Evictions:
    """Filters and evicts as the driver does."""

    def __init__(self) -> None:
        self.evicted: list[list[str]] = []

    def filter(self, pod: Pod) -> bool:
        return not pod.metadata.labels.get("stay")

    def pre_eviction_filter(self, pod: Pod) -> bool:
        return not pod.metadata.labels.get("hold")

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        if pod.metadata.labels.get("refuse"):
            return False
        self.evicted.append([pod.metadata.name, request.reason])
        return True


class _Writes:
    """Takes what strategies write, as the driver's API does."""

    def __init__(self, *, dry_run: bool) -> None:
        self._dry_run = dry_run
        self.costs: dict[str, str] = {}
        self.cordons: list[list[Any]] = []

    async def annotate(self, pod: Pod, annotations: Mapping[str, str | None], **_: Any) -> bool:
        if self._dry_run:
            return True
        if pod.metadata.labels.get("unwritable"):
            return False
        self.costs[pod.metadata.name] = annotations[keys.POD_DELETION_COST] or ""
        return True

    async def cordon(self, node: Node) -> bool:
        self.cordons.append([node.metadata.name, True])
        return True

    async def uncordon(self, node: Node) -> bool:
        self.cordons.append([node.metadata.name, False])
        return True


def answer(case: Json) -> Json:
    """See :func:`tests.vectors.area.Area.answer`."""
    pods = [_aged(pod, case["ages"]) for pod in case["pods"]]
    if case["plugin"] == "sorter":
        return {"order": [pod.metadata.name for pod in _sorted(case, pods)]}
    plugin_class = PluginRegistry([]).plugin(case["plugin"], "the case", "plugin")
    assert plugin_class.args_type is not None
    try:
        args = plugin_class.args_type.read(case["args"], FieldPath("args"))
    except KoordError:
        return {"invalid": True}
    evictions, writes = _Evictions(), _Writes(dry_run=case["dryRun"])
    evictor = StrategyEvictor(EvictionLimiter(EvictionLimits()), case["dryRun"], RoundRecord())
    evictor.filters, evictor.evict_plugin = [evictions], evictions
    handle = DeschedulerHandle(evictor, evictions, VirtualClock(_NOW))
    handle.writer = writes  # type: ignore[assignment]
    plugin: Any = plugin_class(args, handle)
    nodes = [codec.convert(node, Node, "a node", "") for node in case["nodes"]]
    handle.begin_round(ClusterSnapshot(nodes, pods))
    failed = False
    try:
        asyncio.run(plugin.balance(nodes))
    except KoordError:
        failed = True
    return {
        "evicted": evictions.evicted, "costs": writes.costs, "cordons": writes.cordons,
        "failed": failed,
    }  # fmt: skip


def _sorted(case: Json, pods: list[Pod]) -> list[Pod]:
    if "usage" not in case:
        return by_sorter(pods)
    excess = _amounts(case["exceeded"])

    def usage_rank(pod: Pod) -> float:
        usage = case["usage"].get(pod.metadata.name)
        return 1.0 if usage is None else -relief_score(_amounts(usage), excess, case["weights"])

    return by_sorter(pods, usage_rank)


def _amounts(texts: dict[str, str]) -> dict[str, int]:
    return {name: requests.amount(name, Quantity.parse(text)) for name, text in texts.items()}


def _aged(document: Json, ages: Json) -> Pod:
    pod = codec.convert(document, Pod, "a pod", "")
    age = timedelta(seconds=ages[pod.metadata.name])
    pod.metadata.creation_timestamp = datetime.fromtimestamp(_NOW, UTC) - age
    return pod
