# SPDX-License-Identifier: Apache-2.0
"""Share pools, the kubelet's CPUs, zones, and writing none of what others keep."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.host.cgroup_layout import CgroupLayout
from koord.agent.report.cpu_pools import BoundCPUs, kept_cpus, shared_pools
from koord.agent.report.publisher import Publisher, topology_changes
from koord.agent.report.reporters import TopologyReporter
from koord.agent.report.topology_object import (
    KubeletView,
    NodeHardware,
    ZoneMemory,
    kubelet_allocations,
    topology_object,
)
from koord.agent.states.kubelet import KubeletConfiguration
from koord.agent.states.pod_state import PodState, pod_state
from koord.agent.states.snapshot import SnapshotPart
from koord.agent.states.state_store import StateStore
from koord.api import crds
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology, Zone, ZoneResource
from koord.api.objects import decode_as
from koord.api.protocol import keys
from koord.api.protocol.node_reservation import NodeReservation
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.topology import CPUBasicInfo, CPUInfo
from koord.base.clock import VirtualClock
from koord.base.errors import KoordError
from koord.base.supervision import Supervisor
from koord.controlplane.embedded import EmbeddedControlPlane, Options
from koord.kernels.cgroup_path import Driver
from koord.kernels.cpuset import CPUSet
from koord.kernels.quantity import Quantity
from koord.kube.client import Client
from koord.kube.crds import install
from koord.kube.errors import ApiError, Status, TransportError
from tests.kube.harness import logged, run_virtual

# Two sockets of one NUMA node, three cores of two threads each; siblings are n and n + 6.
CPUS = [CPUInfo(id=i, core=i % 6, socket=i % 6 // 3, node=i % 6 // 3) for i in range(12)]
HARDWARE = NodeHardware(
    CPUS, CPUBasicInfo(cpu_model="X"), {0: ZoneMemory(2**30), 1: ZoneMemory(2**31)}
)


def node(annotations: dict[str, str] | None = None, **rest: Any) -> Node:
    metadata = {"name": "n1", "uid": "u", "annotations": annotations or {}, **rest}
    status = {
        "capacity": {"cpu": "12", "memory": "3Gi"},
        "allocatable": {"cpu": "10500m", "memory": "2Gi"},
    }
    return decode_as({"metadata": metadata, "status": status}, Node)


def bound(name: str, qos: str, cpus: str, phase: str = "Running") -> PodState:
    document = {
        "metadata": {
            "name": name,
            "namespace": "d",
            "uid": f"{name}-uid",
            "labels": {"koordinator.sh/qosClass": qos},
            "annotations": {keys.RESOURCE_STATUS: json.dumps({"cpuset": cpus})} if cpus else {},
        },
        "status": {"phase": phase},
    }
    return pod_state(decode_as(document, Pod), CgroupLayout(Driver.CGROUPFS))


def pools(found: NodeResourceTopology, key: str) -> list[tuple[int, int, str]]:
    text = found.metadata.annotations[key]
    return [(each["socket"], each["node"], each.get("cpuset", "")) for each in json.loads(text)]


def test_bound_cpus_leave_the_pools() -> None:
    pods = [
        bound("lse", "LSE", "0,6"),
        bound("lsr", "LSR", "1,7"),
        bound("done", "LSR", "2,8", phase="Succeeded"),
        bound("bad", "LSR", "x"),
    ]
    found = topology_object(node(), HARDWARE, pods, KubeletView())
    assert pools(found, keys.CPU_SHARED_POOLS) == [(0, 0, "2,8"), (1, 1, "3-5,9-11")]
    # LSR CPUs stay usable by best effort, LSE CPUs never are.
    assert pools(found, keys.BE_CPU_SHARED_POOLS) == [(0, 0, "1-2,7-8"), (1, 1, "3-5,9-11")]


@pytest.mark.parametrize(
    ("reservation", "kept"),
    [
        ({"reservedCPUs": "0,6,1"}, "0-1,6"),
        ({"resources": {"cpu": "2"}}, "0,6"),
        ({"resources": {"cpu": "1500m"}}, "0,6"),
        ({"resources": {"cpu": "7"}}, "0-3,6-8"),
        ({"resources": {"memory": "1Gi"}}, ""),
    ],
)
def test_a_node_reservation_by_list_or_by_count(reservation: dict[str, Any], kept: str) -> None:
    text = json.dumps(reservation)
    found = topology_object(node({keys.NODE_RESERVATION: text}), HARDWARE, [], KubeletView())
    told = json.loads(found.metadata.annotations[keys.NODE_RESERVATION])
    assert told == reservation | ({"reservedCPUs": kept} if kept else {})
    shared = [CPUSet.parse(text) for _, _, text in pools(found, keys.CPU_SHARED_POOLS)]
    assert all(pool.isdisjoint(CPUSet.parse(kept)) for pool in shared)
    assert sum(map(len, shared)) == 12 - len(CPUSet.parse(kept))


def test_exclusive_system_cpus_leave_an_empty_pool() -> None:
    text = '{"cpuset": "0-2,6-8"}'
    found = topology_object(node({keys.SYSTEM_QOS_RESOURCE: text}), HARDWARE, [], KubeletView())
    assert pools(found, keys.CPU_SHARED_POOLS) == [(0, 0, ""), (1, 1, "3-5,9-11")]
    text = '{"cpuset": "0-2,6-8", "cpusetExclusive": false}'
    found = topology_object(node({keys.SYSTEM_QOS_RESOURCE: text}), HARDWARE, [], KubeletView())
    assert len(pools(found, keys.CPU_SHARED_POOLS)[0][2]) > 0


def test_a_malformed_annotation_is_no_reservation() -> None:
    found = topology_object(node({keys.NODE_RESERVATION: "{"}), HARDWARE, [], KubeletView())
    assert found.metadata.annotations[keys.NODE_RESERVATION] == "{}"


def test_the_kubelets_static_cpus() -> None:
    state = {
        "policyName": "static",
        "defaultCpuSet": "0,6",
        "entries": {
            "kube-uid": {"a": "1,7", "b": "2", "c": "bad"},
            "ls-uid": {"a": "3"},
            "koord-uid": {"a": "4"},
            "none-uid": {"a": ""},
        },
    }
    allocations = kubelet_allocations(json.dumps(state).encode())
    assert {uid: str(cpus) for uid, cpus in allocations.items()} == {
        "koord-uid": "4",
        "kube-uid": "1-2,7",
        "ls-uid": "3",
    }
    configuration = KubeletConfiguration(
        cpu_manager_policy="static",
        cpu_manager_policy_options={"full-pcpus-only": "true"},
        topology_manager_policy="single-numa-node",
        topology_manager_scope="pod",
        kube_reserved={"cpu": "500m"},
        system_reserved={"cpu": "1"},
    )
    pods = [bound("kube", "", ""), bound("ls", "LS", ""), bound("koord", "LSR", "4,10")]
    found = topology_object(node(), HARDWARE, pods, KubeletView(configuration, allocations))
    assert found.topology_policies == ["SingleNUMANodePodLevel"]
    (allocation,) = json.loads(found.metadata.annotations[keys.POD_CPU_ALLOCS])
    assert allocation == {
        "uid": "kube-uid", "namespace": "d", "name": "kube", "cpuset": "1-2,7",
        "managedByKubelet": True,
    }  # fmt: skip
    policy = json.loads(found.metadata.annotations[keys.CPU_MANAGER_POLICY])
    assert (policy["policy"], policy["reservedCPUs"]) == ("static", "0,6")
    assert pools(found, keys.CPU_SHARED_POOLS) == [(0, 0, "0,6,8"), (1, 1, "3,5,9,11")]


@pytest.mark.parametrize("text", [b"{", b"[]", b'{"entries": 3}'])
def test_a_damaged_checkpoint_of_the_kubelet_is_an_error(text: bytes) -> None:
    with pytest.raises(KoordError, match="cpu_manager_state"):
        kubelet_allocations(text)


def test_an_empty_checkpoint_of_the_kubelet_has_none() -> None:
    assert kubelet_allocations(b" \n") == {}


def test_the_kubelet_leaves_entries_out_while_nobody_holds_cpus() -> None:
    # As a kubelet with the static policy writes it on a node without Guaranteed pods.
    text = b'{"policyName":"static","defaultCpuSet":"0-3","checksum":14413152}'
    assert kubelet_allocations(text) == {}
    again = b'{"policyName":"static","defaultCpuSet":"0-3","entries":{},"checksum":14413152}'
    assert kubelet_allocations(again) == {}


def test_zones_and_the_systems_share_of_them() -> None:
    found = topology_object(node(), HARDWARE, [], KubeletView())
    assert [zone.name for zone in found.zones] == ["node-0", "node-1"]
    amounts = {each.name: str(each.capacity) for each in found.zones[0].resources}
    assert amounts == {"cpu": "6", "hugepages-1Gi": "0", "hugepages-2Mi": "0", "memory": "1Gi"}
    labels = {keys.ENABLE_NUMA_RESERVATION: "true"}
    shared = topology_object(node(labels=labels), HARDWARE, [], KubeletView())
    # 1500m and 1Gi of the node over two zones.
    left = {each.name: str(each.allocatable) for each in shared.zones[0].resources}
    assert (left["cpu"], left["memory"]) == ("5250m", "512Mi")


def test_cpus_and_memory_must_tell_of_the_same_zones() -> None:
    hardware = NodeHardware(CPUS, CPUBasicInfo(), {0: ZoneMemory(1)})
    with pytest.raises(KoordError, match="NUMA nodes with memory: got '0', expected 0,1, as"):
        topology_object(node(), hardware, [], KubeletView())


def test_numa_ids_with_gaps_and_a_node_of_memory_alone() -> None:
    cpus = [CPUInfo(id=i, core=i, socket=i // 2, node=2 * (i // 2)) for i in range(4)]
    memory = {0: ZoneMemory(2**30), 2: ZoneMemory(2**30), 10: ZoneMemory(2**32)}
    hardware = NodeHardware(cpus, CPUBasicInfo(), memory)
    labels = {keys.ENABLE_NUMA_RESERVATION: "true"}
    found = topology_object(node(labels=labels), hardware, [], KubeletView())
    told = {
        zone.name: {each.name: (str(each.capacity), str(each.allocatable))
                    for each in zone.resources if each.name in ("cpu", "memory")}
        for zone in found.zones
    }  # fmt: skip
    # 1500m of the node over the two zones that have CPUs, 1Gi over the three that have memory.
    assert told == {
        "node-0": {"cpu": ("2", "1250m"), "memory": ("1Gi", "715827882666m")},
        "node-10": {"cpu": ("0", "0"), "memory": ("4Gi", "3937053354666m")},
        "node-2": {"cpu": ("2", "1250m"), "memory": ("1Gi", "715827882666m")},
    }
    assert [zone.name for zone in found.zones] == ["node-0", "node-10", "node-2"]
    assert pools(found, keys.CPU_SHARED_POOLS) == [(0, 0, "0-1"), (1, 2, "2-3")]


def test_a_reservation_of_more_cpus_than_there_are_holds_back_none() -> None:
    annotations = {keys.NODE_RESERVATION: '{"resources":{"cpu":"13"}}'}
    found = topology_object(node(annotations), HARDWARE, [], KubeletView())
    told = json.loads(found.metadata.annotations[keys.NODE_RESERVATION])
    assert told == {"resources": {"cpu": "13"}}
    assert pools(found, keys.CPU_SHARED_POOLS) == [(0, 0, "0-2,6-8"), (1, 1, "3-5,9-11")]
    annotations = {keys.NODE_RESERVATION: '{"resources":{"cpu":"12"}}'}
    found = topology_object(node(annotations), HARDWARE, [], KubeletView())
    assert pools(found, keys.CPU_SHARED_POOLS) == [(0, 0, ""), (1, 1, "")]


def test_what_is_gone_from_the_node_goes_from_the_topology_too() -> None:
    system = '{"cpuset":"0-1","cpusetExclusive":true}'
    annotations = {
        keys.SYSTEM_QOS_RESOURCE: system, keys.NODE_RESERVATION: '{"reservedCPUs":"2"}',
    }  # fmt: skip
    labels = {keys.ENABLE_NUMA_RESERVATION: "true"}
    there = topology_object(node(annotations, labels=labels), HARDWARE, [], KubeletView())
    assert there.metadata.annotations[keys.SYSTEM_QOS_RESOURCE] == system
    assert there.metadata.labels[keys.ENABLE_NUMA_RESERVATION] == "true"
    there.metadata.annotations["example.com/note"] = "mine"
    there.metadata.labels["example.com/rack"] = "7"
    change = topology_changes(there, topology_object(node(), HARDWARE, [], KubeletView()))
    assert change is not None
    told = change["metadata"]
    assert told["annotations"].pop(keys.CPU_SHARED_POOLS)
    assert told["annotations"].pop(keys.BE_CPU_SHARED_POOLS)
    assert told["annotations"] == {keys.SYSTEM_QOS_RESOURCE: None, keys.NODE_RESERVATION: None}
    assert told["labels"] == {keys.ENABLE_NUMA_RESERVATION: None}


def test_the_originals_word_for_no_system_resource_goes() -> None:
    wanted = topology_object(node(), HARDWARE, [], KubeletView())
    there = topology_object(node(), HARDWARE, [], KubeletView())
    there.metadata.annotations[keys.SYSTEM_QOS_RESOURCE] = "null"
    change = topology_changes(there, wanted)
    assert change == {"metadata": {"annotations": {keys.SYSTEM_QOS_RESOURCE: None}}}


@given(
    st.lists(st.tuples(st.sampled_from(list(QoSClass)), st.sets(st.integers(0, 11))), max_size=4),
    st.sets(st.integers(0, 11)),
    st.sets(st.integers(0, 11)),
    st.one_of(
        st.builds(lambda ids: {"reservedCPUs": str(CPUSet.from_ids(ids))}, st.sets(
            st.integers(0, 11))),
        st.builds(lambda count: {"resources": {"cpu": str(count)}}, st.integers(0, 12)),
    ),
)  # fmt: skip
def test_pools_equal_the_plain_rule(
    pods: list[tuple[QoSClass, set[int]]],
    by_kubelet: set[int],
    system: set[int],
    reservation: dict[str, Any],
) -> None:
    asked = NodeReservation(
        reserved_cpus=reservation.get("reservedCPUs", ""),
        resources={
            name: Quantity.parse(text) for name, text in reservation.get("resources", {}).items()
        },
    )
    kept = kept_cpus(CPUS, asked) | CPUSet.from_ids(system)
    held = [BoundCPUs(qos, str(CPUSet.from_ids(ids))) for qos, ids in pods]
    found = shared_pools(CPUS, held, CPUSet.from_ids(by_kubelet), kept)
    for pool, lost in (
        (found.shared, [ids for _, ids in pods]),
        (found.best_effort, [ids for qos, ids in pods if qos is QoSClass.LSE]),
    ):
        base = set(range(12)) - by_kubelet - set().union(*lost)
        expected = {
            zone: sorted({cpu for cpu in base if cpu % 6 // 3 == zone} - set(kept.ids()))
            for zone in (0, 1)
            if any(cpu % 6 // 3 == zone for cpu in base)
        }
        assert {each.node: CPUSet.parse(each.cpuset).ids() for each in pool} == expected


def test_only_the_agents_part_is_written() -> None:
    wanted = topology_object(node(), HARDWARE, [], KubeletView())
    there = topology_object(node(), HARDWARE, [], KubeletView())
    there.metadata.annotations["mine"] = "kept"
    # Formatting is no difference, nor are amounts that others keep in a zone.
    text = there.metadata.annotations[keys.CPU_TOPOLOGY]
    there.metadata.annotations[keys.CPU_TOPOLOGY] = json.dumps(json.loads(text), indent=2)
    one = Quantity.from_value(1)
    foreign = ZoneResource("kubernetes.io/batch-cpu", one, one, one)
    there.zones[0].resources.insert(2, foreign)
    there.zones[0].resources.sort(key=lambda each: each.name)
    assert topology_changes(there, wanted) is None
    there.zones.append(Zone(name="node-2", type="Node"))
    there.metadata.annotations[keys.NODE_RESERVATION] = "{}"
    change = topology_changes(there, wanted)
    assert change is not None
    assert change["metadata"] == {"annotations": {keys.NODE_RESERVATION: None}}
    assert [zone["name"] for zone in change["zones"]] == ["node-0", "node-1"]
    assert "kubernetes.io/batch-cpu" in [each["name"] for each in change["zones"][0]["resources"]]


def test_on_an_api_server() -> None:
    clock = VirtualClock(1_700_000_000.0)

    async def story() -> None:
        async with EmbeddedControlPlane(Options(clock=clock, seed=1)) as plane:
            client = Client(plane.transport(), requests_per_second=None)
            async for _ in install(client, crds()):
                pass
            await client.create(node())
            store = StateStore(clock)
            store.put(SnapshotPart.NODE, await client.get(Node, "n1"))
            publisher = Publisher(client, store)
            current = store.snapshot().node.value
            assert current is not None
            wanted = topology_object(current, HARDWARE, [], KubeletView())
            assert await publisher.publish(wanted, None, topology_changes)
            there = await client.get(NodeResourceTopology, "n1")
            assert not await publisher.publish(wanted, there, topology_changes)
            (owner,) = there.metadata.owner_references
            assert (owner.kind, owner.name, owner.controller) == ("Node", "n1", True)
            changed = topology_object(
                current, HARDWARE, [bound("lse", "LSE", "0,6")], KubeletView()
            )
            assert await publisher.publish(changed, there, topology_changes)
            there = await client.get(NodeResourceTopology, "n1")
            assert pools(there, keys.BE_CPU_SHARED_POOLS)[0] == (0, 0, "1-2,7-8")
            there.metadata.annotations[keys.MANAGED] = "false"
            assert not await publisher.publish(wanted, there, topology_changes)
            await asyncio.sleep(0)

    run_virtual(story(), clock)


def test_a_refusal_of_the_server_is_no_fault_of_the_topology() -> None:
    """Both of the client's errors are kinds of what a computation raises, too."""

    class Refused(TopologyReporter):
        def __init__(self, *errors: Exception) -> None:
            self._supervisor, self._interval_seconds = Supervisor("report"), 0.0
            self._errors = list(errors)

        async def report(self) -> None:
            if not self._errors:
                raise asyncio.CancelledError
            raise self._errors.pop(0)

    errors = ApiError(Status(code=409, message="conflict")), TransportError("down")
    reporter = Refused(*errors, ApiError(Status(code=500, message="ill")))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(reporter.run())
    assert reporter._supervisor.part("topology").failures == 0
    assert reporter._supervisor.part("report of NodeResourceTopology").failures == 2


def test_what_fails_every_three_seconds_is_told_once_and_counted() -> None:
    """A kubelet that does not answer for a minute, and a server that refuses: a line each."""

    class Silent:
        async def configuration(self) -> None:
            raise TransportError("https://10.0.0.1:10250: GET /configz: refused")

    class Held:
        has_synced = served = True

        def get(self, name: str) -> None:
            return None

    class Refusing(Publisher):
        async def publish(self, *arguments: Any) -> bool:
            raise ApiError(Status(code=403, message="noderesourcetopologies is forbidden"))

    clock = VirtualClock(0.0)
    store = StateStore(clock)
    client: Any = None
    supervisor, refusing = Supervisor("report", clock=clock), Refusing(client, store)
    kubelet: Any = Silent()
    existing: Any = Held()
    reporter = TopologyReporter(
        store, HARDWARE, kubelet, "/none", existing, refusing, 3.0, supervisor
    )

    async def minute() -> None:
        store.put(SnapshotPart.NODE, node())
        with suppress(TimeoutError):
            async with asyncio.timeout(59.0):
                await reporter.run()

    with logged("koord", logging.INFO) as records:
        run_virtual(minute(), clock)
    told = [vars(record)["koord_fields"] for record in records]
    assert told == [
        {"part": "kubelet's configuration",
         "error": "https://10.0.0.1:10250: GET /configz: refused"},
        {"part": "report of NodeResourceTopology",
         "error": "the API server refused: noderesourcetopologies is forbidden"},
    ]  # fmt: skip
    failures = {name: part.failures for name, part in supervisor.parts.items()}
    assert failures == {
        "topology": 0, "kubelet's configuration": 20, "report of NodeResourceTopology": 20,
    }  # fmt: skip


def test_a_malformed_annotation_is_told_of_once_a_value(tmp_path: Path) -> None:
    store = StateStore(VirtualClock(0.0))
    publisher: Any = None  # nothing is written without an informer
    reporter = TopologyReporter(store, HARDWARE, None, str(tmp_path), None, publisher)
    values = ["{", "{", "[]", "[]", "{", None, None, "{", "{"]

    async def look() -> None:
        for value in values:
            annotations = {} if value is None else {keys.NODE_RESERVATION: value}
            store.put(SnapshotPart.NODE, node(annotations))
            await reporter.report()

    with logged("koord.agent", logging.WARNING) as records:
        run_virtual(look())
    assert len(records) == 4
    assert all("annotation ignored" in record.getMessage() for record in records)


def test_the_kubelet_is_asked_every_ten_seconds_and_at_each_look_while_it_does_not_answer() -> None:
    asked: list[float] = []

    class Answering:
        refuses = False

        async def configuration(self) -> KubeletConfiguration:
            asked.append(clock.monotonic_seconds() - began)
            if self.refuses:
                raise TransportError("https://10.0.0.1:10250: GET /configz: refused")
            return KubeletConfiguration()

    clock = VirtualClock(0.0)
    began = clock.monotonic_seconds()
    store, publisher, kubelet = StateStore(clock), cast("Any", None), cast("Any", Answering())
    reporter = TopologyReporter(store, HARDWARE, kubelet, "/none", None, publisher, 3.0)

    async def minute() -> None:
        store.put(SnapshotPart.NODE, node())
        running = asyncio.create_task(reporter.run())
        await asyncio.sleep(26.0)
        kubelet.refuses = True
        await asyncio.sleep(20.0)
        running.cancel()

    run_virtual(minute(), clock)
    assert asked == [0.0, 12.0, 24.0, 36.0, 39.0, 42.0, 45.0]
