# SPDX-License-Identifier: Apache-2.0
"""``SamePCIe`` with ``exclusivePolicy: PCIeLevel``: primary and secondary as one choice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.pods import PodInfo
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, gpu, gpus, nic

HINT = "scheduling.koordinator.sh/device-allocate-hint"
JOINT = "scheduling.koordinator.sh/device-joint-allocate"
NONE = "0/1 nodes are available: 1 "
TOGETHER = '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}'
ALONE = '{"rdma":{"vfSelector":{},"exclusivePolicy":"PCIeLevel"}}'


def machine() -> Cluster:
    """8 GPUs and 4 NICs of 2 virtual functions on 4 PCIe roots; two roots share a NUMA node."""
    cluster = Cluster()
    nics = [nic(root, root // 2, str(root), vfs=2) for root in range(4)]
    cluster.add("n", *gpus(8), *nics)
    return cluster


def pair(cluster: Cluster, cards: int = 1, rdma: int = 1, **notes: str) -> PodInfo:
    annotations = {JOINT: notes.get("joint", TOGETHER), HINT: notes.get("hint", ALONE)}
    return cluster.pod(requests={"nvidia.com/gpu": str(cards)}, rdma=rdma, annotations=annotations)


def plain(cluster: Cluster) -> PodInfo:
    """One virtual function, wherever it is."""
    return cluster.pod(rdma=1, annotations={HINT: '{"rdma":{"vfSelector":{}}}'})


def test_a_pair_fits_once_a_root() -> None:
    cluster = machine()
    assert [cluster.place(pair(cluster)) for _ in range(5)] == [
        "gpu:0 rdma:0/0000:00:00.0",
        "gpu:2 rdma:1/0000:01:00.0",
        "gpu:4 rdma:2/0000:02:00.0",
        "gpu:6 rdma:3/0000:03:00.0",
        NONE + "Insufficient rdma devices.",
    ]


def test_a_plain_function_takes_one_root_and_no_more() -> None:
    cluster = machine()
    assert cluster.place(plain(cluster)) == "rdma:0/0000:00:00.0"
    assert [cluster.place(pair(cluster)) for _ in range(4)] == [
        "gpu:2 rdma:1/0000:01:00.0",
        "gpu:4 rdma:2/0000:02:00.0",
        "gpu:6 rdma:3/0000:03:00.0",
        NONE + "Insufficient rdma devices.",
    ]
    # The root is not kept from pods that ask for no exclusion.
    assert cluster.place(plain(cluster)) == "rdma:0/0000:00:00.1"
    assert cluster.place(plain(cluster)) == "rdma:1/0000:01:00.1"


def test_devices_of_other_types_do_not_count() -> None:
    cluster = machine()
    assert cluster.place(cluster.pod(requests={"nvidia.com/gpu": "1"})) == "gpu:0"
    assert cluster.place(pair(cluster)) == "gpu:1 rdma:0/0000:00:00.0"


def test_pairs_of_two_roots() -> None:
    cluster = machine()
    assert cluster.place(plain(cluster)) == "rdma:0/0000:00:00.0"
    found = "gpu:4,5,6,7 rdma:2/0000:02:00.0,3/0000:03:00.0"
    assert cluster.place(pair(cluster, cards=4)) == found
    assert cluster.place(pair(cluster, cards=4)) == NONE + "Insufficient rdma devices."
    assert cluster.place(pair(cluster, cards=2)) == "gpu:2,3 rdma:1/0000:01:00.0"


def test_the_exclusive_type_may_be_the_primary() -> None:
    cluster = machine()
    rdma_first = '{"deviceTypes":["rdma","gpu"],"requiredScope":"SamePCIe"}'
    assert cluster.place(cluster.pod(requests={"nvidia.com/gpu": "4"})) == "gpu:0,1,2,3"
    placed = [cluster.place(pair(cluster, joint=rdma_first)) for _ in range(3)]
    assert placed[:2] == ["gpu:4 rdma:2/0000:02:00.0", "gpu:6 rdma:3/0000:03:00.0"]
    assert placed[2].startswith(NONE)


@pytest.mark.parametrize(("rdma", "want"), [(200, "gpu:4 rdma:1,2"), (100, "gpu:0 rdma:0")])
def test_a_root_with_enough_of_the_secondary(rdma: int, want: str) -> None:
    """Two whole cards are on the second root alone."""
    cluster = Cluster()
    cluster.add("n", *gpus(6), nic(0, 0, "0"), nic(1, 1, "2"), nic(2, 1, "2"))
    exclusive = '{"rdma":{"exclusivePolicy":"PCIeLevel"}}'
    assert cluster.place(pair(cluster, rdma=rdma, hint=exclusive)) == want


def test_selectors_hold_for_the_plan_too() -> None:
    cluster = Cluster()
    labels: dict[str, Any] = {"labels": {"net": "b"}}
    cluster.add("n", *gpus(4), nic(0, 0, "0"), nic(1, 0, "1", **labels))
    hint = {"rdma": {"exclusivePolicy": "PCIeLevel", "selector": {"matchLabels": {"net": "b"}}}}
    assert cluster.place(pair(cluster, hint=json.dumps(hint))) == "gpu:2 rdma:1"


def test_without_the_policy_the_primary_is_chosen_first() -> None:
    """As the original does it, whatever is left for the secondary."""
    cluster = Cluster()
    cluster.add("n", gpu(0, pcie="0"), gpu(1, pcie="1"), nic(0, 0, "1"))
    violated = NONE + "node(s) Device Joint-Allocate rules violation."
    assert cluster.place(pair(cluster, hint="{}")) == violated
    exclusive = '{"gpu":{"exclusivePolicy":"PCIeLevel"}}'
    assert cluster.place(pair(cluster, hint=exclusive)) == "gpu:1 rdma:0"


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=1,
                max_size=5), st.integers(1, 2), st.integers(1, 2))  # fmt: skip
def test_one_root_is_found_where_there_is_one(
    roots: list[tuple[int, int, bool]], cards: int, nics: int
) -> None:
    """Of each root: its GPUs, its NICs, and whether a NIC of it is in use."""
    listed = [
        make(10 * root + each, 0, str(root))
        for root, counts in enumerate(roots)
        for make, count in zip((gpu, nic), counts[:2], strict=True)
        for each in range(count)
    ]
    cluster = Cluster()
    row = cluster.add("n", nic(63, 0, "none"), *listed)
    used = [10 * root for root, (_, count, busy) in enumerate(roots) if count and busy]
    for minor in used:
        held = [{"minor": minor, "resources": {"koordinator.sh/rdma": "1"}}]
        notes = {"scheduling.koordinator.sh/device-allocated": json.dumps({"rdma": held})}
        cluster.hold(f"holder-{minor}", row, cluster.pod(annotations=notes, rdma=1))
    exclusive = '{"rdma":{"exclusivePolicy":"PCIeLevel"}}'
    found = cluster.place(pair(cluster, cards, nics * 100, hint=exclusive))
    if any(gpus >= cards and free >= nics and not busy for gpus, free, busy in roots):
        assert found.startswith("gpu:")
        taken = {kind: set(part.split(",")) for kind, _, part in
                 (word.partition(":") for word in found.split())}  # fmt: skip
        of_root = {kind: {int(minor) // 10 for minor in of} for kind, of in taken.items()}
        assert of_root["gpu"] == of_root["rdma"]
        assert not of_root["rdma"] & {minor // 10 for minor in used}
