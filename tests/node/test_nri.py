# SPDX-License-Identifier: Apache-2.0
"""Hooks on a real containerd through NRI: right from a container's first instruction on."""

from __future__ import annotations

from typing import Any

import pytest

from koord.kernels.cpuset import CPUSet
from tests.node.figures import figures

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def seen() -> Any:
    return figures("tests.node.scene")


def test_bound_cpus_are_there_at_the_first_line(seen: Any) -> None:
    """Those that koord-scheduler chose, one of all."""
    assert len(CPUSet.parse(seen["chosen"])) == 1
    assert seen["bound"]["cpuset.cpus"] == seen["chosen"]
    assert seen["bound"]["cpu.cfs_quota_us"] == "-1"
    assert seen["bound pod quota"] == "-1"
    assert seen["bound says"][0].split() == ["Cpus_allowed_list:", seen["chosen"]]


def test_the_oom_score_is_that_of_the_annotation(seen: Any) -> None:
    assert seen["bound says"][1] == "300"
    assert seen["batch says"][1] == "1000"


def test_batch_limits_are_there_before_it_starts(seen: Any) -> None:
    limits = {
        "cpu.shares": "512", "cpu.cfs_quota_us": "50000", "memory.limit_in_bytes": "33554432",
    }  # fmt: skip
    assert seen["batch pod"] == limits
    assert {name: seen["batch"][name] for name in limits} == limits


def test_sockets_have_their_class_of_the_link_from_the_first_instruction_on(seen: Any) -> None:
    """What a container reads of its own `net_cls.classid`: 1:3 of services, 1:4 of batch."""
    if not seen["sockets have classes"]:
        pytest.skip("this kernel has no net_cls")
    assert [int(seen[f"{name} says"][3]) for name in ("bound", "batch")] == [0x1_0003, 0x1_0004]
    classes = seen["classes of the link"]
    assert (classes["1:3"], classes["1:4"]) == ("400Mbit", "40Mbit")


def test_an_update_keeps_what_hooks_want(seen: Any) -> None:
    assert seen["batch updated"] == seen["batch"]


def test_the_executor_states_the_same_values(seen: Any) -> None:
    for name in ("bound", "batch"):
        stated = {k: v for k, v in seen[f"{name} stated"].items() if k in seen[name]}
        assert stated
        assert stated == {key: seen[name][key] for key in stated}
        assert seen[f"{name} then"] == seen[name]
    assert seen["bound stated"]["oom_score_adj"] == "300"


def test_a_koordlet_that_comes_back_mends_what_drifted(seen: Any) -> None:
    assert seen["drifted"][0]["cpuset.cpus"] != seen["chosen"]
    assert seen["drifted"][1]["cpu.shares"] == "777"
    assert seen["drifted"][1]["cpu.cfs_quota_us"] == "20000"
    assert seen["mended"] == [seen["bound then"], seen["batch then"]]
    assert seen["started after"] == seen["started"]
    assert all(seen["started"])


def test_a_container_starts_beneath_a_pod_with_a_lower_quota(seen: Any) -> None:
    assert seen["low"]["cpu.cfs_quota_us"] == "20000"


def test_a_runtime_that_is_restarted_is_served_again(seen: Any) -> None:
    assert seen["again"] == seen["batch"]


def test_every_call_was_answered(seen: Any) -> None:
    calls = {each["method"]: each for each in seen["calls"]}
    assert {
        "Configure",
        "Synchronize",
        "RunPodSandbox",
        "CreateContainer",
        "UpdateContainer",
    } <= set(calls)
    assert all(each["failures"] == 0 for each in calls.values())
    assert seen["said"] == []


def test_a_container_has_the_devices_and_mounts_that_it_is_given() -> None:
    found = figures("tests.node.device_scene")
    # In hexadecimal, and the mode.
    assert found["says"] == ["1:3 666", "written", "of the host"]
    assert all(each["failures"] == 0 for each in found["calls"])
