# SPDX-License-Identifier: Apache-2.0
"""Which combinations of device resources are legal, and what they come to.

Rule: docs/reference/devices.md#requests.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import (
    InvalidDeviceRequestError,
    device_request_of,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.resource_combinations import (
    OF_TYPE,
    InvalidRequestError,
    device_requests,
    split_gpus,
)
from tests.controllers.scheduler.pods import pod
from tests.models import device_requests as model

K = "koordinator.sh/"


@pytest.mark.parametrize(
    ("requested", "want", "cards", "each", "shared"),
    [
        ({"nvidia.com/gpu": 2}, {"gpu-core": 200, "gpu-memory-ratio": 200}, 2, 100, False),
        ({"amd.com/gpu": 1}, {"gpu-core": 100, "gpu-memory-ratio": 100}, 1, 100, False),
        ({"dcu.com/gpu": 1}, {"gpu-core": 100, "gpu-memory-ratio": 100}, 1, 100, False),
        ({K + "gpu": 50}, {"gpu-core": 50, "gpu-memory-ratio": 50}, 1, 50, True),
        ({K + "gpu": 300}, {"gpu-core": 300, "gpu-memory-ratio": 300}, 3, 100, False),
        ({K + "gpu-memory-ratio": 200}, {"gpu-memory-ratio": 200}, 2, 100, False),
        (
            {K + "gpu-core": 100, K + "gpu-memory-ratio": 50},
            {"gpu-core": 100, "gpu-memory-ratio": 50}, 1, 50, True,
        ),
        (
            {K + "gpu.shared": 2, K + "gpu-core": 100, K + "gpu-memory-ratio": 100},
            {"gpu.shared": 2, "gpu-core": 100, "gpu-memory-ratio": 100}, 2, 50, True,
        ),
        (
            {K + "gpu.shared": 2, K + "gpu-memory-ratio": 200},
            {"gpu.shared": 2, "gpu-memory-ratio": 200}, 2, 100, False,
        ),
    ],
)  # fmt: skip
def test_legal_gpu_requests(requested, want, cards: int, each: int, shared: bool) -> None:
    got = device_requests({"cpu": 4000, **requested})
    assert got == {"gpu": {K + name: amount for name, amount in want.items()}}
    split = split_gpus(got["gpu"])
    ratio = split.per_card[K + "gpu-memory-ratio"]
    assert (split.cards, ratio, split.shared) == (cards, each, shared)


def test_memory_by_bytes_is_always_shared() -> None:
    split = split_gpus({K + "gpu-memory": 8 << 30, K + "gpu-core": 50})
    assert split == (1, {K + "gpu-memory": 8 << 30, K + "gpu-core": 50}, True)
    split = split_gpus({K + "gpu-memory": 9, K + "gpu.shared": 2})
    assert split == (2, {K + "gpu-memory": 4}, True)


def test_npus() -> None:
    requested = {K + "gpu.shared": 1, "huawei.com/npu-core": 10, "huawei.com/npu-cpu": 3}
    requested[K + "gpu-memory"] = 1 << 30
    assert device_requests(requested) == {"gpu": requested}
    assert device_requests({**requested, "huawei.com/npu-dvpp": 100})["gpu"]["huawei.com/npu-dvpp"]
    whole = {"huawei.com/npu-core": 20, K + "gpu-memory-ratio": 100}
    assert device_requests(whole) == {"gpu": whole}


def test_types_come_in_their_order_and_zeros_do_not_count() -> None:
    requested = {K + "fpga": 100, K + "rdma": 1, "nvidia.com/gpu": 1, K + "gpu-memory": 0}
    assert list(device_requests(requested)) == ["gpu", "rdma", "fpga"]
    assert device_requests({"cpu": 1, K + "gpu": 0}) == {}


@pytest.mark.parametrize(
    ("requested", "text"),
    [
        ({K + "gpu": 150}, f"invalid resource unit {K}gpu: 150"),
        ({K + "rdma": 101}, f"invalid resource unit {K}rdma: 101"),
        ({K + "fpga": 250}, f"invalid resource unit {K}fpga: 250"),
        ({K + "gpu": -1}, f"invalid resource unit {K}gpu: -1"),
        ({"nvidia.com/gpu": 1 << 60}, f"invalid resource unit nvidia.com/gpu: {1 << 60}"),
        ({K + "gpu-core": 50}, f"invalid resource device requests: [{K}gpu-core]"),
        (
            {K + "gpu-core": 50, K + "gpu-memory": 1, K + "gpu-memory-ratio": 50},
            f"invalid resource device requests: [{K}gpu-core {K}gpu-memory {K}gpu-memory-ratio]",
        ),
        (
            {"nvidia.com/gpu": 1, K + "gpu": 100},
            f"invalid resource device requests: [{K}gpu nvidia.com/gpu]",
        ),
        (
            {K + "gpu-core": 100, K + "gpu-memory-ratio": 150},
            f"invalid resource device requests: [{K}gpu-core {K}gpu-memory-ratio]",
        ),
        (
            {K + "gpu.shared": 3, K + "gpu-memory-ratio": 100},
            f"invalid resource device requests: [{K}gpu-memory-ratio {K}gpu.shared]",
        ),
        (
            {K + "gpu.shared": 1, K + "gpu-memory-ratio": 200},
            f"invalid resource device requests: [{K}gpu-memory-ratio {K}gpu.shared]",
        ),
        ({K + "gpu.shared": 1}, f"invalid resource device requests: [{K}gpu.shared]"),
    ],
)
def test_illegal_requests_say_what_users_know(requested, text: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        device_requests(requested)
    assert str(caught.value) == text


amounts = st.sampled_from([0, 1, 2, 3, 50, 99, 100, 101, 150, 200, 300])
requests = st.dictionaries(
    st.sampled_from([name for listed in OF_TYPE.values() for name in listed]), amounts, max_size=5
)


@given(requests)
def test_requests_are_the_model_s(requested: dict[str, int]) -> None:
    assert outcome(requested) == model.device_requests(requested)


def outcome(requested: dict[str, int]) -> dict[str, dict[str, int]] | str:
    try:
        return device_requests(requested)
    except InvalidRequestError as error:
        return str(error)


HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
SPEC = "scheduling.koordinator.sh/gpu-partition-spec"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (HINT, "{", "invalid DeviceAllocateHint annotation, err: annotations["),
        (HINT, "[]", "invalid DeviceAllocateHint annotation, err: annotations["),
        (HINT, '{"gpu":{"requiredTopologyScope":"Rack"}}', "got 'Rack', expected one of Device"),
        (
            HINT,
            '{"rdma":{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}',
            "invalid Selector of DeviceHint, deviceType: rdma, err: ",
        ),
        (
            HINT,
            '{"rdma":{"vfSelector":{"matchExpressions":[{"key":"","operator":"Exists"}]}}}',
            "invalid VFSelector of DeviceHint, deviceType: rdma, err: ",
        ),
        (JOINT, '{"deviceTypes":7}', "invalid DeviceJointAllocate annotation, err: "),
        (SPEC, '{"ringBusBandwidth":"fast"}', "invalid GPUPartitionSpec annotation, err: "),
        (SPEC, '{"ringBusBandwidth":"-1"}', "ringBusBandwidth: got '-1', expected an amount"),
        (SPEC, '{"ringBusBandwidth":"9e99"}', "invalid GPUPartitionSpec annotation, err: "),
    ],
)
def test_bad_annotations_are_one_line(key: str, value: str, text: str) -> None:
    requested = pod("p", annotations={key: value})
    with pytest.raises(InvalidDeviceRequestError) as caught:
        device_request_of(requested, {"nvidia.com/gpu": 1, K + "rdma": 1})
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_cards_than_a_node_can_have_fit_nowhere() -> None:
    with pytest.raises(InvalidDeviceRequestError, match="Insufficient gpu devices"):
        device_request_of(pod("p"), {"nvidia.com/gpu": 65})
    strategy = {HINT: '{"rdma":{"allocateStrategy":"RequestsAsCount"}}'}
    with pytest.raises(InvalidDeviceRequestError, match="Insufficient rdma devices"):
        device_request_of(pod("p", annotations=strategy), {K + "rdma": 70})
