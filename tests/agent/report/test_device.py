# SPDX-License-Identifier: Apache-2.0
"""The Device object: GPUs, other accelerators and RDMA cards as documents."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from koord.agent.host.gpus import GPU
from koord.agent.host.rdma import RDMADevice
from koord.agent.host.xpu import parse_xpus, read_xpus
from koord.agent.metrics.collector import Facts
from koord.agent.report.device import device_changes, device_object
from koord.agent.states.snapshot import Aged
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


def xpu(minor: int, *peers: int, **rest: Any) -> dict[str, Any]:
    return {
        "vendor": "acme", "model": "x1", "uuid": f"x-{minor}", "minor": str(minor),
        "resources": {"gpu-core": 100, "gpu-memory": "16Gi", "acme.com/ports": 2},
        "topology": {"p2pLinks": [{"peerMinors": [str(p) for p in peers]}] if peers else [],
                     "socketID": "0", "nodeID": "1", "pcieID": "p0", "busID": f"b{minor}"},
        "status": {"healthy": True}, **rest,
    }  # fmt: skip


def facts(**rest: Any) -> Facts:
    parts = {"gpus": (), "xpus": (), "rdma": (), **rest}
    found = Facts(**{name: Aged(tuple(parts[name]), 0.0) for name in ("gpus", "xpus", "rdma")})
    found.gpu_driver = rest.get("driver", "")
    return found


def xpus(*rows: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(parse_xpus(json.dumps(rows).encode(), "cards"))


def made(found: Facts, now: datetime = NOW) -> Device:
    device = device_object(NODE, found, now)
    assert device is not None
    return device


def condition(status: str = "True", reason: str = "DeviceHealthy", **rest: str) -> dict[str, str]:
    time = "2030-03-17T17:46:40Z"
    return {"type": "Health", "status": status, "reason": reason, "message": "",
            "lastTransitionTime": time, **rest}  # fmt: skip


def test_no_device_is_no_object() -> None:
    assert device_object(NODE, facts(), NOW) is None


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
        "conditions": [condition()],
    }  # fmt: skip
    assert rows[1]["minor"] == 1
    assert not rows[1].get("health")
    assert rows[1]["conditions"] == [condition("False", "Xid79")]


def test_accelerators_with_links_and_partitions() -> None:
    rows = xpus(xpu(1, 0), xpu(0, 1), xpu(2, 0, 1), xpu(3, status={
        "healthy": False, "errCode": "E7", "errMessage": "hot"}))  # fmt: skip
    device = made(facts(xpus=rows, gpus=[gpu(0)]))
    found = to_document(device.spec)["devices"]
    assert [row["id"] for row in found] == ["x-0", "x-1", "x-2", "x-3"], "they win over GPUs"
    assert found[0] == {
        "type": "gpu", "id": "x-0", "minor": 0, "health": True,
        "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "16Gi",
                      "acme.com/ports": "2", **TOTAL},
        "topology": {"socketID": 0, "nodeID": 1, "pcieID": "p0", "busID": "b0"},
        "conditions": [condition()],
    }  # fmt: skip
    assert found[3]["conditions"] == [condition("False", "E7", message="hot")]
    assert device.metadata.labels["node.koordinator.sh/gpu-model"] == "x1"
    assert device.metadata.labels["node.koordinator.sh/gpu-partition-policy"] == "Prefer"
    table = json.loads(device.metadata.annotations["scheduling.koordinator.sh/gpu-partitions"])
    assert {size: [each["minors"] for each in rows] for size, rows in table.items()} == {
        "2": [[0, 1]], "3": [[0, 1, 2]],
    }  # fmt: skip


def test_rdma_cards_and_their_functions() -> None:
    card = RDMADevice(0, "mlx5_0", "0000:3b:00.0", "pci0000:3a", 1,
                      ("0000:3b:00.3", "0000:3b:00.2"))  # fmt: skip
    assert to_document(made(facts(rdma=[card])).spec)["devices"] == [
        {
            "type": "rdma", "id": "0000:3b:00.0", "minor": 0, "health": True,
            "resources": {"koordinator.sh/rdma": "100"},
            "topology": {"socketID": -1, "nodeID": 1, "pcieID": "pci0000:3a",
                         "busID": "0000:3b:00.0"},
            "vfGroups": [{"vfs": [{"minor": -1, "busID": "0000:3b:00.2"},
                                  {"minor": -1, "busID": "0000:3b:00.3"}]}],
            "conditions": [condition()],
        }
    ]  # fmt: skip


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    before = made(facts(gpus=[gpu(0), gpu(1)]))
    later = NOW + timedelta(minutes=5)
    assert device_changes(before, made(facts(gpus=[gpu(0), gpu(1)]), later)) is None
    ill = made(facts(gpus=[gpu(0), gpu(1, unhealthy="Xid79")]), later)
    change = device_changes(before, ill)
    assert change is not None
    times = [row["conditions"][0]["lastTransitionTime"] for row in change["spec"]["devices"]]
    assert times == ["2030-03-17T17:46:40Z", "2030-03-17T17:51:40Z"]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"minor": "one"}, "device x-0: minor: got 'one', expected a number"),
     ({"resources": {"gpu-memory": "lots"}}, r"device x-0: resources\[gpu-memory\]")],
)  # fmt: skip
def test_an_accelerator_that_makes_no_sense_is_one_line(
    change: dict[str, Any], message: str
) -> None:
    with pytest.raises(KoordError, match=message) as error:
        device_object(NODE, facts(xpus=xpus({**xpu(0), **change})), NOW)
    assert "\n" not in str(error.value)


def test_a_malformed_file_is_one_line_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "cards").write_text('[{"minor": {}}]')
    with pytest.raises(KoordError, match="expected an array of devices") as error:
        read_xpus(str(tmp_path))
    assert str(error.value).startswith(f"{tmp_path}/cards")
    assert "\n" not in str(error.value)
