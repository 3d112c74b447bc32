# SPDX-License-Identifier: Apache-2.0
"""Nearest are the nodes that have the kind of thing a pod wants, and those that it names."""

from __future__ import annotations

from koord.api.kinds.node import Node
from tests.controllers.scheduler.explain.test_suggestions import told
from tests.controllers.scheduler.explain.test_what_if import explained
from tests.controllers.scheduler.pods import node, pod

GPU = "nvidia.com/gpu"
HOST = "kubernetes.io/hostname"
TAINT = {"key": "cards", "value": "only", "effect": "NoSchedule"}


def machines() -> list[Node]:
    """Six without cards, two with four, which take only pods that tolerate them."""
    plain = [node(f"cpu-{i}", cpu="32", labels={HOST: f"cpu-{i}"}) for i in range(6)]
    cards = [
        node(
            f"gpu-{i}", cpu="32", allocatable={GPU: "4"}, taints=[TAINT], labels={HOST: f"gpu-{i}"}
        )
        for i in range(2)
    ]
    return [*plain, *cards]


def test_machines_with_cards_come_before_those_without() -> None:
    found = explained(machines(), pod("p", cpu="1", requests={GPU: "9"}))
    assert [near.node for near in found.nearest] == ["gpu-0", "gpu-1", "cpu-0", "cpu-1", "cpu-2"]
    assert found.notes == []


def test_more_cards_are_wanted_only_where_there_are_some() -> None:
    tolerant = [{"key": "cards", "operator": "Exists"}]
    found = explained(machines(), pod("p", cpu="1", requests={GPU: "9"}, tolerations=tolerant))
    assert told(found) == [
        (f"ask for {GPU} 4, not 9", 2),
        (f"have a machine like gpu-0 with {GPU} 9 free", 1),
    ]
    bare = explained([node("a"), node("b")], pod("p", cpu="1", requests={GPU: "9"}))
    assert bare.notes == [f"No node has any {GPU}"]
    assert told(bare) == [(f"do not ask for {GPU}", 2)]


def test_the_node_that_a_selector_names_is_shown_first() -> None:
    found = explained(machines(), pod("p", cpu="99", nodeSelector={HOST: "cpu-5"}))
    assert found.nearest[0].node == "cpu-5"
    assert found.nearest[0].missing == {"cpu": 67_000}
    fields = [{"key": "metadata.name", "operator": "In", "values": ["gpu-1"]}]
    wish = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchFields": fields}]
            }
        }
    }
    assert explained(machines(), pod("p", cpu="99", affinity=wish)).nearest[0].node == "gpu-1"


def test_a_node_that_a_selector_leaves_is_among_those_shown() -> None:
    disks = [node(f"n{i}", cpu="8", labels={"disk": "hdd"}) for i in range(7)]
    ssd = node("z", cpu="2", taints=[TAINT], labels={"disk": "ssd"})
    found = explained([*disks, ssd], pod("p", cpu="4", nodeSelector={"disk": "ssd"}))
    assert [near.node for near in found.nearest] == ["n0", "n1", "n2", "n3", "z"]


def test_a_node_that_is_not_there_is_named() -> None:
    found = explained(machines(), pod("p", cpu="1", nodeSelector={HOST: "cpu-7"}))
    assert found.notes == ["There is no node cpu-7, which the pod insists on"]


def test_a_batch_pod_is_told_that_co_location_is_off_not_to_ask_for_nothing() -> None:
    wants = {"kubernetes.io/batch-cpu": "1000", "kubernetes.io/batch-memory": "1Gi"}
    labels = {"koordinator.sh/qosClass": "BE"}
    found = explained([node("a"), node("b")], pod("p", requests=wants, labels=labels))
    assert found.notes == [
        "No node offers kubernetes.io/batch-cpu and kubernetes.io/batch-memory: co-location is off "
        "(slo-controller-config, colocation-config, enable), or koord-manager does not run, "
        "or no agent has reported yet"
    ]
    assert told(found) == []
    offered = {"kubernetes.io/batch-cpu": "500", "kubernetes.io/batch-memory": "4Gi"}
    some = explained([node("a", allocatable=offered)], pod("p", requests=wants, labels=labels))
    assert some.notes == []
    assert ("ask for kubernetes.io/batch-cpu 500, not 1000", 1) in told(some)


def test_what_no_card_can_serve_is_told_with_what_would_be_right() -> None:
    for wants, line in (
        (
            {"koordinator.sh/gpu": "150"},
            "The pod asks for koordinator.sh/gpu 150: expected 1 to 100 percent of a card, "
            "or whole cards in hundreds",
        ),
        (
            {"koordinator.sh/gpu.shared": "2", "koordinator.sh/gpu-memory-ratio": "75"},
            "The pod asks for koordinator.sh/gpu-memory-ratio 75, koordinator.sh/gpu.shared 2: "
            "expected as much of each of the koordinator.sh/gpu.shared cards, "
            "at most 100 percent",
        ),
    ):
        found = explained([node("a", allocatable=wants)], pod("p", requests=wants))
        assert found.notes == [line]


def test_a_qos_class_that_is_none_is_told() -> None:
    found = explained([node("a")], pod("p", cpu="1", labels={"koordinator.sh/qosClass": "LSX"}))
    assert found.notes == [
        "Pod default/p: labels[koordinator.sh/qosClass]: got 'LSX', "
        "expected LSE, LSR, LS, BE or SYSTEM: it counts as if it were absent"
    ]
