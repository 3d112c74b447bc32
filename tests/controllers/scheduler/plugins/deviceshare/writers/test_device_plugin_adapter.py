# SPDX-License-Identifier: Apache-2.0
"""What device plugins read, the lock on the node, and what a person is shown."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.plugins.deviceshare.writers.device_plugin_adapter import (
    AdaptionError,
)
from koord.controllers.scheduler.plugins.deviceshare.writers.node_lock import (
    NodeLockedError,
    NodeLocks,
)
from koord.kube.errors import ApiError, Status
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, gpus
from tests.controllers.scheduler.pods import node, pod

SCHEDULING = "scheduling.koordinator.sh/"
VENDOR, MODEL = "node.koordinator.sh/gpu-vendor", "node.koordinator.sh/gpu-model"
NOW = 1_700_000_000


def adapted(vendor: str, model: str = "", labels: dict[str, str] | None = None, **requested: Any):
    cluster = Cluster(DevicePluginAdaption=True)
    cluster.add("n", *gpus(4), labels={VENDOR: vendor, MODEL: model})
    info = cluster.pod(labels=labels or {}, **requested)
    assert cluster.place(info).startswith("gpu:")
    changes = cluster.written(info)
    del changes.annotations[SCHEDULING + "device-allocated"]
    return changes


def test_every_pod_gets_the_time_and_its_minors() -> None:
    changes = adapted("nvidia", requests={"nvidia.com/gpu": "2"})
    assert changes.annotations == {
        SCHEDULING + "bind-timestamp": f"{NOW}000000000",
        SCHEDULING + "gpu-minors": "0,1",
    }
    assert changes.labels == {}


def test_without_the_gate_nothing_of_that_is_written() -> None:
    cluster = Cluster()
    cluster.add("n", *gpus(1))
    info = cluster.pod(gpu=50)
    cluster.place(info)
    assert list(cluster.written(info).annotations) == [SCHEDULING + "device-allocated"]


def test_hami_learns_the_node() -> None:
    cluster = Cluster(DevicePluginAdaption=True)
    provider = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
    cluster.add("n", *gpus(1), labels=provider)
    info = cluster.pod(gpu=50, labels=provider)
    cluster.place(info)
    assert cluster.written(info).labels == {"hami.io/vgpu-node": "n"}


@pytest.mark.parametrize(
    ("model", "want"),
    [
        ("910B", {"huawei.com/npu-core": "0,1", "predicate-time": f"{NOW}000000000"}),
        (
            "Ascend-310P3-300I-DUO",
            {
                "huawei.com/Ascend310P": "Ascend310P-0,Ascend310P-1",
                "predicate-time": f"{NOW}000000000",
            },
        ),
    ],
)
def test_huawei(model: str, want: dict[str, str]) -> None:
    changes = adapted("huawei", model, requests={"nvidia.com/gpu": "2"})
    assert want.items() <= changes.annotations.items()


def test_cambricon_and_metax() -> None:
    changes = adapted("cambricon", gpu_core=30, gpu_memory="1Gi")
    assert changes.annotations["CAMBRICON_DSMLU_ASSIGHED"] == "false"
    assert changes.annotations["CAMBRICON_DSMLU_PROFILE"] == "0_30_4"
    changes = adapted("metax", gpu_core=30, gpu_memory="1Gi")
    assert json.loads(changes.annotations["metax-tech.com/gpu-devices-allocated"] or "") == [
        [{"uuid": "GPU-0", "compute": 30, "vRam": 1024}]
    ]


@pytest.mark.parametrize(
    ("vendor", "requested", "why"),
    [
        ("cambricon", {"requests": {"nvidia.com/gpu": "2"}},
         "multiple gpu share is not supported on device side"),
        ("cambricon", {"gpu_memory": "1Gi"}, "gpu core resource is required"),
        ("cambricon", {"gpu_core": 1, "gpu_memory": "1Mi"},
         "gpu memory must not be less than 268435456 bytes"),
        ("metax", {"gpu_core": 1, "gpu_memory": "1"},
         "gpu memory must not be less than 1048576 bytes"),
    ],
)  # fmt: skip
def test_what_a_vendor_cannot_serve_is_not_bound(vendor: str, requested: Any, why: str) -> None:
    want = f'failed to adapt for GPU device plugin of vendor "{vendor}": {why}'
    with pytest.raises(AdaptionError) as caught:
        adapted(vendor, **requested)
    assert str(caught.value) == want


class Api:
    """Nodes and pods, one of each kind asked for."""

    def __init__(self, value: str | None, pods: tuple[str, ...] = ()) -> None:
        annotations = {} if value is None else {"k": value}
        self.node = node("n", annotations=annotations)
        self.node.metadata.resource_version = "7"
        self.pods = pods
        self.patches: list[Any] = []

    async def get(self, target: type, name: str, namespace: str = "") -> Any:
        if target is Node:
            return self.node
        if f"{namespace}/{name}" in self.pods:
            return pod(name)
        raise ApiError(Status(code=404, reason="NotFound"))

    async def patch(self, target: type, name: str, patch: Any) -> None:
        self.patches.append((target, name, json.loads(patch.body)))


def lock(api: Api) -> None:
    asyncio.run(NodeLocks().lock(api, "n", "k", pod("p"), NOW))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "pods"),
    [
        (None, ()),
        ("2023-11-14T22:00:00Z,default,other", ("default/other",)),  # older than five minutes
        ("2023-11-14T22:13:00Z,default,gone", ()),
    ],
)
def test_a_free_node_is_locked_under_its_version(value: str | None, pods: tuple[str, ...]) -> None:
    api = Api(value, pods)
    lock(api)
    metadata = {"resourceVersion": "7", "annotations": {"k": "2023-11-14T22:13:20Z,default,p"}}
    assert api.patches == [(Node, "n", {"metadata": metadata})]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("2023-11-14T22:13:00Z,default,other", 'node "n" has been locked'),
        ("now", "invalid node lock value 'now'"),
        ("soon,default,other", "invalid node lock value 'soon,default,other'"),
    ],
)
def test_a_locked_node_is_left_alone(value: str, why: str) -> None:
    api = Api(value, ("default/other",))
    with pytest.raises(NodeLockedError, match=why):
        lock(api)
    assert api.patches == []


def test_reserve_pods_are_resized_where_the_gate_says_so() -> None:
    cluster = Cluster(ResizePod=True)
    cluster.add("n", *gpus(2))
    reserve = {"scheduling.koordinator.sh/reserve-pod": "true"}
    info = cluster.pod(requests={"nvidia.com/gpu": "2"}, annotations=reserve)
    cluster.place(info)
    text = cluster.written(info).annotations[SCHEDULING + "reservation-resize-allocatable"]
    k = "koordinator.sh/"
    assert json.loads(text or "") == {
        "resources": {
            k + "gpu-core": "200",
            k + "gpu-memory-ratio": "200",
            k + "gpu-memory": "32Gi",
        }
    }
    assert isinstance(info.pod, Pod)
