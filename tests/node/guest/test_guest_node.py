# SPDX-License-Identifier: Apache-2.0
"""Hooks on a real containerd through NRI, on cgroup v2: `make test-node`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.guest.figures import figures

pytestmark = pytest.mark.node


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return figures("tests.node.guest.scene", tmp_path_factory.mktemp("guest"))


def test_bound_cpus_are_there_at_the_first_line(seen: Any) -> None:
    """One of sixteen."""
    assert seen["bound says"][0].split() == ["Cpus_allowed_list:", seen["chosen"]]
    assert seen["bound"]["cpuset.cpus"] == seen["chosen"]
    assert seen["bound"]["cpu.cfs_quota_us"] == "max 100000"
    assert seen["bound pod quota"] == "max 100000"


def test_the_oom_score_is_that_of_the_annotation(seen: Any) -> None:
    assert seen["bound says"][1] == "300"
    assert seen["batch says"][1] == "1000"


def test_batch_limits_are_there_before_it_starts(seen: Any) -> None:
    """Of 512 shares: 1 + 510 * 9999 / 262142."""
    limits = {
        "cpu.shares": "20", "cpu.cfs_quota_us": "50000 100000",
        "memory.limit_in_bytes": "33554432",
    }  # fmt: skip
    assert seen["batch pod"] == limits
    assert {name: seen["batch"][name] for name in limits} == limits


def test_an_update_keeps_what_hooks_want(seen: Any) -> None:
    assert seen["batch updated"] == seen["batch"]


def test_the_executor_states_the_same_values(seen: Any) -> None:
    """It states in v1's terms."""
    stated = seen["batch stated"]
    assert (stated["cpu.shares"], stated["cpu.cfs_quota_us"]) == ("512", "50000")
    assert seen["bound stated"]["oom_score_adj"] == "300"
    for name in ("bound", "batch"):
        assert seen[f"{name} then"] == seen[name]


def test_a_koordlet_that_comes_back_mends_what_drifted(seen: Any) -> None:
    assert seen["drifted"][0]["cpuset.cpus"] != seen["chosen"]
    # Of 777 shares.
    assert seen["drifted"][1]["cpu.shares"] == "30"
    assert seen["drifted"][1]["cpu.cfs_quota_us"] == "20000 100000"
    assert seen["mended"] == [seen["bound then"], seen["batch then"]]
    assert seen["started after"] == seen["started"]
    assert all(seen["started"])


def test_a_runtime_that_is_restarted_is_served_again(seen: Any) -> None:
    assert seen["again"] == seen["batch"]


def test_every_call_was_answered(seen: Any) -> None:
    assert all(each["failures"] == 0 for each in seen["calls"])
    assert seen["said"] == []
