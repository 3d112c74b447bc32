# SPDX-License-Identifier: Apache-2.0
"""What NodeResourceTopology and Node say of a machine, and what of it cannot be read."""

from __future__ import annotations

from typing import Any

import pytest

from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
    NodeTopologies,
    NodeTopology,
    amplify,
)
from koord.kernels.numa import TopologyPolicy
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import cpus, topology
from tests.controllers.scheduler.pods import node

GIB = 1 << 30


def machine(nrt: Any, **of_node: Any) -> tuple[NodeTopology, list[str]]:
    return NodeTopologies("LeastAllocated").of(node("n0", **of_node), nrt)


def test_everything_that_is_not_the_schedulers_to_give() -> None:
    """The example of docs/reference/cpu-numa.md#reserved-cpus."""
    found, problems = machine(
        topology(
            "n0",
            (2, 1, 4, 2),
            kubelet={"policy": "static", "reservedCPUs": "0-1"},
            system={"cpuset": "4-5"},
            reservation={"reservedCPUs": "6-7"},
            allocs=[
                {"uid": "u", "cpuset": "0-3", "managedByKubelet": True},
                {"uid": "v", "cpuset": "8-9"},
                {"uid": "", "cpuset": "10", "managedByKubelet": True},
            ],
        )
    )
    assert str(found.reserved) == "0-7"
    assert {zone: row["cpu"] for zone, row in found.amounts.items()} == {0: 0, 1: 8000}
    assert problems == []


def test_cpus_that_system_pods_share_are_given() -> None:
    found, _ = machine(topology("n0", system={"cpuset": "4-5", "cpusetExclusive": False}))
    assert not found.reserved


@pytest.mark.parametrize(
    ("annotations", "field"),
    [
        ({"kubelet": {"policy": "static", "reservedCPUs": "0-x"}}, "cpu-manager-policy"),
        ({"kubelet": "{"}, "cpu-manager-policy"),
        ({"system": {"cpuset": "0--4"}}, "system-qos-resource"),
        ({"reservation": '{"reservedCPUs": 7}'}, "reservation"),
        ({"allocs": [{"uid": "u", "cpuset": "99999", "managedByKubelet": True}]}, "pod-cpu-allocs"),
        ({"ratios": {"cpu": -1}}, "amplification-ratio"),
    ],
)
def test_a_part_that_cannot_be_read_is_named_and_counts_as_absent(
    annotations: dict[str, Any], field: str
) -> None:
    good = {"reservation": {"reservedCPUs": "2"}, **annotations}
    found, problems = machine(topology("n0", **good))
    assert str(found.reserved) == ("" if "reservation" in annotations else "2")
    assert any(field in line and line.startswith("NodeResourceTopology n0") for line in problems)
    assert found.cpu_topology is not None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"detail": 7}',
        '{"detail": [{"id": -3}]}',
        '{"detail": [{"id": 1}, {"id": 1}]}',
        '{"detail": [{"id": 99999999999}]}',
        '{"detail": [{"id":0,"core":0,"socket":0,"node":0},{"id":1,"core":0,"socket":0,"node":1}]}',
    ],
)
def test_nonsense_is_no_topology(text: str) -> None:
    nrt = topology("n0")
    nrt.metadata.annotations["node.koordinator.sh/cpu-topology"] = text
    found, problems = machine(nrt)
    assert found.cpu_topology is None
    assert any("cpu-topology" in line for line in problems)


def test_equal_nodes_are_one_machine() -> None:
    machines = NodeTopologies("LeastAllocated")
    one, _ = machines.of(node("a"), topology("a"))
    two, _ = machines.of(node("b"), topology("b"))
    other, _ = machines.of(node("c"), topology("c", memory="8Gi"))
    assert one is two
    assert one is not other


def test_cores_of_one_number_on_two_sockets_are_two() -> None:
    rows = cpus(2, 1, 2, 2)
    for row in rows:
        row["core"] %= 2
    found, _ = machine(topology("n0", rows))
    assert found.cpu_topology is not None
    assert found.cpu_topology.summary().cores == 4


@pytest.mark.parametrize(
    ("reported", "label", "expected"),
    [
        (("BestEffort",), "", TopologyPolicy.BEST_EFFORT),
        (("None", "Restricted"), "", TopologyPolicy.RESTRICTED),
        (("SingleNUMANodePodLevel",), "", TopologyPolicy.SINGLE_NUMA_NODE),
        (("RestrictedPodLevel",), "", TopologyPolicy.RESTRICTED),
        (("SingleNUMANodeContainerLevel",), "", TopologyPolicy.SINGLE_NUMA_NODE),
        (("Restricted",), "BestEffort", TopologyPolicy.BEST_EFFORT),
        (("Restricted",), "Nonsense", TopologyPolicy.RESTRICTED),
        (("Nonsense",), "", TopologyPolicy.NONE),
        ((), "", TopologyPolicy.NONE),
    ],
)
def test_the_topology_policy(
    reported: tuple[str, ...], label: str, expected: TopologyPolicy
) -> None:
    labels = {"node.koordinator.sh/numa-topology-policy": label} if label else {}
    found, _ = machine(topology("n0", policies=reported), labels=labels)
    assert found.numa_policy is expected


def test_only_the_originals_names_count_where_that_is_asked_for() -> None:
    machines = NodeTopologies("LeastAllocated", compatible=True)
    found, _ = machines.of(node("n0"), topology("n0", policies=("RestrictedPodLevel",)))
    assert found.numa_policy is TopologyPolicy.NONE


def test_ratios_of_the_node_amplify_zones_once() -> None:
    ratios = {"node.koordinator.sh/resource-amplification-ratio": '{"cpu":1.50,"memory":2}'}
    plain = topology("n0", reservation={"reservedCPUs": "0-1"})
    found, _ = machine(plain, annotations=ratios)
    assert found.amounts[0] == {"cpu": 9000, "memory": 32 * GIB}
    assert (found.zone_ratio, found.node_ratio) == (1.5, 1.5)
    known, _ = machine(topology("n0", ratios={"cpu": 1.2}), annotations=ratios)
    assert known.amounts[0] == {"cpu": 8000, "memory": 16 * GIB}
    assert (known.zone_ratio, known.node_ratio) == (1.2, 1.5)


@pytest.mark.parametrize("text", ["{", '{"cpu":"x"}', '{"cpu":-2}', '{"cpu":1e300}'])
def test_a_bad_ratio_is_remembered(text: str) -> None:
    notes = {"node.koordinator.sh/resource-amplification-ratio": text}
    found, problems = machine(topology("n0"), annotations=notes)
    assert found.invalid_ratio
    assert problems[0].startswith("Node n0")


def test_amplified_amounts_are_rounded_up() -> None:
    assert amplify(1000, 1.001) == 1001
    assert amplify(999, 1.0) == 999
    assert amplify(999, 0.5) == 999
    assert amplify(3, 1.5) == 5


def test_zones_by_number_not_by_text() -> None:
    rows = [{"id": cpu, "core": cpu, "socket": 0, "node": cpu} for cpu in range(12)]
    found, _ = machine(topology("n0", rows))
    assert list(found.amounts) == list(range(12))


def test_zones_with_amounts_out_of_range_are_left_out() -> None:
    more = {"node-0": {"memory": "-1"}, "node-1": {"memory": "9E"}}
    found, problems = machine(topology("n0", (2, 2, 2, 1), more=more))
    assert list(found.amounts) == [2, 3]
    assert len(problems) == 2


def test_labels_choose_policy_and_strategy() -> None:
    labels = {
        "node.koordinator.sh/cpu-bind-policy": "SpreadByPCPUs",
        "node.koordinator.sh/numa-allocate-strategy": "MostAllocated",
    }
    found, _ = machine(topology("n0"), labels=labels)
    assert (found.bind_policy, found.strategy) == ("SpreadByPCPUs", "MostAllocated")
    kubelet = {"policy": "static", "options": {"full-pcpus-only": "true"}}
    found, _ = machine(topology("n0", kubelet=kubelet), labels=labels)
    assert found.bind_policy == "FullPCPUsOnly"
    labels["node.koordinator.sh/numa-allocate-strategy"] = "Whatever"
    found, _ = machine(topology("n0"), labels=labels)
    assert found.strategy == "LeastAllocated"
