# SPDX-License-Identifier: Apache-2.0
"""The balance plugins of kubernetes-sigs/descheduler, each by literal examples."""

from __future__ import annotations

from typing import Any

import pytest

from koord.base.errors import KoordError
from tests.controllers.descheduler.world import cluster, node, pod, run

CONTROL_PLANE = [{"key": "node-role", "effect": "NoSchedule"}]
WORKER = [{"key": "hosts", "value": "web", "effect": "NoSchedule"}]
SPREAD = "RemovePodsViolatingTopologySpreadConstraint"
LOW, HIGH = "LowNodeUtilization", "HighNodeUtilization"


def test_duplicates_are_counted_over_the_nodes_that_a_pod_may_use() -> None:
    tolerates = {"tolerations": [{"key": "hosts", "operator": "Exists"}]}
    nodes = [node(f"m{n}", taints=CONTROL_PLANE) for n in (1, 2, 3)]
    nodes += [node(f"w{n}", taints=WORKER) for n in (1, 2, 3)]
    pods = [
        pod(f"p{worker}{number}", f"w{worker}", spec={**tolerates, "containers": [{"image": "i"}]})
        for worker, count in ((1, 5), (2, 3), (3, 1))
        for number in range(count)
    ]
    # Nine pods on three nodes are three each: the first keeps three of its five.
    assert run("balance", "RemoveDuplicates", None, cluster(nodes, pods)) == ["p13", "p14"]


def test_pods_of_two_owners_or_images_are_no_duplicates() -> None:
    nodes = [node("n1"), node("n2")]
    other_image = {"containers": [{"image": "other"}]}
    pods = [pod("a"), pod("b", owner="api"), pod("c", spec=other_image)]
    assert run("balance", "RemoveDuplicates", None, cluster(nodes, pods)) == []
    pods.append(pod("d"))
    assert run("balance", "RemoveDuplicates", None, cluster(nodes, pods)) == ["d"]
    excluded = {"excludeOwnerKinds": ["ReplicaSet"]}
    assert run("balance", "RemoveDuplicates", excluded, cluster(nodes, pods)) == []


def _spread(sizes: list[int], *, max_skew: int = 1, **spec: Any) -> list[str]:
    constraint = {
        "maxSkew": max_skew, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "x"}},
    }  # fmt: skip
    nodes = [node(f"n{i}", labels={"zone": f"z{i}"}) for i in range(len(sizes))]
    pods = [
        pod(f"p{zone}{number}", f"n{zone}", labels={"app": "x"},
            spec={"topologySpreadConstraints": [constraint], **spec})
        for zone, size in enumerate(sizes)
        for number in range(size)
    ]  # fmt: skip
    return run("balance", SPREAD, None, cluster(nodes, pods))


@pytest.mark.parametrize(
    ("sizes", "max_skew", "count"),
    [([3, 1], 1, 1), ([2, 1], 1, 0), ([5, 5, 2], 1, 2), ([4, 0], 2, 1), ([6, 0, 0], 1, 4)],
)
def test_domains_are_levelled_until_the_skew_holds(
    sizes: list[int], max_skew: int, count: int
) -> None:
    assert len(_spread(sizes, max_skew=max_skew)) == count


def test_a_pod_that_fits_no_emptier_domain_stays() -> None:
    assert _spread([3, 1], nodeSelector={"zone": "z0"}) == []


def _usage(count: int, on: str, **more: Any) -> list[Any]:
    return [pod(f"{on}-{number}", on, cpu="400m", **more) for number in range(count)]


def test_low_node_utilization_stops_at_the_target() -> None:
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    pods = [*_usage(8, "n1"), *_usage(4, "n3")]
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    # n1 holds 3.2 of 4 CPUs; it has to come down to 2.
    tolerating = [*_usage(8, "n1"), *_usage(4, "n3")]
    assert run("balance", LOW, args, cluster(nodes, tolerating)) == ["n1-0", "n1-1", "n1-2"]
    assert run("balance", LOW, {**args, "numberOfNodes": 1}, cluster(nodes, pods)) == []
    limited = {**args, "evictionLimits": {"node": 2}}
    assert run("balance", LOW, limited, cluster(nodes, pods)) == ["n1-0", "n1-1"]
    excluded = {**args, "evictableNamespaces": {"exclude": ["default"]}}
    assert run("balance", LOW, excluded, cluster(nodes, pods)) == []


def test_low_node_utilization_goes_on_where_an_eviction_fails() -> None:
    from tests.controllers.descheduler.world import RecordedEvictions

    evictions = RecordedEvictions(refuses={"n1-0", "n1-2"})
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    view = cluster([node("n1"), node("n2")], _usage(8, "n1"))
    assert run("balance", LOW, args, view, evictions=evictions) == ["n1-1", "n1-3", "n1-4"]


def test_a_cordoned_node_takes_nothing_and_a_deviation_is_of_the_average() -> None:
    args = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}}
    cordoned = [node("n1"), node("n2", unschedulable=True)]
    assert run("balance", LOW, args, cluster(cordoned, _usage(8, "n1"))) == []
    # 80, 40 and 0 percent are 40 on average: below 30 and above 50.
    deviation = {
        "useDeviationThresholds": True, "thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 10},
    }  # fmt: skip
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    view = cluster(nodes, [*_usage(8, "n1"), *_usage(4, "n2")])
    assert run("balance", LOW, deviation, view) == ["n1-0", "n1-1", "n1-2"]


def test_high_node_utilization_empties_the_emptiest_nodes() -> None:
    nodes = [node(name) for name in ("n1", "n2", "n3")]
    pods = [*_usage(6, "n1"), *_usage(2, "n2"), *_usage(1, "n3")]
    args: dict[str, Any] = {"thresholds": {"cpu": 25}}
    assert run("balance", HIGH, args, cluster(nodes, pods)) == ["n3-0", "n2-0", "n2-1"]
    args["numberOfNodes"] = 2
    assert run("balance", HIGH, args, cluster(nodes, pods)) == []
    only = {"thresholds": {"nvidia.com/gpu": 25}, "evictionModes": ["OnlyThresholdingResources"]}
    assert run("balance", HIGH, only, cluster(nodes, pods)) == []


@pytest.mark.parametrize(
    ("plugin", "args", "message"),
    [
        (LOW, {}, "thresholds: got {}"),
        (LOW, {"thresholds": {"cpu": 20}, "targetThresholds": {"memory": 50}}, "targetThresholds"),
        (LOW, {"thresholds": {"cpu": 60}, "targetThresholds": {"cpu": 50}}, "got 60"),
        (LOW, {"thresholds": {"cpu": 101}, "targetThresholds": {"cpu": 101}}, "got 101"),
        (HIGH, {"thresholds": {"cpu": 20}, "evictableNamespaces": {"include": ["a"]}}, "include"),
        (SPREAD, {"constraints": ["Sometimes"]}, "constraints[0]: got 'Sometimes'"),
    ],
)
def test_wrong_arguments_name_their_place(plugin: str, args: dict[str, Any], message: str) -> None:
    with pytest.raises(KoordError) as caught:
        run("balance", plugin, args, cluster([node("n1"), node("n2")], []))
    assert message in str(caught.value)
