# SPDX-License-Identifier: Apache-2.0
"""Hooks on a real containerd through koord-runtime-proxy, and all that is none of its business."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.figures import figures

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def seen() -> Any:
    return figures("tests.node.proxy_scene")


def test_the_runtime_answers_through_the_proxy(seen: Any) -> None:
    assert seen["runtime"] == seen["direct"]
    assert seen["runtime"].startswith("containerd ")


def test_bound_cpus_are_there_at_the_first_line(seen: Any) -> None:
    assert seen["bound says"] == ["Cpus_allowed_list:\t1", "300", "hook=yes"]
    assert (seen["bound"]["cpuset.cpus"], seen["bound"]["cpu.cfs_quota_us"]) == ("1", "-1")


def test_batch_limits_are_there_before_it_starts_and_after_an_update(seen: Any) -> None:
    limits = {
        "cpu.shares": "512", "cpu.cfs_quota_us": "50000", "memory.limit_in_bytes": "33554432",
    }  # fmt: skip
    assert {name: seen["batch"][name] for name in limits} == limits
    assert seen["batch updated"] == seen["batch"]


def test_each_stage_is_called_once(seen: Any) -> None:
    assert seen["stages"] == [
        "PreRunPodSandbox", "PreCreateContainer", "PreStartContainer", "PostStartContainer",
        "PostStopContainer", "PostStopPodSandbox",
    ]  # fmt: skip


def test_a_hook_cannot_ask_for_a_quota_that_runc_fails_of(seen: Any) -> None:
    """The same quota, asked for without the proxy, starts nothing."""
    assert seen["low"]["cpu.cfs_quota_us"] == "20000"
    assert "cpu.cfs_quota_us: invalid argument" in seen["without the proxy"]


def test_exec_attach_logs_and_ports_go_through(seen: Any) -> None:
    assert seen["exec sync"] == ["hello\n", 0]
    assert seen["exec"] == "1 hello\n"
    assert seen["attach"] == "1 tick\n"
    assert seen["logs"] == seen["rotated"] == "tick"
    assert seen["port"] == "over the port"


def test_events_stream_through(seen: Any) -> None:
    """Two of the sandbox and two of the container: created and started."""
    assert seen["events"] == [0, 1, 0, 1]


def test_images_are_listed_and_pulled(seen: Any) -> None:
    assert seen["images"] == ["example.test/busybox:1", "example.test/pause:1"]
    assert seen["image"].startswith("sha256:")
    assert seen["pulled"].startswith("sha256:")
    assert seen["pulled image"].startswith("sha256:")
    through, direct = seen["missing"]
    assert through == direct
    assert through.startswith("NOT_FOUND: ")


def test_a_proxy_that_was_killed_knows_its_pods(seen: Any) -> None:
    pod = {"uid": "uid-killed", "container": "main", "parent": "/kubepods/besteffort/podkilled"}
    expected = {"stage": "PreStartContainer", "shares": 77, "runs": True}
    assert seen["killed"] == pod | expected
    # Without a file: from the runtime, with what the kubelet asks for now.
    assert seen["listed"] == pod | {"shares": 88}


def test_a_hook_server_that_fails_holds_up_nothing(seen: Any) -> None:
    assert seen["wrong"] == {"nonsense": "2", "slow": "2", "dead": "2"}
    assert seen["answered meanwhile"] == 0


def test_with_fail_the_kubelet_hears_why(seen: Any) -> None:
    code, details = seen["refused"]
    assert code == "UNKNOWN"
    expected = (
        "hook server err: /run/hooks.sock (hooks.json): PreRunPodSandbox of pod default/refused: "
    )
    assert details.startswith(expected)


def test_nothing_is_left(seen: Any) -> None:
    assert seen["left"] == {"pods": 0, "containers": 0, "files": 0}
    assert seen["complaints"] == []
