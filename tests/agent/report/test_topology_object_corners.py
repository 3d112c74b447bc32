# SPDX-License-Identifier: Apache-2.0
"""Corners of the topology report: uneven machines, odd settings, and what others wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

from koord.agent.report.kubelet_cpu_packing import packed_cpus
from koord.agent.report.publisher import topology_changes
from koord.agent.report.topology_object import (
    KubeletView,
    NodeHardware,
    ZoneMemory,
    topology_object,
)
from koord.agent.states.kubelet import KubeletConfiguration
from koord.api.kinds.node import Node
from koord.api.kinds.topology import NodeResourceTopology, ZoneResource
from koord.api.objects import decode_as
from koord.api.protocol import keys
from koord.api.protocol.topology import CPUBasicInfo, CPUInfo
from koord.kernels.quantity import Quantity

# Three CPUs on the first socket, two on the second, no siblings.
UNEVEN = [CPUInfo(id=i, core=i, socket=i // 3, node=i // 3) for i in range(5)]
# One socket of three cores; the last core's second thread is offline.
HALF_CORE = [CPUInfo(id=i, core=i // 2, socket=0, node=0) for i in range(5)]
HARDWARE = NodeHardware(UNEVEN, CPUBasicInfo(), {0: ZoneMemory(2**31), 1: ZoneMemory(2**31)})


def report(node: dict[str, Any], **kubelet: Any) -> NodeResourceTopology:
    document = {"metadata": {"name": "n1", **node.pop("metadata", {})}, "status": node}
    configuration = KubeletConfiguration(cpu_manager_policy="static", **kubelet)
    view = KubeletView(configuration if kubelet else None)
    return topology_object(decode_as(document, Node), HARDWARE, [], view)


@pytest.mark.parametrize(
    ("cpus", "count", "taken"),
    [
        # Two are as many as an average socket has, which the second is.
        (UNEVEN, 2, "3-4"),
        # The smaller socket comes first.
        (UNEVEN, 1, "3"),
        (UNEVEN, 3, "0,3-4"),
        (UNEVEN, 5, "0-4"),
        (UNEVEN, 6, ""),
        (UNEVEN, 0, ""),
        # Five CPUs on three cores are one each on average: the core with one is whole.
        (HALF_CORE, 1, "4"),
        (HALF_CORE, 2, "0,4"),
    ],
)
def test_the_kubelets_choice_on_uneven_machines(
    cpus: list[CPUInfo], count: int, taken: str
) -> None:
    assert str(packed_cpus(cpus, count)) == taken


@pytest.mark.parametrize(
    ("settings", "reserved"),
    [
        ({"kube_reserved": {"cpu": "1", "memory": "1Gi"}}, "3"),
        ({"kube_reserved": {"cpu": "1", "memory": "-1"}}, None),
        ({"kube_reserved": {"cpu": "1", "memory": "much"}}, None),
        ({"kube_reserved": {"cpu": "1", "storage": "1Gi"}}, None),
        ({"kube_reserved": {"cpu": "2"}, "system_reserved": {"cpu": "-1"}}, None),
        # CPUs by number stand instead of what the amounts say of CPU, and of nothing else.
        ({"reserved_system_cpus": "2", "kube_reserved": {"cpu": "-1"}}, "2"),
        ({"reserved_system_cpus": "2", "kube_reserved": {"memory": "-1"}}, None),
        ({"reserved_system_cpus": "2,x", "kube_reserved": {"cpu": "1"}}, None),
        ({"reserved_system_cpus": "4-5"}, None),
    ],
)
def test_what_a_kubelet_reserves(settings: dict[str, Any], reserved: str | None) -> None:
    policy = json.loads(report({}, **settings).metadata.annotations[keys.CPU_MANAGER_POLICY])
    assert policy.get("reservedCPUs") == reserved


def test_a_reservation_is_reported_whole() -> None:
    text = '{"resources":{"cpu":"1500m","memory":"1Gi"},"applyPolicy":"ReservedCPUsOnly"}'
    found = report({"metadata": {"annotations": {keys.NODE_RESERVATION: text}}})
    assert json.loads(found.metadata.annotations[keys.NODE_RESERVATION]) == {
        "resources": {"cpu": "1500m", "memory": "1Gi"}, "reservedCPUs": "3-4",
        "applyPolicy": "ReservedCPUsOnly",
    }  # fmt: skip


def test_an_empty_system_resource_is_reported_as_one() -> None:
    found = report({"metadata": {"annotations": {keys.SYSTEM_QOS_RESOURCE: "null"}}})
    assert found.metadata.annotations[keys.SYSTEM_QOS_RESOURCE] == "{}"


def test_only_what_has_both_amounts_is_divided_among_zones() -> None:
    labels = {keys.ENABLE_NUMA_RESERVATION: "true"}
    found = report({
        "metadata": {"labels": labels}, "capacity": {"cpu": "5", "memory": "4Gi"},
        "allocatable": {"cpu": "4"},
    })  # fmt: skip
    left = {each.name: str(each.allocatable) for each in found.zones[0].resources}
    assert (left["cpu"], left["memory"]) == ("2500m", "2Gi")


def test_resources_of_others_stay_wherever_they_stand() -> None:
    wanted, there = report({}), report({})
    one = Quantity.from_value(1)
    for name in ("koordinator.sh/gpu", "example.com/nic"):
        there.zones[1].resources.append(ZoneResource(name, one, one, one))
    assert topology_changes(there, wanted) is None
    there.zones[1].resources[0].capacity = one
    change = topology_changes(there, wanted)
    assert change is not None
    assert [each["name"] for each in change["zones"][1]["resources"]] == [
        "cpu", "example.com/nic", "hugepages-1Gi", "hugepages-2Mi", "koordinator.sh/gpu", "memory",
    ]  # fmt: skip


def test_an_annotation_that_somebody_broke_is_written_again() -> None:
    wanted, there = report({}), report({})
    there.metadata.annotations[keys.CPU_TOPOLOGY] = "x"
    change = topology_changes(there, wanted)
    text = wanted.metadata.annotations[keys.CPU_TOPOLOGY]
    assert change == {"metadata": {"annotations": {keys.CPU_TOPOLOGY: text}}}
