# SPDX-License-Identifier: Apache-2.0
"""DeviceShare through the decider: what pods get, what they are told, what is written."""

from __future__ import annotations

import json

import numpy as np
import pytest

from koord.api.kinds.cluster import ConfigMap
from koord.api.kinds.device import Device
from koord.api.kinds.meta import ObjectMeta
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.deviceshare.args import DeviceShareOptions, ScoringType
from tests.controllers.scheduler.plugins.deviceshare.clusters import (
    Cluster,
    device,
    gpu,
    gpus,
    nic,
)

HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
SPEC = "scheduling.koordinator.sh/gpu-partition-spec"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"
SAME_PCIE = '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'
NONE = "0/1 nodes are available: 1 "


def scoped(scope: str) -> str:
    return json.dumps({"gpu": {"requiredTopologyScope": scope}})


def whole(count: int) -> dict[str, dict[str, str]]:
    return {"requests": {"nvidia.com/gpu": str(count)}}


# docs/reference/devices.md#default-order-of-cards: 8 idle GPUs; cards without a place in the
# machine.
def test_the_default_order_spreads_or_packs() -> None:
    plain = [{**gpu(minor), "topology": None} for minor in range(8)]
    cluster = Cluster()
    cluster.add("n", *plain)
    assert [cluster.place(cluster.pod(gpu=50)) for _ in range(3)] == ["gpu:0", "gpu:1", "gpu:2"]
    cluster = Cluster(DeviceShareOptions(scoring=ScoringType.MOST_ALLOCATED))
    cluster.add("n", *plain)
    assert [cluster.place(cluster.pod(gpu=50)) for _ in range(3)] == ["gpu:0", "gpu:0", "gpu:1"]


# docs/reference/devices.md#gpu-topology: 2 NUMA nodes of 2 PCIe roots of 2 GPUs, minor 5 in use.
def test_the_topology_example() -> None:
    cluster = Cluster()
    row = cluster.add("n", *gpus(8))
    used = {ALLOCATED: '{"gpu":[{"minor":5,"resources":{"koordinator.sh/gpu-core":"100"}}]}'}
    cluster.hold("holder", row, cluster.pod("holder", annotations=used, **whole(1)))
    assert cluster.place(cluster.pod(**whole(1))) == "gpu:4"
    assert cluster.place(cluster.pod(**whole(2))) == "gpu:6,7"


# docs/reference/devices.md#joint-allocation.
def test_the_joint_example() -> None:
    cluster = Cluster()
    cards = [gpu(minor, 0, str(minor // 2)) for minor in range(4)]
    cluster.add("n", *cards, nic(1, 0, "0", vfs=2), nic(2, 0, "1", vfs=2), nic(3, 1, "2", vfs=2))
    annotations = {
        JOINT: SAME_PCIE,
        HINT: '{"rdma":{"vfSelector":{}}}',
    }
    info = cluster.pod(rdma=1, annotations=annotations, **whole(3))
    assert cluster.place(info) == "gpu:0,1,2 rdma:1/0000:01:00.0,2/0000:02:00.0"
    # A second one: only GPU 3 is left, and its root's card has one function more.
    info = cluster.pod(rdma=1, annotations=annotations, **whole(1))
    assert cluster.place(info) == "gpu:3 rdma:2/0000:02:00.1"


def test_what_is_written_names_cards_and_completes_memory() -> None:
    cluster = Cluster()
    cluster.add("n", *gpus(2), nic(1, vfs=1))
    info = cluster.pod(gpu_core=50, gpu_memory="4Gi", rdma=1)
    assert cluster.place(info) == "gpu:0 rdma:1"
    assert json.loads(cluster.written(info).annotations[ALLOCATED] or "") == {
        "gpu": [{
            "minor": 0,
            "resources": {
                "koordinator.sh/gpu-core": "50",
                "koordinator.sh/gpu-memory-ratio": "25",
                "koordinator.sh/gpu-memory": "4Gi",
            },
            "id": "GPU-0",
        }],
        "rdma": [{"minor": 1, "resources": {"koordinator.sh/rdma": "1"}, "id": "NIC-1"}],
    }  # fmt: skip


def test_virtual_functions_are_written_and_never_given_twice() -> None:
    cluster = Cluster()
    cluster.add("n", nic(0, vfs=2))
    wants = {HINT: '{"rdma":{"vfSelector":{"matchLabels":{"type":"general"}}}}'}
    first, second = cluster.pod(rdma=1, annotations=wants), cluster.pod(rdma=1, annotations=wants)
    assert cluster.place(first) == "rdma:0/0000:00:00.0"
    assert cluster.place(second) == "rdma:0/0000:00:00.1"
    allocated = json.loads(cluster.written(first).annotations[ALLOCATED] or "")
    assert allocated["rdma"][0]["extension"] == {"vfs": [{"minor": 0, "busID": "0000:00:00.0"}]}
    refused = cluster.place(cluster.pod(rdma=1, annotations=wants))
    assert refused == NONE + "Insufficient rdma devices."
    cluster.accounts.drop(first)
    assert cluster.place(cluster.pod(rdma=1, annotations=wants)) == "rdma:0/0000:00:00.0"


def test_a_node_without_a_device_object_is_the_kubelet_s() -> None:
    cluster = Cluster()
    cluster.add("n")
    info = cluster.pod(**whole(1))
    assert cluster.place(info) == ""
    assert not cluster.written(info)


def test_pods_without_devices_are_never_asked_about() -> None:
    cluster = Cluster()
    cluster.add("n", *gpus(1))
    info = cluster.pod(cpu="1")
    assert cluster.place(info) == ""
    assert "DeviceShare" not in info.allocations


@pytest.mark.parametrize(
    ("cards", "requested", "why"),
    [
        (gpus(2), whole(3), "Insufficient GPU Devices"),
        ([{**gpu(0), "topology": None}], whole(2), "Insufficient gpu devices"),
        (gpus(2), {"rdma": 1}, "Insufficient rdma devices"),
        ([nic(0)], whole(1), "Insufficient gpu devices"),
        ([gpu(0, health=False)], whole(1), "Insufficient GPU Devices"),
        ([nic(0)], {"rdma": 1, "annotations": {HINT: '{"rdma":{"vfSelector":{}}}'}},
         "Insufficient rdma VirtualFunctions"),
        (gpus(4), {**whole(2), "annotations": {SPEC: "{}"}},
         "node(s) missing GPU Partition Table"),
        (gpus(8), {**whole(5), "annotations": {HINT: scoped("NUMANode")}},
         "Insufficient Topology Scoped GPU Devices"),
        ([{**gpu(0), "topology": None}],
         {**whole(1), "annotations": {HINT: scoped("NUMANode")}},
         "node(s) missing GPU Device Topology Tree"),
        (gpus(2), {"gpu.shared": 2, "gpu_memory_ratio": 100,
                   "annotations": {HINT: scoped("Node")}},
         "node(s) Unsupported Multi-Shared GPU"),
        ([gpu(0, pcie="0"), nic(0, pcie="1")],
         {"rdma": 1, "annotations": {JOINT: SAME_PCIE}, **whole(1)},
         "node(s) Device Joint-Allocate rules violation"),
        ([nic(0, labels={"a": "b"})],
         {"rdma": 1, "annotations": {HINT: '{"rdma":{"allocateStrategy":"ApplyForAll","selector":'
                                           '{"matchLabels":{"a":"c"}}}}'}},
         "Insufficient rdma devices"),
    ],
)  # fmt: skip
def test_why_not(cards, requested, why: str) -> None:
    cluster = Cluster()
    cluster.add("n", *cards)
    assert cluster.place(cluster.pod(**requested)) == f"{NONE}{why}."


def test_illegal_requests_are_refused_before_any_node() -> None:
    cluster = Cluster()
    cluster.add("n", *gpus(1))
    decision = cluster.decide(cluster.pod(gpu=150))
    assert decision.diagnosis is not None
    early = decision.diagnosis.early
    assert early == ("DeviceShare", ("invalid resource unit koordinator.sh/gpu: 150",), True, False)


@pytest.mark.parametrize(
    ("hint", "amount", "want"),
    [
        ('{"rdma":{}}', 1, "rdma:0"),
        ('{"rdma":{"allocateStrategy":"ApplyForAll"}}', 1, "rdma:0,1,2,3"),
        (
            '{"rdma":{"allocateStrategy":"ApplyForAll","selector":{"matchLabels":{"net":"b"}}}}',
            1,
            "rdma:1,3",
        ),
        ('{"rdma":{"allocateStrategy":"RequestsAsCount"}}', 3, "rdma:0,1,2"),
        ('{"rdma":{"allocateStrategy":"ApplyForAll"}}', 200, "rdma:0,1"),
        ('{"rdma":{"selector":{"matchLabels":{"net":"b"}}}}', 1, "rdma:1"),
    ],
)
def test_strategies_of_other_cards(hint: str, amount: int, want: str) -> None:
    cluster = Cluster()
    cards = [nic(minor, labels={"net": "ab"[minor % 2]}) for minor in range(4)]
    cluster.add("n", *cards)
    assert cluster.place(cluster.pod(rdma=amount, annotations={HINT: hint})) == want


def test_requests_as_count_with_device_level_exclusion() -> None:
    cluster = Cluster()
    cluster.add("n", nic(0), nic(1))
    counted = {"allocateStrategy": "RequestsAsCount", "exclusivePolicy": "DeviceLevel"}
    info = cluster.pod(rdma=2, annotations={HINT: json.dumps({"rdma": counted})})
    assert cluster.place(info) == "rdma:0,1"
    assert cluster.place(cluster.pod(rdma=1)) == NONE + "Insufficient rdma devices."


# docs/reference/devices.md#allocation-hints.
def test_pcie_level_exclusion_takes_untouched_roots_only() -> None:
    cluster = Cluster()
    cluster.add("n", *gpus(4))
    cluster.place(cluster.pod(gpu=50))
    alone = {HINT: '{"gpu":{"exclusivePolicy":"PCIeLevel"}}'}
    assert cluster.place(cluster.pod(gpu=50, annotations=alone)) == "gpu:2"
    refused = cluster.place(cluster.pod(gpu=50, annotations=alone))
    assert refused == NONE + "Insufficient GPU Devices."


def test_partitions_of_known_models_and_of_the_device() -> None:
    cluster = Cluster()
    cluster.add("n", *gpus(8), labels={
        "node.koordinator.sh/gpu-model": "H100", "node.koordinator.sh/gpu-partition-policy": "Honor"
    })  # fmt: skip
    assert cluster.place(cluster.pod(**whole(3))) == (
        NONE + "node(s) Unsupported number of GPU requests."
    )
    assert cluster.place(cluster.pod(**whole(1))) == "gpu:0"
    assert cluster.place(cluster.pod(**whole(2))) == "gpu:2,3"
    assert cluster.place(cluster.pod(**whole(4))) == "gpu:4,5,6,7"
    assert cluster.place(cluster.pod(**whole(2))) == NONE + "Insufficient Partitioned GPU Devices."


# docs/reference/devices.md#gpu-partitions: the higher score first, and Restricted looks at no
# other.
def test_the_best_linked_partition_first() -> None:
    table = {
        "2": [
            {"minors": [0, 1], "allocationScore": 1},
            {"minors": [2, 3], "allocationScore": 5, "ringBusBandwidth": "200Gi"},
        ]
    }
    partitions = {"scheduling.koordinator.sh/gpu-partitions": json.dumps(table)}
    cluster = Cluster()
    cluster.add("n", *gpus(4), device_annotations=partitions)
    fast = {SPEC: '{"ringBusBandwidth":"100Gi"}'}
    assert cluster.place(cluster.pod(annotations=fast, **whole(2))) == "gpu:2,3"
    only = {SPEC: '{"allocatePolicy":"Restricted"}'}
    refused = cluster.place(cluster.pod(annotations=only, **whole(2)))
    assert refused == NONE + "Insufficient Partitioned GPU Devices."
    assert cluster.place(cluster.pod(annotations={SPEC: "{}"}, **whole(2))) == "gpu:0,1"


def test_sharing_by_provider_and_model() -> None:
    cluster = Cluster(DeviceShareOptions(unsupported_models=frozenset({("huawei", "310P")})))
    cluster.add("a", *gpus(1), labels={"koordinator.sh/gpu-isolation-provider": "HAMi-core"})
    cluster.add("b", *gpus(1), labels={
        "node.koordinator.sh/gpu-vendor": "huawei", "node.koordinator.sh/gpu-model": "310P"
    })  # fmt: skip
    hami = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
    assert cluster.decide(cluster.pod(gpu=50, labels=hami)).row == 0
    assert cluster.decide(cluster.pod(gpu=50)).row == 0
    assert cluster.decide(cluster.pod(labels=hami, **whole(1))).row == 0
    other = {"koordinator.sh/gpu-isolation-provider": "other"}
    message = cluster.place(cluster.pod(gpu=50, labels=other))
    assert message == (
        "0/2 nodes are available: 2 GPUIsolationProviderHAMICore not found on the node."
    )
    cluster.place(cluster.pod(gpu=100, labels=hami))
    message = cluster.place(cluster.pod(gpu=50))
    assert '1 model "310P" of vendor "huawei" does not support GPU Share' in message


def test_templates_of_shared_resources() -> None:
    cluster = Cluster()
    npu = gpu(0)
    npu["resources"] |= {"huawei.com/npu-core": "20", "huawei.com/npu-cpu": "7"}
    labels = {"node.koordinator.sh/gpu-vendor": "huawei", "node.koordinator.sh/gpu-model": "910B"}
    cluster.add("n", npu, labels=labels)
    cluster.add("other", *gpus(1))
    requested = {"gpu.shared": 1, "gpu_memory": "8Gi"}
    part = {"huawei.com/npu-core": "10", "huawei.com/npu-cpu": "3"}
    message = cluster.place(cluster.pod(requests=part, **requested))
    assert "no matched GPU shared resource template" in message
    data = "huawei-910B:\n  vir10:\n    huawei.com/npu-core: 10\n    huawei.com/npu-cpu: 3\n"
    meta = ObjectMeta(name="gpu-shared-resource-templates", namespace="koordinator-system")
    templates = ConfigMap(
        metadata=meta, data={"data.yaml": data + "    koordinator.sh/gpu-memory: 8Gi\n"}
    )
    cluster.views.view(ConfigMap).put(templates)
    info = cluster.pod("again", requests=part, **requested)
    assert cluster.place(info) == "gpu:0"
    assert cluster.table.name(info.row) == "n"
    written = json.loads(cluster.written(info).annotations[ALLOCATED] or "")
    assert written["gpu"][0]["extension"] == {"gpuSharedResourceTemplate": "vir10"}


def test_secondary_devices_that_are_left_for_reserve_do_not_count_in_scores() -> None:
    """One of two GPUs is 50 percent of their memory by ratio, none of it by bytes; no RDMA."""
    planned = {"node.koordinator.sh/secondary-device-well-planned": "true"}
    cluster = Cluster(DeviceShareOptions(scoring=ScoringType.MOST_ALLOCATED))
    cluster.add("planned", *gpus(2), nic(0), device_labels=planned)
    cluster.add("other", *gpus(2), nic(0))
    joint = {JOINT: '{"deviceTypes":["gpu","rdma"]}'}
    cycle = Cycle(cluster.pod(gpu=100, rdma=100, annotations=joint), cluster.table)
    assert cluster.plugin.pre_filter(cycle) is None
    assert cluster.plugin.score(cycle, np.array([0, 1])).tolist() == [25, 125]


POLICY = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
TABLE = {"scheduling.koordinator.sh/gpu-partitions": '{"2":[{"minors":[2,3]}]}'}
NO_TABLE = NONE + "node(s) missing GPU Partition Table."


@pytest.mark.parametrize(
    ("device_says", "node_says", "table", "gets"),
    [
        (POLICY, {}, {}, "gpu:0"),
        ({}, POLICY, {}, NO_TABLE),
        (POLICY, {}, TABLE, NONE + "node(s) Unsupported number of GPU requests."),
        ({}, POLICY, TABLE, "gpu:0"),
    ],
)
def test_the_policy_is_that_of_whoever_tells_the_partitions(
    device_says: dict[str, str], node_says: dict[str, str], table: dict[str, str], gets: str
) -> None:
    cluster = Cluster()
    cluster.add(
        "n", *gpus(4), labels=node_says, device_labels=device_says, device_annotations=table
    )
    assert cluster.place(cluster.pod(**whole(1))) == gets


def test_secondary_devices_are_left_for_reserve_where_they_are_well_planned() -> None:
    planned = {"node.koordinator.sh/secondary-device-well-planned": "true"}
    joint = {JOINT: '{"deviceTypes":["gpu","rdma"]}'}
    for labels, row in ((planned, 0), ({}, -1)):
        cluster = Cluster()
        cluster.add("n", *gpus(1), nic(0, health=False), device_labels=labels)
        decision = cluster.decide(cluster.pod(rdma=1, annotations=joint, **whole(1)))
        assert decision.row == row
        if row == 0:
            refused = cluster.decider.assume(decision)
            assert refused is not None
            assert refused.reasons == ("Insufficient rdma devices",)


def test_devices_come_go_and_change() -> None:
    cluster = Cluster()
    row = cluster.add("n", *gpus(1))
    first = cluster.pod(**whole(1))
    assert cluster.place(first) == "gpu:0"
    cluster.put(device("n", *gpus(2)))
    assert cluster.place(cluster.pod(**whole(1))) == "gpu:1"
    cluster.views.view(Device).remove("n")
    assert cluster.place(cluster.pod(**whole(1))) == NONE + "Insufficient GPU Devices."
    cluster.accounts.drop(first)
    cluster.put(device("n", *gpus(2)))
    assert cluster.place(cluster.pod(**whole(1))) == "gpu:0"
    cluster.put(device("later", *gpus(1)))
    assert cluster.table.put(cluster.table.nodes[row]) == row  # type: ignore[arg-type]
    cluster.add("later")
    info = cluster.pod(**whole(1))
    assert cluster.place(info) == "gpu:0"
    assert cluster.table.name(info.row) == "later"


def test_a_row_that_is_used_again_forgets_its_former_node() -> None:
    cluster = Cluster()
    row = cluster.add("n", *gpus(2))
    held = cluster.pod(**whole(2))
    cluster.place(held)
    cluster.accounts.drop(held)
    cluster.table.remove("n")
    assert cluster.add("m", *gpus(1)) == row
    assert cluster.place(cluster.pod(**whole(2))) == NONE + "Insufficient GPU Devices."
    assert cluster.place(cluster.pod(**whole(1))) == "gpu:0"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"gpu":7}',
        '{"gpu":[{"minor":-1}]}',
        '{"gpu":[{"minor":64}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"-5"}}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"9e30"}}]}',
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"x"}}]}',
    ],
)
def test_broken_allocations_of_bound_pods_do_no_harm(text: str, caplog) -> None:
    cluster = Cluster()
    row = cluster.add("n", *gpus(1))
    holder = cluster.hold("h", row, cluster.pod("h", annotations={ALLOCATED: text}))
    assert cluster.place(cluster.pod(**whole(1))) == "gpu:0"
    cluster.accounts.drop(holder)


def test_an_allocation_beyond_what_is_there_is_counted_all_the_same() -> None:
    cluster = Cluster()
    row = cluster.add("n", *gpus(1))
    text = (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"300"}},'
        '{"minor":9,"resources":{"koordinator.sh/gpu-core":"100"}},'
        '{"minor":0,"resources":{"koordinator.sh/gpu-core":"1"}}]}'
    )
    holder = cluster.hold("h", row, cluster.pod("h", annotations={ALLOCATED: text}, **whole(3)))
    assert cluster.place(cluster.pod(**whole(1))) == NONE + "Insufficient GPU Devices."
    cluster.accounts.drop(holder)
    assert cluster.place(cluster.pod(**whole(1))) == "gpu:0"


@pytest.mark.parametrize(
    ("cards", "problem"),
    [
        ([gpu(0), gpu(0)], "spec.devices[1].minor: got 0, expected each minor once"),
        ([{**gpu(0), "minor": None}], "spec.devices[0].minor: got None, expected 0 to 63"),
        ([gpu(99)], "spec.devices[0].minor: got 99, expected 0 to 63"),
        ([gpu(0, resources={"koordinator.sh/gpu-core": "-1"})], "an amount from 0 to 2^50"),
    ],
)  # fmt: skip
def test_broken_cards_are_left_out_and_named(cards, problem: str) -> None:
    cluster = Cluster()
    cluster.add("n", *cards, gpu(7))
    inventory = cluster.plugin.cache.nodes[0].inventory
    assert inventory is not None
    assert len(inventory.problems) == 1
    assert problem in inventory.problems[0]
    assert inventory.problems[0].startswith("Device n: ")
    assert 7 in inventory.cards["gpu"]


@pytest.mark.parametrize(
    "text",
    ["null", "{", '{"2":[{"minors":[0]}]}', '{"0":[{"minors":[]}]}', '{"1":[{"minors":[70]}]}',
     '{"1":[{"minors":[0],"allocationScore":-1}]}',
     '{"1":[{"minors":[0],"ringBusBandwidth":"-1"}]}'],
)  # fmt: skip
def test_broken_partition_tables_are_named_and_none(text: str) -> None:
    cluster = Cluster()
    partitions = {"scheduling.koordinator.sh/gpu-partitions": text}
    cluster.add("n", *gpus(2), device_annotations=partitions)
    inventory = cluster.plugin.cache.nodes[0].inventory
    assert inventory is not None
    assert inventory.partitions is None
    assert len(inventory.problems) == 1
    assert "gpu-partitions" in inventory.problems[0]
    assert "\n" not in inventory.problems[0]
    assert cluster.place(cluster.pod(**whole(1))) == "gpu:0"


def test_designated_devices_are_kept() -> None:
    cluster = Cluster()
    cluster.add("n", *gpus(4))
    resources = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    recorded = json.dumps({"gpu": [{"minor": 2, "resources": resources}]})
    keep = {
        ALLOCATED: recorded,
        "internal.scheduling.koordinator.sh/scheduling-hint": '{"extensions":{"DeviceShare":{}}}',
    }
    assert cluster.place(cluster.pod(annotations=keep, **whole(1))) == "gpu:2"
    refused = cluster.place(cluster.pod(annotations=keep, **whole(1)))
    assert refused == NONE + "Insufficient GPU Devices."
    assert cluster.place(cluster.pod(annotations={ALLOCATED: recorded}, **whole(1))) == "gpu:3"
