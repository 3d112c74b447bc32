# SPDX-License-Identifier: Apache-2.0
"""What ``nodeDeviceSummaries`` answers, against what Koordinator answers of the same nodes."""

from __future__ import annotations

import json
from typing import Any

from koord.api.codec import to_json
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, gpu, nic

K = "koordinator.sh/"
ALLOCATED = "scheduling.koordinator.sh/device-allocated"


def card(kind: str, minor: int, **resources: str) -> dict[str, Any]:
    """A healthy card with resources by short name."""
    listed = {K + name.replace("_", "-"): amount for name, amount in resources.items()}
    return {"type": kind, "minor": minor, "health": True, "resources": listed}


def share(percent: int) -> dict[str, str]:
    """So much of the compute and memory of a GPU."""
    return {K + "gpu-core": str(percent), K + "gpu-memory-ratio": str(percent)}


def test_a_summary_has_the_fields_of_koordinator() -> None:
    cluster = Cluster()
    whole = {"gpu_core": "100", "gpu_memory_ratio": "100"}
    row = cluster.add(
        "node1", card("gpu", 0, **whole), card("gpu", 1, **whole), card("fpga", 2, fpga="100")
    )
    allocated = {
        "gpu": [{"minor": 0, "resources": share(49)}, {"minor": 1, "resources": share(49)}],
        "fpga": [{"minor": 2, "resources": {K + "fpga": "51"}}],
    }
    notes = {ALLOCATED: json.dumps(allocated)}
    asks = {K + "gpu.shared": "2", **share(98), K + "fpga": "51"}
    pod = cluster.pod("pod1", namespace="ns", annotations=notes, requests=asks)
    cluster.hold("node1", row, pod)
    answer = json.loads(to_json(cluster.plugin.debug(["nodeDeviceSummaries"])))
    assert list(answer) == ["node1"]
    koordinator = {
        "deviceTotal": {**share(200), K + "fpga": "100"},
        "deviceFree": {**share(102), K + "fpga": "49"},
        "deviceUsed": {**share(98), K + "fpga": "51"},
        "deviceTotalDetail": {
            "gpu": {"0": share(100), "1": share(100)},
            "fpga": {"2": {K + "fpga": "100"}},
        },
        "deviceFreeDetail": {
            "gpu": {"0": share(51), "1": share(51)},
            "fpga": {"2": {K + "fpga": "49"}},
        },
        "deviceUsedDetail": {
            "gpu": {"0": share(49), "1": share(49)},
            "fpga": {"2": {K + "fpga": "51"}},
        },
        "allocateSet": {
            "gpu": {"ns/pod1": {"0": share(49), "1": share(49)}},
            "fpga": {"ns/pod1": {"2": {K + "fpga": "51"}}},
        },
    }
    assert {name: answer["node1"][name] for name in koordinator} == koordinator
    assert answer["node1"] == cluster.plugin.debug(["nodeDeviceSummaries", "node1"])


def test_what_is_used_up_is_free_with_zero_and_what_is_unhealthy_has_nothing() -> None:
    cluster = Cluster()
    cluster.add("n", gpu(0), gpu(3, health=False), nic(1))
    cluster.add("empty")
    cluster.place(cluster.pod("p", gpu=100))
    answer: Any = cluster.plugin.debug(["nodeDeviceSummaries"])
    assert list(answer) == ["n"]
    whole = {**share(100), K + "gpu-memory": "16Gi"}
    none = {**share(0), K + "gpu-memory": "0"}
    found = answer["n"]
    assert found["deviceTotalDetail"] == {
        "gpu": {"0": whole, "3": {}},
        "rdma": {"1": {K + "rdma": "100"}},
    }
    assert found["deviceFreeDetail"] == {
        "gpu": {"0": none, "3": {}},
        "rdma": {"1": {K + "rdma": "100"}},
    }
    assert found["deviceUsedDetail"] == {"gpu": {"0": whole}}
    assert found["deviceFree"] == {**none, K + "rdma": "100"}
    assert found["deviceUsed"] == whole
    assert found["allocateSet"] == {"gpu": {"default/p": {"0": whole}}}
    assert found["unhealthy"] == {"gpu": [3]}
