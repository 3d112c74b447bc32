# SPDX-License-Identifier: Apache-2.0
"""The Device object: GPUs, other accelerators and RDMA cards as documents."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from koord.agent.host.devices.gpus import GPU
from koord.agent.host.devices.rdma import RDMADevice
from koord.agent.host.devices.xpu import parse_xpus, read_xpus
from koord.agent.metrics.collector import MachineInventory
from koord.agent.report.device_object import device_changes, device_object
from koord.agent.states.snapshot import Timestamped
from koord.api.codec import to_document
from koord.api.kinds.device import Device
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node
from koord.base.errors import KoordError

NOW = datetime(2030, 3, 17, 17, 46, 40, tzinfo=UTC)
NODE = Node(metadata=ObjectMeta(name="n1", uid="u1"))
TOTAL = {"koordinator.sh/gpu-memory-ratio": "100"}


def gpu(minor: int, **rest: Any) -> GPU:
    bus = f"0000:{minor + 1:02x}:00.0"
    return GPU(minor, f"GPU-{minor}", minor, "NVIDIA A100 80GB", 80 << 30, bus, "pci0000:00", 1,
               **rest)  # fmt: skip


def xpu(minor: int, *peers: str, **rest: Any) -> dict[str, Any]:
    links = [{"peerMinor": peer, "type": "HCCS"} for peer in peers]
    return {
        "vendor": "acme", "model": "x1", "uuid": f"x-{minor}", "minor": str(minor),
        "resources": {"gpu-core": 100, "gpu-memory": "16Gi", "acme.com/ports": 2},
        "topology": {**({"p2pLinks": links} if links else {}),
                     "socketID": "0", "nodeID": "1", "pcieID": "p0", "busID": f"b{minor}"},
        "status": {"healthy": True}, **rest,
    }  # fmt: skip


def facts(**rest: Any) -> MachineInventory:
    parts = {"gpus": (), "xpus": (), "rdma": (), **rest}
    found = MachineInventory(
        **{name: Timestamped(tuple(parts[name]), 0.0) for name in ("gpus", "xpus", "rdma")}
    )
    found.gpu_driver = rest.get("driver", "")
    return found


def xpus(*rows: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(parse_xpus(json.dumps(rows).encode(), "cards"))


def made(found: MachineInventory, now: datetime = NOW) -> Device:
    return device_object(NODE, found, now, lambda line: pytest.fail(line))


def condition(status: str, reason: str, message: str) -> dict[str, str]:
    time = "2030-03-17T17:46:40Z"
    return {"type": "Healthy", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": time}  # fmt: skip


HEALTHY = condition("True", "DeviceHealthy", "device is healthy")


def read(*rows: dict[str, Any]) -> tuple[Device, list[str]]:
    """The Device of device-infos files, and what was told of them."""
    told: list[str] = []
    device = device_object(NODE, facts(xpus=xpus(*rows)), NOW, told.append)
    return device, told


def partitions(device: Device) -> Any:
    return json.loads(device.metadata.annotations["scheduling.koordinator.sh/gpu-partitions"])


def test_a_node_without_devices() -> None:
    device = made(facts())
    assert to_document(device.spec) == {}
    assert device.metadata.labels == {"app.kubernetes.io/managed-by": "Koordinator"}


def test_gpus() -> None:
    device = made(facts(gpus=[gpu(1, unhealthy="Xid79"), gpu(0)], driver="550.1"))
    assert device.metadata.labels == {
        "app.kubernetes.io/managed-by": "Koordinator",
        "node.koordinator.sh/gpu-vendor": "nvidia",
        "node.koordinator.sh/gpu-model": "A100-80GB",
        "node.koordinator.sh/gpu-driver-version": "550.1",
    }
    amounts = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "80Gi", **TOTAL}
    rows = to_document(device.spec)["devices"]
    assert rows[0] == {
        "type": "gpu", "id": "GPU-0", "minor": 0, "health": True, "resources": amounts,
        "topology": {"socketID": -1, "nodeID": 1, "pcieID": "pci0000:00", "busID": "0000:01:00.0"},
    }  # fmt: skip
    assert rows[1]["minor"] == 1
    assert not rows[1].get("health")
    message = "Xid error detected on device, error code: 79"
    assert rows[1]["conditions"] == [condition("False", "Xid79", message)]


def test_a_gpu_that_cannot_be_watched_can_be_used() -> None:
    reason = "DeviceHealthCheckNotSupported"
    (row,) = to_document(made(facts(gpus=[gpu(0, unhealthy=reason)])).spec)["devices"]
    assert row["health"] is True
    message = "device does not support health checking"
    assert row["conditions"] == [condition("True", reason, message)]


def test_accelerators_with_links_and_partitions() -> None:
    rows = xpus(xpu(1, "0"), xpu(0, "1"), xpu(2, "1,0"), xpu(3, status={
        "healthy": False, "errCode": "E7", "errMessage": "hot"}))  # fmt: skip
    device = made(facts(xpus=rows, gpus=[gpu(0)]))
    found = to_document(device.spec)["devices"]
    assert [row["id"] for row in found] == ["x-0", "x-1", "x-2", "x-3"], "they win over GPUs"
    assert found[0] == {
        "type": "gpu", "id": "x-0", "minor": 0, "health": True,
        "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi",
                      "acme.com/ports": "2", **TOTAL},
        "topology": {"socketID": -1, "nodeID": 1, "pcieID": "p0", "busID": "b0"},
        "conditions": [HEALTHY],
    }  # fmt: skip
    assert found[3]["conditions"] == [condition("False", "E7", "hot")]
    assert device.metadata.labels["node.koordinator.sh/gpu-model"] == "x1"
    assert device.metadata.labels["node.koordinator.sh/gpu-partition-policy"] == "Prefer"
    assert partitions(device) == {
        "2": [{"minors": [0, 1], "gpuLinkType": "HCCS", "allocationScore": 1}],
        "3": [{"minors": [0, 1, 2], "gpuLinkType": "HCCS", "allocationScore": 1}],
    }


def test_links_that_say_too_little() -> None:
    first, second = xpu(0), xpu(1)
    first["topology"]["p2pLinks"] = []  # a list, if an empty one: there is a policy
    second["topology"]["p2pLinks"] = [
        {"peerMinor": "", "type": "HCCS"},
        {"peerMinor": "0"},
        {"peerMinor": "0,x", "type": "HCCS"},
    ]
    device, told = read(first, second)
    assert partitions(device) == {
        "2": [{"minors": [0, 1], "gpuLinkType": "HCCS", "allocationScore": 1}]
    }
    assert device.metadata.labels["node.koordinator.sh/gpu-partition-policy"] == "Prefer"
    left_out = "expected peerMinor and type; the link is left out"
    assert told == [
        f"device x-1: topology.p2pLinks: got '', {left_out}",
        f"device x-1: topology.p2pLinks: got '0', {left_out}",
        "device x-1: topology.p2pLinks.peerMinor: got '0,x', expected minors with commas between",
    ]


def test_labels_are_those_of_the_card_that_is_listed_first() -> None:
    device, _ = read(xpu(1, model="x2"), xpu(0, "1"))
    assert device.metadata.labels["node.koordinator.sh/gpu-model"] == "x2"
    assert "node.koordinator.sh/gpu-partition-policy" not in device.metadata.labels
    assert partitions(device)["2"][0]["minors"] == [0, 1]


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ({"socketID": "1", "pcieID": "p0", "busID": "b0"},
         {"socketID": -1, "nodeID": -1, "pcieID": "p0", "busID": "b0"}),
        ({"nodeID": "0"}, {"socketID": -1, "nodeID": 0, "pcieID": ""}),
        (None, None),
    ],
)  # fmt: skip
def test_where_an_accelerator_sits(place: dict[str, str] | None, expected: Any) -> None:
    device, told = read(xpu(0, topology=place))
    assert to_document(device.spec)["devices"][0].get("topology") == expected
    assert told == []


@pytest.mark.parametrize(
    ("status", "health", "conditions"),
    [
        (None, True, None),
        ({"healthy": True, "errCode": "E7"}, True, [HEALTHY]),
        ({"healthy": False}, False, [condition("False", "Unknown", "device is unhealthy")]),
        ({"healthy": False, "errCode": "79", "errMessage": "lost"}, False,
         [condition("False", "Unknown", "79: lost")]),
        ({"healthy": False, "errCode": "E 7"}, False,
         [condition("False", "Unknown", "E 7: device is unhealthy")]),
    ],
)  # fmt: skip
def test_what_a_tool_says_of_health(status: Any, health: bool, conditions: Any) -> None:
    device, _ = read(xpu(0, status=status))
    (row,) = to_document(device.spec)["devices"]
    assert (row["health"], row.get("conditions")) == (health, conditions)


def test_rdma_cards_and_their_functions() -> None:
    card = RDMADevice(0, "mlx5_0", "0000:3b:00.0", "pci0000:3a", 1,
                      ("0000:3b:00.3", "0000:3b:00.2"), healthy=False)  # fmt: skip
    assert to_document(made(facts(rdma=[card])).spec)["devices"] == [
        {
            "type": "rdma", "id": "0000:3b:00.0", "minor": 0, "health": False,
            "resources": {"koordinator.sh/rdma": "100"},
            "topology": {"socketID": -1, "nodeID": 1, "pcieID": "pci0000:3a",
                         "busID": "0000:3b:00.0"},
            "vfGroups": [{"vfs": [{"minor": -1, "busID": "0000:3b:00.2"},
                                  {"minor": -1, "busID": "0000:3b:00.3"}]}],
        }
    ]  # fmt: skip


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    hot, cold = {"healthy": False, "errCode": "E7"}, {"healthy": True}
    later = NOW + timedelta(minutes=5)
    before = made(facts(xpus=xpus(xpu(0), xpu(1, status=hot))))
    same = made(facts(xpus=xpus(xpu(0), xpu(1, status=hot))), later)
    assert device_changes(before, same) is None
    after = made(facts(xpus=xpus(xpu(0), xpu(1, status=cold))), later)
    change = device_changes(before, after)
    assert change is not None
    times = [row["conditions"][0]["lastTransitionTime"] for row in change["spec"]["devices"]]
    assert times == ["2030-03-17T17:46:40Z", "2030-03-17T17:51:40Z"]


def test_what_goes_with_the_last_device() -> None:
    before = made(facts(xpus=xpus(xpu(0, "1"), xpu(1))))
    before.metadata.labels["team"] = "vision"
    assert device_changes(before, made(facts())) == {
        "metadata": {
            "labels": {
                "node.koordinator.sh/gpu-vendor": None,
                "node.koordinator.sh/gpu-model": None,
                "node.koordinator.sh/gpu-partition-policy": None,
            },
            "annotations": {"scheduling.koordinator.sh/gpu-partitions": None},
        },
        "spec": {"devices": []},
    }


def test_links_that_went_take_their_partitions_along() -> None:
    before = made(facts(xpus=xpus(xpu(0, "1"), xpu(1))))
    assert device_changes(before, made(facts(xpus=xpus(xpu(0), xpu(1))))) == {
        "metadata": {
            "labels": {"node.koordinator.sh/gpu-partition-policy": None},
            "annotations": {"scheduling.koordinator.sh/gpu-partitions": None},
        }
    }


def test_models_that_differ_have_no_label() -> None:
    before = made(facts(gpus=[gpu(0)], driver="550.1"))
    before.metadata.annotations["scheduling.koordinator.sh/gpu-partitions"] = "{}"  # an operator's
    other = replace(gpu(0), model="NVIDIA H20")
    change = device_changes(before, made(facts(gpus=[gpu(0), other], driver="550.1")))
    assert change is not None
    assert change["metadata"] == {"labels": {"node.koordinator.sh/gpu-model": None}}


def test_what_makes_no_sense_is_left_out_and_told() -> None:
    device, told = read(
        {**xpu(0), "minor": "one"},
        xpu(1, resources={"gpu-memory": "lots", "gpu-core": "100"}),
        xpu(2, topology={"nodeID": "left"}),
    )
    rows = to_document(device.spec)["devices"]
    assert [row["id"] for row in rows] == ["x-1", "x-2"]
    assert rows[0]["resources"] == {"koordinator.sh/gpu-core": "100", **TOTAL}
    assert rows[1]["topology"] == {"socketID": -1, "nodeID": -1, "pcieID": ""}
    assert told == [
        "device x-0: minor: got 'one', expected a number; the card is not reported",
        "device x-1: resources[gpu-memory]: got 'lots', expected a quantity; it is left out",
        "device x-2: topology.nodeID: got 'left', expected a number; the NUMA node is unknown",
    ]


def test_a_malformed_file_is_one_line_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "cards").write_text('[{"minor": {}}]')
    with pytest.raises(KoordError, match="expected an array of devices") as error:
        read_xpus(str(tmp_path))
    assert str(error.value).startswith(f"{tmp_path}/cards")
    assert "\n" not in str(error.value)
