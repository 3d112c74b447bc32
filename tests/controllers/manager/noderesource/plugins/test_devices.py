# SPDX-License-Identifier: Apache-2.0
"""GPUs and RDMA cards on a node against plain Python and the spec's example."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.manager.noderesource.writers.node_patches import status_patch
from tests.controllers.manager.noderesource.builders import Bench, device, node, seen, shown
from tests.models import noderesource as model

VENDOR, MODEL, DRIVER = (
    f"node.koordinator.sh/gpu-{name}" for name in ("vendor", "model", "driver-version")
)
MODEL_OLD, DRIVER_OLD = "kubernetes.io/gpu-model", "kubernetes.io/gpu-driver"
SHARED = "koordinator.sh/gpu.shared"
A10 = {VENDOR: "nvidia", MODEL: "A10", DRIVER: "535"}


def gpu(memory: int = 8000, health: bool = True) -> tuple[str, bool, dict[str, int]]:
    amounts = {"gpu-core": 100, "gpu-memory": memory, "gpu-memory-ratio": 100}
    return "gpu", health, {f"koordinator.sh/{name}": value for name, value in amounts.items()}


def test_two_gpus_add_up() -> None:
    known = seen(device=device([gpu(8000), gpu(10_000), gpu(1, health=False)], A10))
    wanted = Bench("GPUDeviceResource", gpu_shared=True).wanted(known)
    assert shown(wanted) == {
        "koordinator.sh/gpu": 200, "koordinator.sh/gpu-core": 200,
        "koordinator.sh/gpu-memory": 18_000, "koordinator.sh/gpu-memory-ratio": 200,
        SHARED: 200,
    }  # fmt: skip
    assert wanted.labels == {**A10, MODEL_OLD: "A10", DRIVER_OLD: "535"}


def test_older_names_of_labels_can_be_turned_off() -> None:
    """Those that koord wrote go; another program's stay."""
    known = seen(device=device([gpu()], A10))
    bench = Bench("GPUDeviceResource", old_gpu_labels=False)
    assert bench.wanted(known).labels == A10
    labels = {**A10, MODEL_OLD: "A10", DRIVER_OLD: "another program's"}
    known = seen(node(labels=labels), device=device([gpu()], A10))
    assert bench.wanted(known).labels == {**A10, MODEL_OLD: None}


def test_labels_stay_while_there_is_a_gpu_broken_or_not() -> None:
    known = seen(node(labels=A10), device=device([gpu(health=False)], A10))
    wanted = Bench("GPUDeviceResource").wanted(known)
    assert set(shown(wanted).values()) == {None}
    assert wanted.labels == {**A10, MODEL_OLD: "A10", DRIVER_OLD: "535"}


def test_what_was_of_gpus_goes_with_the_last() -> None:
    old = {MODEL_OLD: "A10", DRIVER_OLD: "not ours"}
    has = {"koordinator.sh/gpu": "100", SHARED: "100"}
    on = node(has, labels={**A10, **old})
    gone = {VENDOR: None, MODEL: None, DRIVER: None, MODEL_OLD: None}
    for left in (None, device([("rdma", True, {})], A10)):
        wanted = Bench("GPUDeviceResource").wanted(seen(on, device=left))
        assert shown(wanted) == dict.fromkeys(model.GPU_NAMES)
        assert wanted.labels == gone
    bare = seen(node(labels=A10), had_gpus=True)
    assert set(Bench("GPUDeviceResource").wanted(bare).labels) == {VENDOR, MODEL, DRIVER}


def test_labels_of_a_node_that_never_had_a_gpu_are_its_own() -> None:
    known = seen(node(labels=A10))
    assert Bench("GPUDeviceResource").wanted(known).labels == {}


def test_shared_gpus_go_with_the_gate() -> None:
    on = node({SHARED: "100"})
    wanted = Bench("GPUDeviceResource").wanted(seen(on, device=device([gpu()])))
    assert wanted.resources[SHARED] is None


def test_disabling_colocation_leaves_cards_alone() -> None:
    on = node({"koordinator.sh/gpu": "100", "koordinator.sh/rdma": "100"}, labels=A10)
    wanted = Bench("GPUDeviceResource", "RDMADeviceResource").wanted(seen(on), enabled=False)
    assert (wanted.resources, wanted.labels) == ({}, {})


def test_a_node_that_reports_nothing_yet_gets_no_cards() -> None:
    on = node()
    on.status.allocatable = {}
    bench = Bench("GPUDeviceResource", "RDMADeviceResource")
    assert bench.wanted(seen(on, device=device([gpu()]))).resources == {}
    assert bench.failed == ["GPUDeviceResource", "RDMADeviceResource"]


def test_rdma_counts_healthy_cards() -> None:
    cards = [("rdma", True, {"koordinator.sh/rdma": 5}), ("rdma", False, {}), ("rdma", True, {})]
    wanted = Bench("RDMADeviceResource").wanted(seen(device=device(cards)))
    assert shown(wanted) == {"koordinator.sh/rdma": 200}


card = st.tuples(
    st.sampled_from(["gpu", "rdma", "fpga"]),
    st.booleans(),
    st.dictionaries(st.sampled_from([*model.GPU_NAMES, "example.com/x"]), st.integers(0, 2**40)),
)


@given(
    cards=st.none() | st.lists(card, max_size=4),
    vendor=st.sampled_from(["", "nvidia", "huawei"]),
    shared=st.booleans(),
    has=st.dictionaries(st.sampled_from(model.GPU_NAMES), st.integers(0, 500).map(str)),
)
def test_cards_are_the_plain_models(
    cards: list[model.Card] | None, vendor: str, shared: bool, has: dict[str, str]
) -> None:
    found = device(cards, {VENDOR: vendor} if vendor else {}) if cards is not None else None
    known = seen(node(has), device=found)
    bench = Bench("GPUDeviceResource", "RDMADeviceResource", gpu_shared=shared)
    wanted = bench.wanted(known)
    got = shown(wanted)
    assert got.pop("koordinator.sh/rdma") == model.rdma(cards)
    assert got == model.gpus(cards, vendor, shared)
    if got and all(amount is None for amount in got.values()) and not has:
        assert status_patch(known.node, Bench("GPUDeviceResource").wanted(known)) is None
