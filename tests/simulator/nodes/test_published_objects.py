# SPDX-License-Identifier: Apache-2.0
"""What machines publish: readable by koord.api, valid against the CRDs, as agents would say it."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest

from koord.api import Device, Node, NodeResourceTopology, crds, decode_as
from koord.api.protocol import keys, topology
from koord.api.protocol.node_reservation import NodeReservation
from koord.api.protocol.qos import QoSClass
from koord.kernels.quantity import Quantity
from koord.simulator.nodes import published_objects
from koord.simulator.nodes.machine import SimulatedMachine
from koord.simulator.nodes.pools import NodePool, PoolGPUs, TaintSpec

NOW = "2030-01-01T00:00:00Z"
SCHEMAS = {
    (f"{each['spec']['group']}/{version['name']}", each["spec"]["names"]["kind"]): version["schema"]
    for each in crds()
    for version in each["spec"]["versions"]
}


def machine(**fields: Any) -> SimulatedMachine:
    pool = NodePool(name="a", **{"cpu": 8, "memory": "32Gi", "sockets": 2, **fields})
    return SimulatedMachine("a-001", pool, 5, seed=1)


def assert_valid(document: dict[str, Any]) -> None:
    schema = SCHEMAS[document["apiVersion"], document["kind"]]["openAPIV3Schema"]
    errors = [error.message for error in jsonschema_rs.validator_for(schema).iter_errors(document)]
    assert errors == []


def test_a_node_is_ready_and_as_large_as_its_machine() -> None:
    made = machine(zone="z1", labels={"a": "b"}, taints=[TaintSpec("k", "NoSchedule")])
    document = published_objects.node(made, "v1.35.4", NOW)
    node = decode_as(document, Node)
    assert node.metadata.labels["kubernetes.io/hostname"] == "a-001"
    assert node.metadata.labels["topology.kubernetes.io/zone"] == "z1"
    assert node.metadata.labels["a"] == "b"
    assert [(taint.key, taint.effect) for taint in node.spec.taints] == [("k", "NoSchedule")]
    assert node.status.capacity["memory"] == Quantity.parse("32Gi")
    assert node.status.allocatable["cpu"] == Quantity.parse("7500m")
    assert [c.type for c in node.status.conditions if c.status == "True"] == ["Ready"]
    assert node.status.addresses[0].address == "172.20.0.5"


def test_a_condition_keeps_the_time_of_its_last_change() -> None:
    status = published_objects.node_status(machine(), "v1", NOW, {"Ready": "2029-01-01T00:00:00Z"})
    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert times["Ready"] == "2029-01-01T00:00:00Z"
    assert times["DiskPressure"] == NOW


def test_zones_add_up_to_the_machine() -> None:
    made = machine(numa_nodes_per_socket=2, cpu=16)
    document = published_objects.topology(
        made, "u", published_objects.pool_annotations(made, [], None)
    )
    assert_valid(document)
    nrt = decode_as(document, NodeResourceTopology)
    assert nrt.topology_policies == ["None"]
    assert [zone.name for zone in nrt.zones] == ["node-0", "node-1", "node-2", "node-3"]
    memory = [zone.resources[1].capacity for zone in nrt.zones]
    assert sum(memory, Quantity()) == Quantity.parse("32Gi")
    assert [cost.value for cost in nrt.zones[0].costs] == [10, 12, 21, 21]
    cpus = topology.cpu_topology(nrt)
    assert cpus is not None
    assert [cpu.id for cpu in cpus.detail] == list(range(16))
    assert topology.pod_cpu_allocs(nrt) == []
    policy = topology.kubelet_cpu_manager_policy(nrt)
    assert policy.policy == "none"
    (reference,) = nrt.metadata.owner_references
    assert (reference.kind, reference.uid, reference.controller) == ("Node", "u", True)


def pools(nrt_annotations: dict[str, str], *, be: bool = False) -> list[str]:
    document = published_objects.topology(machine(), "u", nrt_annotations)
    nrt = decode_as(document, NodeResourceTopology)
    return [pool.cpuset for pool in topology.shared_pools(nrt, be=be)]


@pytest.mark.parametrize(
    ("bound", "reservation", "shared", "best_effort"),
    [
        ([], None, ["0-1,4-5", "2-3,6-7"], ["0-1,4-5", "2-3,6-7"]),
        ([(QoSClass.LSR, "0,4")], None, ["1,5", "2-3,6-7"], ["0-1,4-5", "2-3,6-7"]),
        ([(QoSClass.LSE, "0,4")], None, ["1,5", "2-3,6-7"], ["1,5", "2-3,6-7"]),
        ([(QoSClass.LSE, "0-1,4-5")], None, ["2-3,6-7"], ["2-3,6-7"]),
        ([(QoSClass.LSR, "nonsense")], None, ["0-1,4-5", "2-3,6-7"], ["0-1,4-5", "2-3,6-7"]),
        ([], NodeReservation(reserved_cpus="0-1,4-5"), ["", "2-3,6-7"], ["", "2-3,6-7"]),
        ([], NodeReservation(resources={"cpu": Quantity.parse("1500m")}),
         ["1,5", "2-3,6-7"], ["1,5", "2-3,6-7"]),
    ],
)  # fmt: skip
def test_shared_pools_are_what_nobody_holds(
    bound: list[tuple[QoSClass, str]],
    reservation: NodeReservation | None,
    shared: list[str],
    best_effort: list[str],
) -> None:
    annotations = published_objects.pool_annotations(machine(), bound, reservation)
    assert pools(annotations) == shared
    assert pools(annotations, be=True) == best_effort


def test_the_reservation_is_reported_with_its_cpus() -> None:
    reservation = NodeReservation(resources={"cpu": Quantity.parse("2")})
    annotations = published_objects.pool_annotations(machine(), [], reservation)
    assert annotations[keys.NODE_RESERVATION] == '{"reservedCPUs":"0,4"}'
    assert keys.NODE_RESERVATION not in published_objects.pool_annotations(machine(), [], None)


def test_cards_are_reported_where_they_sit() -> None:
    document = published_objects.device(
        machine(gpus=PoolGPUs(count=4, model="H100", memory="80Gi")), "u"
    )
    assert_valid(document)
    device = decode_as(document, Device)
    assert device.metadata.labels[keys.GPU_MODEL] == "H100"
    assert [card.minor for card in device.spec.devices] == [0, 1, 2, 3]
    assert [card.topology.node_id for card in device.spec.devices if card.topology] == [0, 0, 1, 1]
    assert all(card.health for card in device.spec.devices)
    memory = device.spec.devices[0].resources["koordinator.sh/gpu-memory"]
    assert memory == Quantity.parse("80Gi")
