# SPDX-License-Identifier: Apache-2.0
"""The plugin's life: what pods get, what is written on them, what they are told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.base.errors import KoordError
from koord.controllers.scheduler.config.args_koord import NodeNUMAResourceArgs
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.controllers.scheduler.plugins.nodenumaresource.plugin import NodeNUMAResource
from koord.controllers.scheduler.registry import Registry
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import (
    SPEC,
    STATUS,
    Cluster,
    bound_pod,
    strategy,
    topology,
)

SHORT = "not enough cpus available to satisfy request"


def one(*reasons: str) -> str:
    return f"0/1 nodes are available: {', '.join(f'1 {reason}' for reason in reasons)}."


def test_the_pods_of_the_release_notes(reference_data: Path) -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 8, 2))
    file = reference_data / "examples/releases/cpu-orchestration-pods.yaml"
    written = {}
    for document in yaml.safe_load_all(file.read_text()):
        document["metadata"] |= {"namespace": "default", "uid": document["metadata"]["name"]}
        document["spec"]["priority"] = 9000
        info = cluster.world.shapes.info(convert(document, Pod, "Pod"))
        cluster.place(info)
        written[info.pod.metadata.name] = cluster.changes(info).annotations
    assert written == {
        "lsr-full": {STATUS: '{"cpuset":"0-3"}'},
        "lsr-default": {
            SPEC: '{"preferredCPUBindPolicy":"FullPCPUs"}',
            STATUS: '{"cpuset":"4-5"}',
        },
        "lse-apart": {STATUS: '{"cpuset":"6,8"}'},
    }


def test_pods_of_one_exclusive_policy_keep_off_each_others_cores() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2))
    apart = {"preferred": "SpreadByPCPUs", "exclusive": "PCPULevel"}
    assert cluster.put("a", "2", **apart) == "0,2"
    assert cluster.put("b", "2", **apart) == "4,6"
    assert cluster.put("c", "2", **apart) == "1,3"


@pytest.mark.parametrize(("label", "cpus"), [("MostAllocated", "2-3"), ("LeastAllocated", "8-9")])
def test_the_nodes_strategy_chooses_the_zone(label: str, cpus: str) -> None:
    cluster = Cluster()
    cluster.node("n0", labels={"node.koordinator.sh/numa-allocate-strategy": label})
    assert cluster.put("a", "2") == "0-1"
    assert cluster.put("b", "2") == cpus


def test_the_zones_scoring_strategy_is_the_default_of_nodes() -> None:
    cluster = Cluster(numa_scoring_strategy=strategy("MostAllocated"))
    cluster.node("n0")
    assert [cluster.put("a", "2"), cluster.put("b", "2")] == ["0-1", "2-3"]


def test_even_parts_of_as_few_zones_as_can() -> None:
    cluster = Cluster()
    even = {"node.koordinator.sh/numa-allocate-strategy": "DistributeEvenly"}
    cluster.node("n0", (2, 1, 4, 2), labels=even)
    assert cluster.put("a", "2") == "0-1"
    assert cluster.put("b", "10") == "2-5,8-13"
    cluster.remove("uid-a")
    cluster.remove("uid-b")
    assert cluster.put("c", "12") == "0-5,8-13"


def test_a_node_that_gives_whole_cores_only() -> None:
    cluster = Cluster()
    cluster.node(
        "n0", (1, 1, 4, 2), labels={"node.koordinator.sh/cpu-bind-policy": "FullPCPUsOnly"}
    )
    assert cluster.put("ls", "2", qos="LS") == "0-1"
    assert cluster.put("odd", "3") == one("node(s) requested cpus not multiple cpus per core")
    assert cluster.put("half", "1500m", qos="LS") == one("the requested CPUs must be integer")
    assert cluster.put("spread", "2", required="SpreadByPCPUs") == one(
        "node(s) cpu bind policy conflicts with pod's required cpu bind policy"
    )
    assert cluster.put("none", qos="LS") == ""
    assert cluster.put("rest", "8") == one(SHORT)


def test_the_kubelets_static_policy_and_its_pods() -> None:
    """CPUs that the kubelet pinned are not given, and whole cores are what its option says."""
    cluster = Cluster()
    allocs = [{"uid": "k", "cpuset": "2", "managedByKubelet": True}]
    options = {"full-pcpus-only": "true"}
    kubelet = {"policy": "static", "options": options, "reservedCPUs": "0-1"}
    cluster.node("n0", (1, 1, 4, 2), kubelet=kubelet, allocs=allocs)
    assert cluster.put("a", "4", qos="LS") == "4-7"
    assert cluster.put("b", "2", qos="LS") == one(SHORT)


def test_unequal_cores_are_judged_by_their_own_threads() -> None:
    rows = [{"id": cpu, "core": core, "socket": 0, "node": 0} for cpu, core in enumerate([0, 0, 1])]
    cluster = Cluster()
    cluster.node("n0", rows)
    assert cluster.put("a", "3", required="FullPCPUs") == "0-2"
    cluster.remove("uid-a")
    assert cluster.put("b", "1", required="FullPCPUs") == "2"


def test_a_pod_is_told_early_that_cpus_are_short() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 2, 2))
    cluster.node("n1", (1, 1, 2, 2))
    cluster.put("a", "3")
    cluster.put("b", "3")
    assert cluster.put("c", "2") == f"0/2 nodes are available: 2 {SHORT}."
    assert cluster.put("d", "1") == "3"


def test_a_node_without_a_topology_is_no_place_for_bound_pods() -> None:
    cluster = Cluster()
    cluster.node("n0", None)
    refused = cluster.refusals(cluster.info("a", "2"))
    assert refused[0].reasons == ("node(s) invalid CPU Topology",)
    assert refused[0].unresolvable
    assert cluster.put("b", "2", qos="LS") == ""


def test_topologies_that_come_late_change_and_go() -> None:
    cluster = Cluster()
    cluster.node("n0", None)
    view = cluster.views.view(NodeResourceTopology)
    assert cluster.put("a", "2") == one("node(s) invalid CPU Topology")
    view.put(topology("n0", (1, 1, 2, 2)))
    assert cluster.put("b", "2") == "0-1"
    view.put(topology("n0", (1, 1, 2, 2), kubelet={"policy": "none", "reservedCPUs": "2"}))
    assert cluster.put("c", "2") == one(SHORT)
    assert cluster.put("d", "1") == "3"
    view.remove("n0")
    assert cluster.put("e", "1") == one("node(s) invalid CPU Topology")
    view.put(topology("n0", (1, 1, 4, 2)))
    assert cluster.put("f", "2") == "4-5"


def test_bound_pods_are_restored_from_what_is_written_on_them() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2))
    status = {"cpuset": "0-3", "numaNodeResources": [{"node": 0, "resources": {"cpu": "4"}}]}
    info = cluster.info("old", "4", held=status, exclusive="PCPULevel")
    cluster.plugin.restore(info)
    assert info.allocations["NodeNUMAResource"].zones == {0: {"cpu": 4000}}
    cluster.world.accounts.add(0, info)
    assert cluster.put("new", "4") == "4-7"
    cluster.world.accounts.drop(info)
    assert cluster.put("newer", "2") == "0-1"


@pytest.mark.parametrize(
    "status",
    [
        "{",
        '{"cpuset":"x"}',
        '{"cpuset":7}',
        '{"numaNodeResources":[{"node":-1,"resources":{"cpu":"1"}}]}',
        '{"numaNodeResources":[{"node":0,"resources":{"cpu":"-1"}}]}',
        '{"numaNodeResources":[{"node":0,"resources":{"memory":"100E"}}]}',
    ],
)
def test_nonsense_on_a_bound_pod_is_logged_and_counts_as_nothing(
    status: str, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2))
    info = cluster.info("old", "4", held=status)
    with caplog.at_level("WARNING"):
        cluster.plugin.restore(info)
    assert info.allocations == {}
    assert "Pod default/old" in caplog.text
    assert "resource-status" in caplog.text


def test_cpus_and_zones_that_the_machine_lacks_count_nowhere() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 2, 2))
    status = {"cpuset": "2-99", "numaNodeResources": [{"node": 7, "resources": {"cpu": "4"}}]}
    info = cluster.info("old", "4", held=status)
    cluster.plugin.restore(info)
    cluster.world.accounts.add(0, info)
    assert cluster.put("a", "2") == "0-1"
    assert cluster.put("b", "1") == one(SHORT)


def test_a_pod_with_nonsense_in_an_annotation_is_told_so_and_goes_nowhere() -> None:
    cluster = Cluster()
    cluster.node("n0")
    decision = cluster.decider.decide(cluster.info("a", "2", annotations={SPEC: '{"a":'}))
    assert decision.row == -1
    assert decision.diagnosis is not None
    assert decision.diagnosis.error
    assert f"Pod default/a: annotations[{SPEC}]" in decision.diagnosis.message()


def test_a_what_if_leaves_every_account_as_it_was() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2))
    for name in "abcd":
        cluster.put(name, "2", exclusive="PCPULevel")
    state = cluster.plugin.cache.state(0)
    before = (state.key(), dict(state.pods))
    assert cluster.put("e", "2") == one(SHORT)
    with cluster.world.accounts.what_if():
        for name in "bd":
            cluster.remove(f"uid-{name}")
        assert cluster.put("f", "4", required="FullPCPUs") == "2-3,6-7"
    assert (state.key(), state.pods) == before


def test_nodes_that_go_come_back_empty() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 2, 2))
    info = cluster.info("a", "4")
    assert cluster.place(info) == "0-3"
    cluster.world.accounts.drop(info)
    cluster.world.table.remove("n0")
    cluster.node("n1", (1, 1, 4, 2))
    assert cluster.world.table.row("n1") == 0
    assert cluster.put("b", "8") == "0-7"


def test_labels_that_change_count_from_then_on() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2))
    assert cluster.put("a", "2", qos="LS") == ""
    cluster.node(
        "n0", (1, 1, 4, 2), labels={"node.koordinator.sh/cpu-bind-policy": "SpreadByPCPUs"}
    )
    assert cluster.put("b", "2", qos="LS") == "0,2"


def test_unreserve_forgets_the_choice() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2))
    info = cluster.info("a", "2")
    decision = cluster.decider.decide(info)
    assert cluster.decider.assume(decision) is None
    assert isinstance(info.allocations["NodeNUMAResource"], NUMAAllocation)
    cluster.decider.retract(decision)
    assert info.allocations == {}
    assert cluster.put("b", "8") == "0-7"


def test_an_allocation_that_a_pod_brings_is_taken_or_nothing() -> None:
    hint = {"internal.scheduling.koordinator.sh/scheduling-hint": json.dumps(
        {"nodeNames": ["n0"], "extensions": {"NodeNUMAResource": {}}}
    )}  # fmt: skip
    cluster = Cluster()
    cluster.node("n0", (1, 1, 4, 2))
    assert cluster.put("a", "2", held={"cpuset": "5-6"}, annotations=hint) == "5-6"
    assert cluster.put("b", "2", held={"cpuset": "6-7"}, annotations=hint) == one(SHORT)
    assert cluster.put("c", "2", held={"cpuset": "0-2"}, annotations=hint) == one(SHORT)
    assert cluster.put("d", "2", held={"cpuset": "2-3"}) == "0-1"
    refused = cluster.put("e", "2", held="{", annotations=hint)
    assert "Pod default/e: annotations[" in refused


@pytest.mark.parametrize(
    ("kind", "weights", "used", "expected"),
    [
        ("MostAllocated", {"cpu": 1}, (0, 0), 25),
        ("LeastAllocated", {"cpu": 1, "memory": 1}, (24, 16), 31),
    ],
)
def test_the_worked_scores(
    kind: str, weights: dict[str, int], used: tuple[int, int], expected: int
) -> None:
    """The examples of docs/reference/numa.md#scoring."""
    cluster = Cluster(scoring_strategy=strategy(kind, **weights))
    cpu = 16 if kind == "MostAllocated" else 32
    cluster.node("n0", (2, 1, cpu // 4, 2), cpu=str(cpu))
    table = cluster.world.table
    table.allocatable[1, 0] = 40 << 30
    table.requested[0, 0], table.requested[1, 0] = used[0] * 1000, used[1] << 30
    info = cluster.info("a", "4", "4Gi", qos="LS")
    cycle = Cycle(info, table)
    assert cluster.plugin.pre_filter(cycle) is None
    few = cluster.plugin.score(cycle, np.array([0], np.intp))
    many = cluster.plugin.score(cycle, np.zeros(20, np.intp))
    assert few.tolist() == [expected]
    assert set(many.tolist()) == {expected}


def test_the_debug_endpoint() -> None:
    cluster = Cluster()
    cluster.node(
        "n0", (2, 1, 2, 2), labels={"node.koordinator.sh/numa-topology-policy": "Restricted"}
    )
    cluster.node("n1", None)
    cluster.put("a", "2")
    report: Any = cluster.plugin.debug(["nodes", "n0"])
    assert report["availableCPUs"] == "2-7"
    assert report["allocatedCPUs"] == {"0": 1, "1": 1}
    assert report["remainingNUMANodeResources"][0]["resources"] == {"cpu": "2", "memory": "15Gi"}
    assert report["allocatedPods"][0]["uid"] == "uid-a"
    assert report["numaTopologyPolicy"] == "Restricted"
    json.dumps(report)
    with pytest.raises(KeyError, match="cannot find node n7"):
        cluster.plugin.debug(["nodes", "n7"])
    with pytest.raises(KoordError, match="NodeResourceTopology"):
        cluster.plugin.debug(["nodes", "n1"])
    with pytest.raises(KeyError):
        cluster.plugin.debug(["pods"])


def test_only_changes_that_matter_are_told() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 2, 2))
    heard: list[int] = []
    wake: Any = lambda resource, action, old, new: heard.append(action)  # noqa: E731
    cluster.world.wake = wake  # type: ignore[method-assign]
    view = cluster.views.view(NodeResourceTopology)
    view.put(topology("n0", (1, 1, 2, 2)))
    assert heard == []
    view.put(topology("n0", (1, 1, 4, 2)))
    view.put(topology("unknown", (1, 1, 4, 2)))
    assert len(heard) == 1


def test_which_pods_that_go_may_help() -> None:
    cluster = Cluster()
    cluster.node("n0", (1, 1, 2, 2))
    cluster.plugin.cache.sync()
    gone, waiting = cluster.plugin.events()[0], cluster.info("waits", "1")
    assert gone.hint is not None
    assert not gone.hint(waiting, bound_pod("plain", "1", qos="LS"), None)
    assert gone.hint(waiting, bound_pod("bound", "1", held={"cpuset": "1"}), None)


def test_a_new_node_object_with_nothing_new_changes_nothing() -> None:
    cluster = Cluster()
    made = cluster.node("n0", (1, 1, 2, 2))
    cluster.put("a", "2")
    state = cluster.plugin.cache.state(0)
    machine = state.topology
    again = convert({"metadata": {"name": "n0"}}, Node, "Node n0")
    again.status = made.status
    cluster.world.table.put(again)
    cluster.plugin.cache.sync()
    assert cluster.plugin.cache.state(0) is state
    assert state.topology is machine


def test_who_asks_for_nothing_goes_anywhere() -> None:
    cluster = Cluster()
    label = {"node.koordinator.sh/numa-topology-policy": "Restricted"}
    cluster.node("n0", None, labels=label)
    info = cluster.info("a", "", "", numa="SingleNUMANode")
    assert not cluster.plugin.applies(Cycle(info, cluster.world.table))
    assert cluster.place(info) == ""
    assert info.row == 0


def test_profiles_find_the_plugin_by_its_name() -> None:
    cluster = Cluster()
    made = Registry([]).make("NodeNUMAResource", NodeNUMAResourceArgs(), cluster.world)
    assert isinstance(made, NodeNUMAResource)


@pytest.mark.parametrize(
    ("compatible", "reported", "free"),
    [
        (False, "SingleNUMANodeContainerLevel", False),
        (True, "SingleNUMANodeContainerLevel", True),
        (True, "SingleNUMANodePodLevel", False),
    ],
)
def test_an_argument_has_only_the_originals_policy_names_count(
    compatible: bool, reported: str, free: bool
) -> None:
    read = NodeNUMAResourceArgs.read({"compatibleTopologyPolicies": compatible}, FieldPath("args"))
    cluster = Cluster(compatible_topology_policies=read.compatible_topology_policies)
    # Four CPUs in each of two zones.
    cluster.node("n0", (2, 1, 2, 2), policies=(reported,))
    assert (cluster.put("p", "6", qos="LS") == "") is free
