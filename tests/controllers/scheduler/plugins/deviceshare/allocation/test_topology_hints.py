# SPDX-License-Identifier: Apache-2.0
"""What devices say when NUMA nodes are chosen for CPUs and devices together.

Rule: docs/reference/devices.md#numa-hints.
"""

from __future__ import annotations

import pytest

from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.topology_manager import Alignment, AlignmentRequest
from koord.controllers.scheduler.plugins.deviceshare.args import DeviceShareOptions
from koord.kernels.numa import Exclusive, Hint, TopologyPolicy, Zones
from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, gpus, nic

ZONES = Zones([0, 1])
ALLOCATED = "scheduling.koordinator.sh/device-allocated"


class Policy:
    """Holds one policy on every node."""

    def __init__(self, policy: TopologyPolicy) -> None:
        self.policy = policy

    def question(self, cycle: Cycle, row: int) -> AlignmentRequest:
        return AlignmentRequest(self.policy, ZONES, Exclusive.NONE)


def attempt(
    cluster: Cluster, policy: TopologyPolicy = TopologyPolicy.SINGLE_NUMA_NODE, **requested
):
    info = cluster.pod(**requested)
    cycle = Cycle(info, cluster.table)
    Alignment.of(cycle).lead(Policy(policy))
    return info, cluster.decider.attempt(cycle)


def hints(cluster: Cluster, **requested):
    info = cluster.pod(**requested)
    return cluster.plugin.hints(Cycle(info, cluster.table), 0, ZONES)


def cluster_of(*cards) -> Cluster:
    cluster = Cluster()
    cluster.add("n", *cards)
    return cluster


def test_every_set_of_nodes_that_serves_is_a_hint() -> None:
    cluster = cluster_of(*gpus(8))
    said = hints(cluster, requests={"nvidia.com/gpu": "2"})
    assert said.failure == ""
    assert list(said.hints["gpu"]) == [
        Hint(0b01, preferred=True, score=500),
        Hint(0b10, preferred=True, score=0),
        Hint(0b11, preferred=False, score=500),
    ]


def test_only_the_least_sets_are_preferred() -> None:
    said = hints(cluster_of(*gpus(8)), requests={"nvidia.com/gpu": "6"})
    assert list(said.hints["gpu"]) == [Hint(0b11, preferred=True, score=500)]


def test_all_types_must_be_served_together() -> None:
    cluster = cluster_of(*gpus(8), nic(0, numa=1, pcie="2"))
    said = hints(cluster, requests={"nvidia.com/gpu": "1"}, rdma=1)
    want = [Hint(0b10, preferred=True, score=0), Hint(0b11, preferred=False, score=500)]
    assert {kind: list(found) for kind, found in said.hints.items()} == {"gpu": want, "rdma": want}


@pytest.mark.parametrize(
    ("count", "why"),
    [(9, "Insufficient NUMA Scoped Devices"), (8, "Insufficient GPU Devices")],
)
def test_a_machine_that_cannot_serve_at_all_says_why(count: int, why: str) -> None:
    cluster = cluster_of(*gpus(8))
    cluster.place(cluster.pod(gpu=50))
    assert hints(cluster, requests={"nvidia.com/gpu": str(count)}).failure == why


def test_designated_devices_have_one_hint() -> None:
    recorded = '{"gpu":[{"minor":5,"resources":{"koordinator.sh/gpu-core":"100"}}]}'
    keep = {
        ALLOCATED: recorded,
        "internal.scheduling.koordinator.sh/scheduling-hint": '{"extensions":{"DeviceShare":{}}}',
    }
    requested = {"requests": {"nvidia.com/gpu": "1"}, "annotations": keep}
    said = hints(cluster_of(*gpus(8)), **requested)
    assert list(said.hints["gpu"]) == [Hint(0b10, preferred=True, score=500)]
    assert hints(cluster_of(*gpus(2)), **requested).failure == (
        "Designated Allocation Lack NUMA Node ID"
    )


def test_nothing_is_said_of_nothing() -> None:
    assert hints(cluster_of(*gpus(2)), cpu="1").hints == {}
    assert hints(cluster_of(), requests={"nvidia.com/gpu": "1"}).hints == {}


def test_the_decision_binds_the_choice_of_cards() -> None:
    cluster = cluster_of(*gpus(8))
    cluster.place(cluster.pod(gpu=50))
    info, decision = attempt(cluster, requests={"nvidia.com/gpu": "4"})
    assert decision.row == 0
    assert cluster.decider.assume(decision) is None
    assert cluster.got(info) == "gpu:4,5,6,7"
    _, decision = attempt(cluster, requests={"nvidia.com/gpu": "3"})
    assert cluster.decider.assume(decision) is None
    _, decision = attempt(cluster, requests={"nvidia.com/gpu": "1"})
    assert decision.row == -1


def test_no_set_of_one_node_holds_what_must_come_from_one() -> None:
    cluster = cluster_of(*gpus(8))
    info, decision = attempt(cluster, requests={"nvidia.com/gpu": "6"})
    refused = cluster.decider.assume(decision)
    assert refused is not None
    assert "gpu" in refused.text
    assert info.allocations == {}


def test_alignment_can_be_switched_off() -> None:
    cluster = Cluster(DeviceShareOptions(aligned=False))
    cluster.add("n", *gpus(8))
    info, decision = attempt(cluster, requests={"nvidia.com/gpu": "6"})
    assert cluster.decider.assume(decision) is None
    assert cluster.got(info) == "gpu:0,1,2,3,4,5"
