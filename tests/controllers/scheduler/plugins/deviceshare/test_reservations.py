# SPDX-License-Identifier: Apache-2.0
"""Devices that reservations hold back: who may have them, and how.

Rule: docs/reference/devices.md#reserved-devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.controllers.scheduler.plugins.deviceshare.clusters import Cluster, Offer, Sits, gpus, nic

NONE = "0/1 nodes are available: 1 "
REQUIRED = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
IGNORED = {"scheduling.koordinator.sh/reservation-ignored": "true"}


def reserved(cluster: Cluster, percent: int = 200) -> str:
    """A reservation for so much, on the only node; its uid."""
    info = cluster.pod("r", gpu=percent)
    assert cluster.place(info).startswith("gpu:")
    return info.uid


def eight() -> Cluster:
    cluster = Cluster()
    cluster.add("n", *gpus(4))
    return cluster


def test_what_is_reserved_is_closed_to_others() -> None:
    cluster = eight()
    reserved(cluster)
    assert cluster.place(cluster.pod(gpu=300)) == NONE + "Insufficient GPU Devices."
    assert cluster.place(cluster.pod(gpu=200)) == "gpu:2,3"


@pytest.mark.parametrize("policy", ["", "Aligned"])
def test_an_aligned_reservation_is_joined_with_free_cards(policy: str) -> None:
    cluster = eight()
    uid = reserved(cluster)
    offers = {0: [Offer(uid, policy)]}
    assert cluster.place(cluster.pod(gpu=300), offers=offers, sits=uid) == "gpu:0,1,2"
    assert cluster.plugin.cache.remaining(0, uid) == {
        ("gpu", 0): (0, 0, 0, 0, 0, 0), ("gpu", 1): (0, 0, 0, 0, 0, 0)
    }  # fmt: skip
    assert cluster.place(cluster.pod(gpu=100)) == "gpu:3"
    assert cluster.place(cluster.pod(gpu=50)) == NONE + "Insufficient GPU Devices."


def test_a_restricted_reservation_gives_no_more_than_it_has_left() -> None:
    cluster = eight()
    uid = reserved(cluster)
    offers = {0: [Offer(uid, "Restricted")]}
    first = cluster.pod(gpu=100, annotations=REQUIRED)
    assert cluster.place(first, offers=offers, sits=uid) == "gpu:0"
    two = cluster.pod(gpu=200, annotations=REQUIRED)
    assert cluster.place(two, offers=offers) == NONE + "Reservation(s) Insufficient GPU Devices."
    half = cluster.pod(gpu=50, annotations=REQUIRED)
    assert cluster.place(half, offers=offers, sits=uid) == "gpu:1"
    assert cluster.place(cluster.pod(gpu=100, annotations=REQUIRED), offers=offers) == (
        NONE + "Reservation(s) Insufficient GPU Devices."
    )
    cluster.accounts.drop(first)
    again = cluster.pod(gpu=100, annotations=REQUIRED)
    assert cluster.place(again, offers=offers, sits=uid) == "gpu:0"


# docs/reference/devices.md#reserved-devices: by minor, not by place in a list.
def test_a_restricted_reservation_that_is_used_up_gives_nothing() -> None:
    cluster = eight()
    blocked = cluster.pod(gpu=200)
    cluster.place(blocked)
    uid = reserved(cluster)  # GPUs 2 and 3
    offers = {0: [Offer(uid, "Restricted")]}
    assert cluster.place(cluster.pod(gpu=200), offers=offers, sits=uid) == "gpu:2,3"
    cluster.accounts.drop(blocked)
    needy = cluster.pod(gpu=100, annotations=REQUIRED)
    assert cluster.place(needy, offers=offers) == NONE + "Reservation(s) Insufficient GPU Devices."
    assert cluster.place(cluster.pod(gpu=100), offers=offers) == "gpu:0"


def test_a_restriction_to_other_resources_leaves_devices_aligned() -> None:
    cluster = eight()
    uid = reserved(cluster)
    offers = {0: [Offer(uid, "Restricted", frozenset({"cpu"}))]}
    wanted = cluster.pod(gpu=300, annotations=REQUIRED)
    assert cluster.place(wanted, offers=offers, sits=uid) == "gpu:0,1,2"


def test_a_pod_that_need_not_sit_in_one_falls_back_to_the_node() -> None:
    cluster = eight()
    uid = reserved(cluster)
    offers = {0: [Offer(uid, "Restricted")]}
    assert cluster.place(cluster.pod(gpu=300), offers=offers) == "gpu:0,1,2"


def test_a_pod_that_ignores_reservations_gets_everything_that_is_left() -> None:
    cluster = eight()
    uid = reserved(cluster)
    info = cluster.pod(gpu=400, labels=IGNORED)
    assert cluster.place(info, offers={0: [Offer(uid, "Restricted")]}) == "gpu:0,1,2,3"


def test_the_first_reservation_that_serves_is_taken_and_the_nominated_one_alone() -> None:
    cluster = eight()
    small, large = cluster.pod("small", gpu=100), cluster.pod("large", gpu=200)
    cluster.place(small)
    cluster.place(large)
    offers = {0: [Offer(small.uid, "Restricted"), Offer(large.uid, "Restricted")]}
    assert cluster.got(large) == "gpu:2,3"
    wanted = cluster.pod(gpu=200, annotations=REQUIRED)
    assert cluster.place(wanted, offers=offers) == "gpu:2,3"
    cluster.accounts.drop(wanted)
    one = cluster.pod(gpu=100, annotations=REQUIRED)
    assert cluster.place(one, offers=offers, sits=large.uid) == "gpu:2"


def test_pre_allocation_takes_over_all_cards_of_the_running_pod() -> None:
    cluster = eight()
    running = cluster.pod("running", gpu=200)
    cluster.place(running)
    offers = {0: [Offer(running.uid, "Restricted", pre_allocation=True)]}
    too_small = cluster.pod(gpu=100, annotations=REQUIRED)
    assert cluster.place(too_small, offers=offers) == (
        NONE + "Reservation(s) Insufficient GPU Devices."
    )
    reserve = cluster.pod("reserve", gpu=200, annotations=REQUIRED)
    reserve.allocations["Reservation"] = Sits("", (running.uid,))
    assert cluster.place(reserve, offers=offers) == "gpu:0,1"
    # The running pod sits in the reservation now: its cards count once.
    assert cluster.place(cluster.pod(gpu=200)) == "gpu:2,3"
    cluster.accounts.drop(running)
    assert cluster.place(cluster.pod(gpu=50)) == NONE + "Insufficient GPU Devices."


def test_virtual_functions_of_a_reservation_are_the_owner_s() -> None:
    cluster = Cluster()
    cluster.add("n", nic(0, vfs=1))
    wants = {"scheduling.koordinator.sh/device-allocate-hint": '{"rdma":{"vfSelector":{}}}'}
    holder = cluster.pod("r", rdma=1, annotations=wants)
    assert cluster.place(holder) == "rdma:0/0000:00:00.0"
    other = cluster.pod(rdma=1, annotations=wants)
    assert cluster.place(other) == NONE + "Insufficient rdma devices."
    # Who matches a reservation has another shape than who does not.
    owner = cluster.pod(rdma=1, annotations=wants, labels={"owner": "yes"})
    offers = {0: [Offer(holder.uid, "Restricted")]}
    assert cluster.place(owner, offers=offers, sits=holder.uid) == "rdma:0/0000:00:00.0"
    second = cluster.pod(rdma=1, annotations=wants, labels={"owner": "yes"})
    assert cluster.place(second, offers=offers) == NONE + "Insufficient rdma devices."


def test_reservations_are_judged_and_scored_one_by_one() -> None:
    cluster = eight()
    uid = reserved(cluster)
    info = cluster.pod(gpu=300, annotations=REQUIRED)
    aligned, restricted, other = Offer(uid, "Aligned"), Offer(uid, "Restricted"), Offer("other")
    cycle = cluster.decide(info, offers={0: [aligned]}).cycle
    plugin: Any = cluster.plugin
    assert plugin.filter_reservation(cycle, 0, aligned) is None
    refused = plugin.filter_reservation(cycle, 0, restricted)
    assert refused.reasons == ("Reservation(s) Insufficient GPU Devices",)
    assert plugin.score_reservation(cycle, 0, aligned) == 87
    assert plugin.score_reservation(cycle, 0, other) == 0


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        # Of 4 cards 1 is used, of their memory nothing is asked: (75 + 100) / 2; 99 of the NIC.
        ("Aligned", 87 + 99),
        # Of the 2 cards that are held: (50 + 100) / 2; the NIC is not held.
        ("Restricted", 75 + 99),
    ],
)
def test_scores_of_types_add_up(policy: str, want: int) -> None:
    cluster = Cluster()
    cluster.add("n", *gpus(4), nic(0))
    offer = Offer(reserved(cluster), policy)
    info = cluster.pod(gpu=100, rdma=1, annotations=REQUIRED)
    cycle = cluster.decide(info, offers={0: [offer]}).cycle
    plugin: Any = cluster.plugin
    assert plugin.score_reservation(cycle, 0, offer) == want


def test_all_cards_of_a_type_are_scored() -> None:
    """Also those whose virtual functions are taken, and whose PCIe root is in use."""
    cluster = Cluster()
    cluster.add("n", nic(0, pcie="0", vfs=1), nic(1, pcie="1", vfs=1))
    hint = {
        "scheduling.koordinator.sh/device-allocate-hint": (
            '{"rdma":{"vfSelector":{},"exclusivePolicy":"PCIeLevel"}}'
        )
    }
    assert cluster.place(cluster.pod(rdma=100, annotations=hint)) == "rdma:0/0000:00:00.0"
    cycle = cluster.decide(cluster.pod(rdma=40, annotations=hint)).cycle
    # (100 + 40) of 200 are used.
    assert cluster.plugin.score(cycle, np.array([0])).tolist() == [30]
