# SPDX-License-Identifier: Apache-2.0
"""koordlet behind koord-runtime-proxy, two programs, on a real containerd with NRI off, then on."""

from __future__ import annotations

from typing import Any

import pytest

from koord.cli.commands.node import status_text
from koord.cli.terminal.output import stdout
from tests.node.figures import figures

pytestmark = pytest.mark.real

LIMITS = {"cpu.shares": "512", "cpu.cfs_quota_us": "50000", "memory.limit_in_bytes": "33554432"}
STAGES = ["PreCreateContainer", "PreRunPodSandbox", "PreUpdateContainerResources"]


@pytest.fixture(scope="module")
def seen() -> Any:
    return figures("tests.node.proxy_koordlet_scene")


def limits(cgroup: dict[str, str]) -> dict[str, str]:
    return {name: cgroup[name] for name in LIMITS}


def said(status: Any, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The first lines of what ``koord node status`` says of the runtime."""
    capsys.readouterr()
    part = status_text._runtime(status)
    assert part is not None
    stdout().print(part, soft_wrap=True)
    lines = capsys.readouterr().out.splitlines()
    return [line.rstrip() for line in lines if line.startswith(("hooks ", "hook "))]


def test_koordlet_registers(seen: Any) -> None:
    assert seen["file"]["remote-endpoint"] == "/var/run/koordlet/koordlet.sock"
    assert sorted(seen["file"]["runtime-hooks"]) == STAGES


def test_bound_cpus_are_there_at_the_first_line_and_after_an_update(seen: Any) -> None:
    assert seen["bound says"][:2] == ["Cpus_allowed_list:\t1", "300"]
    assert (seen["bound"]["cpuset.cpus"], seen["bound"]["cpu.cfs_quota_us"]) == ("1", "-1")
    assert seen["bound updated"] == seen["bound"]


def test_batch_limits_are_there_before_it_starts_and_after_an_update(seen: Any) -> None:
    assert limits(seen["batch"]) == LIMITS
    assert seen["batch updated"] == seen["batch"]


def test_a_koordlet_that_hung_and_is_back_is_called_at_once(seen: Any) -> None:
    assert seen["hung"]["cpu.shares"] == "2"
    assert sorted(seen["why"]) == ["did not answer in time a moment ago", "no answer within 1.5 s"]
    assert seen["written again"]
    assert limits(seen["back"]) == LIMITS


def test_pods_start_without_a_koordlet_that_has_ended(seen: Any) -> None:
    assert (seen["left"], seen["alone told"]) == ([], [])
    assert seen["alone"]["cpu.shares"] == "2"


def test_both_programs_say_who_serves(seen: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(seen["at first"], capsys) == [
        "hooks come by reconciler  /var/run/nri/nri.sock: no socket there",
        "hook server /var/run/koordlet/koordlet.sock  no proxy has called yet",
    ]
    koordlet, proxy = seen["served"]
    assert said(koordlet, capsys) == [
        "hooks come by hook server  no NRI: /var/run/nri/nri.sock: no socket there",
        "hook server /var/run/koordlet/koordlet.sock  serves a proxy",
    ]
    for told in (koordlet["hookServer"], proxy):
        assert {each["method"]: each["failures"] for each in told["calls"]} == dict.fromkeys(
            STAGES, 0
        )
    assert [each["lastAnswerEmpty"] for each in proxy["hookServers"]] == [False]


def test_nri_beside_the_proxy_serves(seen: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert limits(seen["by NRI"]) == LIMITS
    koordlet, proxy = seen["both"]
    first, second = said(koordlet, capsys)
    assert first.startswith("hooks come by NRI  containerd ")
    assert second == (
        "hook server /var/run/koordlet/koordlet.sock  answers change nothing: NRI serves"
    )
    assert {each["method"] for each in koordlet["hookServer"]["calls"]} == set(STAGES[:2])
    assert [each["lastAnswerEmpty"] for each in proxy["hookServers"]] == [True]


def test_nothing_failed_inside(seen: Any) -> None:
    assert seen["complaints"] == []
