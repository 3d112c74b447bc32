# SPDX-License-Identifier: Apache-2.0
"""koordlet on a real kernel, among real busy processes, with a kubelet and an API server."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scenes.place import Place

MIB = 2**20
THRESHOLD = 0.65
ALL_PODS = ["service", "batch"]


# Sixteen emulated CPUs on a few real ones: most stay idle.
IN_GUEST: dict[str, Any] = {"hogs": 3, "service": 2, "threshold": 30}


def check_suppression(seen: dict[str, Any]) -> None:
    assert seen["troubles"] == []
    # What the service gets is what it gets alone, as long as it is there.
    assert seen["beside"] >= 0.95 * seen["alone"]
    assert seen["busy"] < seen["idle"]
    assert seen["rounds_to_fall"] is not None, seen["rounds"]
    assert seen["rounds_to_fall"] <= 2, seen["rounds"]
    assert seen["recovered"] >= 0.9 * seen["idle"]


def test_hogs_get_what_a_service_leaves_by_quota(place: Place) -> None:
    if not place.emulated:
        seen = place.run("suppress", policy="cfsQuota")
    else:
        seen = place.run("suppress", policy="cfsQuota", **IN_GUEST)
    check_suppression(seen)
    assert seen["hogs_beside"] <= 1.2 * seen["busy"]


@pytest.mark.vm
def test_hogs_get_what_a_service_leaves_by_cpus(v2: Place) -> None:
    check_suppression(v2.run("suppress", policy="cpuset", **IN_GUEST))


@pytest.mark.vm
def test_no_best_effort_cgroup_ever_has_an_exclusive_cpu(v2: Place) -> None:
    seen = v2.run("exclusive", exclusive="2-3,10-11")
    assert seen["overlaps"] == []
    assert seen["own"] == "2-3,10-11"
    assert 2 <= seen["least"] <= seen["most"] <= 12
    assert seen["troubles"] == []


def test_too_little_memory_costs_the_right_pods_and_no_more(place: Place) -> None:
    seen = place.run("evict")
    assert seen["before"] == ["small", "large", "important", "calm"]
    assert seen["order"] == ["large", "small"]
    assert seen["after"] == ["important", "calm", "greedy"]
    assert seen["used_percent"] < seen["threshold"]
    assert seen["left"] == []


def test_nobody_is_evicted_upon_old_pods_or_an_unknown_usage(place: Place) -> None:
    seen = place.run("evict", unknown=True)
    old, unknown = seen["found"]["old pods"], seen["found"]["unknown usage"]
    assert "pods: age" in old["last"]
    assert "node_memory_usage" in unknown["last"]
    for found in (old, unknown):
        assert found["order"] == []
        assert found["running"] == ["small", "large", "important", "calm", "greedy"]
    assert old["used_percent"] > seen["threshold"]


def test_edits_by_hand_come_back_within_one_reconcile(place: Place) -> None:
    seen = place.run("edits")
    wanted = {"bound_quota": -1, "quota": 50_000, "pod_quota": 50_000, "memory": 64 * MIB}
    assert seen["before"].items() >= wanted.items()
    assert all(seen["edited"][name] != seen["before"][name] for name in seen["changed"])
    assert seen["after"] == seen["before"]
    # One interval, and the time that writing takes.
    assert seen["back_after_reconciles"] <= 1.5
    assert seen["troubles"] == []


@pytest.mark.parametrize(
    ("reservation", "kept"),
    [({"resources": {"cpu": "1"}}, 1), ({"reservedCPUs": "0"}, 1)],
    ids=["by count", "by list"],
)
def test_a_reservation_holds_for_quota_pools_and_report(
    v1: Place, reservation: dict[str, Any], kept: int
) -> None:
    seen = v1.run("reserved", reservation=reservation, policy="cfsQuota")
    every = set(range(seen["cpus"]))
    assert set(seen["pools"]) == set(seen["be_pools"]) == every - {0}
    assert seen["told"].get("reservedCPUs") == "0"
    # The service uses a tenth of a CPU; an increase may be a tenth of the node.
    assert 0 < seen["quota_cores"] <= THRESHOLD * seen["cpus"] - kept
    assert all(not set(cpus) & {0} for cpus in seen["sets"])
    assert seen["troubles"] == []


@pytest.mark.vm
@pytest.mark.parametrize("reservation", [{"reservedCPUs": "0-1,8-9"}, {"resources": {"cpu": "4"}}])
def test_a_reservation_holds_for_cpus(v2: Place, reservation: dict[str, Any]) -> None:
    seen = v2.run("reserved", reservation=reservation, policy="cpuset")
    every = set(range(16))
    kept = every - set(seen["pools"])
    assert len(kept) == 4
    assert set(seen["be_pools"]) == every - kept
    assert all(not set(cpus) & kept for cpus in seen["sets"])
    assert not set(seen["container"]) & kept
    assert seen["troubles"] == []


def test_killed_at_any_moment_it_comes_back_to_the_same_state(place: Place) -> None:
    seen = place.run("killed", kills=1 if place.emulated else 4)
    assert seen["after"] == seen["before"]
    assert seen["troubles"] == []


def test_it_goes_on_with_what_it_knows_when_its_sources_go(place: Place) -> None:
    seen = place.run("sources")
    assert set(seen["found"]) == {
        "hang", "error", "garbage", "empty", "refused", "api hangs", "api gone", "nothing measured",
    }  # fmt: skip
    for trouble, found in seen["found"].items():
        assert found["running"] == ALL_PODS, trouble
        assert found["alive"], trouble
        assert found["quota"] > 0, trouble
    # Old pods and objects serve to suppress, an unknown usage does not.
    assert "node_cpu_usage" in seen["found"]["nothing measured"]["error"]
    assert seen["quota_in_the_end"] == -1


def test_burst_normalization_and_suppression_stay_within_the_kernels_rules(place: Place) -> None:
    seen = place.run("burst")
    assert seen["base"] == 32_000
    assert seen["most"] > seen["base"]
    assert seen["inconsistent"] == []
    assert seen["last"]["quota"] == seen["base"]
    assert seen["troubles"] == []
