# SPDX-License-Identifier: Apache-2.0
"""The network's places from labels, and what is written about them."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.codec import convert, to_document
from koord.api.kinds.network_topology import ClusterNetworkTopology
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.coscheduling.objects.network_tree import build
from koord.controllers.scheduler.plugins.coscheduling.state.network_topology import (
    NetworkTopologyCache,
)
from tests.controllers.scheduler.plugins.coscheduling.gangs import GangWorld, layers
from tests.controllers.scheduler.pods import node


def topology(*specs: tuple[str, str]) -> ClusterNetworkTopology:
    listed = [{"topologyLayer": n, "parentTopologyLayer": p, "labelKey": [n]} for n, p in specs]
    document = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": listed}}
    return convert(document, ClusterNetworkTopology, "ClusterNetworkTopology default")


def test_details_are_depth_first_by_name_without_nodes() -> None:
    tree = build(
        layers("spine", "block"),
        [
            node("n2", labels={"spine": "s1", "block": "b2"}),
            node("n1", labels={"spine": "s1", "block": "b1"}),
            node("n3", labels={"spine": "s1", "block": "b1"}),
        ],
    )
    spine = {"topologyLayer": "spine", "topologyName": "s1"}
    cluster = {"topologyLayer": "ClusterTopologyLayer", "topologyName": ""}
    blocks = [
        {
            "topologyInfo": {"topologyLayer": "block", "topologyName": name},
            "parentTopologyInfo": spine,
            "childTopologyLayer": "NodeTopologyLayer",
            "nodeNum": count,
        }
        for name, count in (("b1", 2), ("b2", 1))
    ]
    assert to_document(tree.details()) == [
        {
            "topologyInfo": cluster,
            "childTopologyLayer": "spine",
            "childTopologyNames": ["s1"],
            "nodeNum": 3,
        },
        {
            "topologyInfo": spine,
            "parentTopologyInfo": cluster,
            "childTopologyLayer": "block",
            "childTopologyNames": ["b1", "b2"],
            "nodeNum": 3,
        },
        *blocks,
    ]


def test_only_the_place_above_a_node_may_be_missing() -> None:
    tree = build(
        layers("spine", "block"),
        [
            node("n1", labels={"spine": "s1"}),
            node("n2", labels={"block": "b1"}),
            node("n3"),
        ],
    )
    assert sorted(tree.nodes) == ["n1"]
    assert [place.title for place in tree.nodes["n1"].upward()] == [
        "NodeTopologyLayer/n1",
        "block/n1",
        "spine/s1",
        "ClusterTopologyLayer/",
    ]


def test_the_first_label_that_says_something_counts() -> None:
    made = topology(("spine", "ClusterTopologyLayer"), ("NodeTopologyLayer", "spine"))
    made.spec.network_topology_spec[0].label_key = ["a", "b"]
    tree = build(made, [node("n1", labels={"a": "", "b": "x"}), node("n2", labels={"a": "y"})])
    assert [place.name for place in tree.at("spine")] == ["x", "y"]


@pytest.mark.parametrize(
    ("specs", "wrong"),
    [
        ([], "[]"),
        ([("spine", "ClusterTopologyLayer")], "'NodeTopologyLayer'"),
        ([("NodeTopologyLayer", "block"), ("spine", "ClusterTopologyLayer")], "'block'"),
        (
            [("NodeTopologyLayer", "a"), ("a", "NodeTopologyLayer"), ("b", "a")],
            "'NodeTopologyLayer'",
        ),
        (
            [("NodeTopologyLayer", "a"), ("a", "ClusterTopologyLayer"), ("b", "a")],
            "'ClusterTopologyLayer'",
        ),
    ],
)
def test_layers_that_are_no_chain_are_refused(specs: Any, wrong: str) -> None:
    with pytest.raises(KoordError) as error:
        build(topology(*specs), [])
    where = "ClusterNetworkTopology default: spec.networkTopologySpec: got "
    assert str(error.value).startswith(where + wrong)


def test_the_tree_follows_labels_and_outlives_a_bad_object() -> None:
    world = GangWorld([node("n1", labels={"spine": "s1"})])
    tree = world.plugin.topology
    assert isinstance(tree, NetworkTopologyCache)
    assert tree.network() is None
    world.put(layers("spine"))
    first = tree.network()
    assert first is not None
    assert first is tree.network()
    world.put(node("n1", labels={"spine": "s1"}, cpu="64"))
    assert tree.network() is first
    world.put(node("n1", labels={"spine": "s2"}))
    second = tree.network()
    assert second is not None
    assert [place.name for place in second.at("spine")] == ["s2"]
    world.put(topology(("NodeTopologyLayer", "nowhere"), ("x", "y")))
    assert tree.network() is second
    assert "got 'nowhere'" in tree.error
    world.remove(layers("spine"))
    assert tree.network() is None
