# SPDX-License-Identifier: Apache-2.0
"""Who takes part is what plugins say of each shape by itself, whichever shapes came before it."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.service import Service
from koord.base.clock import VirtualClock
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.cluster.pods import PodShape
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.profile_plugins import LEFT_OUT, idle_points
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.pods import info, node, pod

APP = {"matchLabels": {"app": "x"}}
_AFFINITY = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WRONG = {"matchExpressions": [{"key": "app", "operator": "In", "values": []}]}
_NAMED = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
_DISK = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
SPECS: tuple[dict[str, Any], ...] = (
    {},
    {"affinity": {"podAntiAffinity": {_AFFINITY: [{"labelSelector": APP, "topologyKey": "z"}]}}},
    {"affinity": {"podAntiAffinity": {_AFFINITY: [{"labelSelector": _WRONG, "topologyKey": "z"}]}}},
    {"affinity": {"nodeAffinity": {_AFFINITY: {"nodeSelectorTerms": [_DISK]}}}},
    {"affinity": {"nodeAffinity": {_PREFERRED: [{"weight": 1, "preference": _DISK}]}}},
    {"affinity": {"nodeAffinity": {_AFFINITY: {"nodeSelectorTerms": [_NAMED]}}}},
    {"nodeSelector": {"disk": "ssd"}},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "labelSelector": APP,
                                    "whenUnsatisfiable": "DoNotSchedule"}]},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "labelSelector": APP,
                                    "whenUnsatisfiable": "ScheduleAnyway"}]},
    {"tolerations": [{"key": "other", "operator": "Exists"}]},
    {"tolerations": [{"key": "k", "operator": "Exists", "effect": "NoSchedule"}]},
    {"tolerations": [{"key": "k", "operator": "Exists"}]},
    {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]},
    {"volumes": [{"name": "v", "gcePersistentDisk": {"pdName": "d"}}]},
    {"volumes": [{"name": "v", "projected": {}}]},
    {"resourceClaims": [{"name": "r"}]},
    {"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 80}]}]},
    {"containers": [{"name": "c", "image": "known:1"}]},
)  # fmt: skip
LABELS: tuple[dict[str, str], ...] = (
    {}, {"app": "x"}, {"app": "y", "tier": "z"}, {"koordinator.sh/qosClass": "LSR"},
    {"koordinator.sh/qosClass": "LSE", "koordinator.sh/priority-class": "koord-prod"},
    {"pod-group.scheduling.sigs.k8s.io": "g"},
    {"quota.scheduling.koordinator.sh/name": "q"},
)  # fmt: skip
ANNOTATIONS: tuple[dict[str, str], ...] = (
    {}, {"note": "x"}, {"gang.scheduling.koordinator.sh/name": "g"},
    {"scheduling.koordinator.sh/resource-spec": '{"requiredCPUBindPolicy": "FullPCPUs"}'},
    {"scheduling.koordinator.sh/resource-spec": "{"},
    {"scheduling.koordinator.sh/numa-topology-spec": '{"numaTopologyPolicy": "Restricted"}'},
    {"internal.scheduling.koordinator.sh/scheduling-hint": '{"nodeNames": ["a"]}'},
)  # fmt: skip
REQUESTS: tuple[dict[str, str], ...] = (
    {}, {"cpu": "1"}, {"cpu": "2", "memory": "1Gi"}, {"memory": "1Gi"}, {"cpu": "1500m"},
    {"koordinator.sh/gpu": "100"}, {"cpu": "1", "nvidia.com/gpu": "1"}, {"x.org/y": "1"},
)  # fmt: skip
OWNERS: tuple[list[dict[str, Any]], ...] = (
    [], [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u"}],
    [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": True}],
)  # fmt: skip


def waiting(number: int, draw: tuple[int, int, int, int, int], priority: int | None) -> Pod:
    spec, labels, annotations, requests, owners = draw
    document = {
        "metadata": {"name": f"p{number}", "namespace": "default", "uid": f"u{number}",
                     "labels": {**LABELS[labels], "own": str(number)} if labels else {},
                     "annotations": ANNOTATIONS[annotations], "ownerReferences": OWNERS[owners]},
        "spec": {"containers": [{"name": "c", "resources": {"requests": REQUESTS[requests]}}],
                 "priority": priority, **SPECS[spec]},
    }  # fmt: skip
    return convert(document, Pod, f"Pod p{number}")


def anew(decider: Decider, shape: PodShape) -> dict[str, list[str]]:
    """By point, who takes part, each asked about this shape alone."""
    cycle = Cycle(info(shape.pod), decider.table)
    cycle.shape = shape
    found: dict[str, list[str]] = {}
    by_point = {point: getattr(decider.plugins, point) for point in LEFT_OUT}
    by_point["filter"] = decider.plugins.filter
    by_point["score"] = [plugin for plugin, _ in decider.plugins.score]
    for point, plugins in by_point.items():
        found[point] = [p.name for p in plugins if point not in idle_points(p, shape)]
        if point in ("filter", "score"):
            by_shape = {p.name for p in plugins if p.applies_by_shape and not p.applies(cycle)}
            found[point] = [name for name in found[point] if name not in by_shape]
    return found


def kept(decider: Decider, shape: PodShape) -> dict[str, list[str]]:
    participants = decider.evaluator.participants.of(shape)
    found = {point: [p.name for p in getattr(participants.plugins, point)] for point in LEFT_OUT}
    found["filter"] = [each.plugin.name for each in participants.filter_answers]
    found["score"] = [each.plugin.name for each in participants.score_answers]
    return found


@cache
def cluster(rich: bool) -> Decider:
    registry = Registry(outside=[])
    views = LocalViews()
    world = ClusterState(views, VirtualClock(0.0))
    scheduler = Scheduler(world, shipped(registry, "koord-scheduler").profiles, registry)
    views.view(Node).put(node("a", cpu="8", memory="8Gi"))
    if rich:
        images = {"status": {"images": [{"names": ["known:1"], "sizeBytes": 1 << 30}]}}
        soft = [{"key": "k", "effect": "PreferNoSchedule"}]
        limits = {"scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds": {"cpu": 60}}'}
        made = node("b", cpu="8", memory="8Gi", taints=soft, labels={"z": "z1"}, annotations=limits)
        made.status.images = convert(images, Node, "Node b").status.images
        views.view(Node).put(made)
        service = {"metadata": {"name": "app", "namespace": "default"},
                   "spec": {"selector": {"app": "x"}}}  # fmt: skip
        views.view(Service).put(convert(service, Service, "Service app"))
        bound = waiting(999, (1, 1, 0, 1, 0), None)
        world.accounts.add(0, world.shapes.info(bound))
    (decider,) = scheduler.deciders.values()
    return decider


DRAW = st.tuples(
    st.integers(0, len(SPECS) - 1), st.integers(0, len(LABELS) - 1),
    st.integers(0, len(ANNOTATIONS) - 1), st.integers(0, len(REQUESTS) - 1),
    st.integers(0, len(OWNERS) - 1),
)  # fmt: skip


@pytest.mark.parametrize("rich", [False, True])
@given(draws=st.lists(st.tuples(DRAW, st.sampled_from((None, 0, 9500, 5500))), max_size=12))
def test_participants_are_those_that_each_plugin_says(
    rich: bool, draws: list[tuple[tuple[int, int, int, int, int], int | None]]
) -> None:
    decider = cluster(rich)
    decider.table.advance_generation()
    for number, (draw, priority) in enumerate(draws):
        shape = info(waiting(number, draw, priority)).shape
        assert kept(decider, shape) == anew(decider, shape)


@cache
def drawn(rich: bool) -> tuple[list[PodShape], list[dict[str, list[str]]]]:
    """Shapes that differ in one part or two, and who takes part."""
    sizes, plain = (len(SPECS), len(LABELS), len(ANNOTATIONS), len(REQUESTS), len(OWNERS)), (0,) * 5
    draws = [
        tuple(value if i == part else plain[i] for i in range(5))
        for part, size in enumerate(sizes)
        for value in range(size)
    ]
    draws += [(0, label, other, 1, 0) for label in range(1, sizes[1]) for other in range(sizes[2])]
    shapes = [
        info(waiting(number, draw, priority)).shape
        for number, (draw, priority) in enumerate(itertools.product(draws, (None, 9500)))
    ]
    return shapes, [anew(cluster(rich), shape) for shape in shapes]


def differing(rich: bool) -> int:
    """Of how many shapes what is kept is wrong, whichever came first."""
    decider, (shapes, expected) = cluster(rich), drawn(rich)
    found = 0
    for order in (1, -1):
        decider.table.advance_generation()
        pairs = zip(shapes[::order], expected[::order], strict=True)
        found += sum(kept(decider, shape) != each for shape, each in pairs)
    decider.table.advance_generation()
    return found


# Of the plugins that are not here, what parts a pod has decides alone, whatever these say.
SAYING_MORE = (
    "Coscheduling", "ImageLocality", "InterPodAffinity", "LoadAwareScheduling", "NodeAffinity",
    "NodeNUMAResource", "NodeVolumeLimits", "PodTopologySpread", "SchedulingHint",
    "TaintToleration", "VolumeBinding", "VolumeRestrictions", "VolumeZone",
)  # fmt: skip


@pytest.mark.parametrize("name", SAYING_MORE)
def test_a_plugin_that_reads_more_than_it_declares_is_found(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = [*cluster(True).plugins.filter, *(p for p, _ in cluster(True).plugins.score)]
    plugins += cluster(True).plugins.pre_filter
    (kind,) = {type(plugin) for plugin in plugins if plugin.name == name}
    assert differing(True) == 0
    monkeypatch.setattr(kind, "reads", PodField.NONE)
    assert differing(True) > 0


def test_a_plain_shape_is_looked_up() -> None:
    decider = cluster.__wrapped__(rich=False)
    asked: list[str] = []
    plugins = {id(p): p for point in LEFT_OUT for p in getattr(decider.plugins, point)}
    for plugin in plugins.values():
        if "idle_points" not in vars(type(plugin)):
            continue
        original = plugin.idle_points

        def ask(shape: PodShape, name: str = plugin.name, original: Any = original) -> Any:
            asked.append(name)
            return original(shape)

        plugin.idle_points = ask
    shapes = [info(pod(f"p{n}", cpu="1", labels={"app": f"app-{n}"})).shape for n in range(3)]
    decider.participants(shapes[0])
    assert asked
    asked.clear()
    for shape in shapes[1:]:
        decider.participants(shape)
    assert asked == []
