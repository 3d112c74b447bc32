# SPDX-License-Identifier: Apache-2.0
"""Traffic classes on a real kernel: networks of the test's own, real packets, tc(8) as witness."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

from tests.scenes.network_scene import BE_LIMIT, OWN_LIMIT, TOTAL

_TOOLS = ("unshare", "nsenter", "mount", "ip", "tc", "iptables")
BUILT = {
    "1:1": f"root rate {TOTAL // 10**6}Mbit ceil 400Mbit",
    "1:fff2": "parent 1:1 rate 220Mbit ceil 400Mbit",
    "1:fff3": "parent 1:1 rate 160Mbit ceil 400Mbit",
    "1:fff4": "parent 1:1 rate 20Mbit ceil 40Mbit",
    "1:2": "parent 1:fff2 prio 1 rate 220Mbit ceil 400Mbit",
    "1:3": "parent 1:fff3 prio 2 rate 160Mbit ceil 400Mbit",
    "1:4": "parent 1:fff4 prio 3 rate 20Mbit ceil 40Mbit",
}
OWN = "parent 1:fff4 prio 3 rate 8Kbit ceil 8Mbit"


def play(story: str) -> dict[str, Any]:
    """What a story saw; skips with the reason where it cannot be played."""
    lacking = [tool for tool in _TOOLS if not shutil.which(tool)]
    if os.geteuid() != 0 or lacking:
        pytest.skip(f"needs root and {', '.join(lacking) or 'nothing else'}")
    words = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.scenes.network_scene"]
    done = subprocess.run([*words, story], capture_output=True, text=True, check=False, timeout=120)
    for missing in ("mount -t cgroup", "no cgroup v2"):
        if done.returncode != 0 and missing in done.stderr:
            pytest.skip(f"no such cgroups here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def carried(rates: dict[str, float], limit: float, *names: str) -> None:
    """The traffic was in a class and those above it, and was held by its ceiling.

    From below only roughly: other work of the machine sends less.
    """
    busiest = sorted(rates, key=rates.__getitem__, reverse=True)
    assert {names[0], *names[1:]} <= {*busiest[: len(names) + 1]}, rates
    assert limit / 4 < rates[names[0]] < 1.1 * limit, rates


def test_classes_hold_real_traffic_and_are_gone_at_the_end() -> None:
    seen = play("pods")
    found = dict(seen["classes"])
    (own,) = found.keys() - BUILT.keys()
    assert found == {**BUILT, own: OWN}
    assert (seen["before"], seen["during"], seen["failures"]) == ("noqueue 0:", "htb 1:", [])
    # All of it is masqueraded on its way out.
    carried(seen["be"], BE_LIMIT, "1:4", "1:fff4", "1:1")
    carried(seen["ls"], TOTAL, "1:3", "1:fff3", "1:1")
    carried(seen["node"], TOTAL, "1:2", "1:fff2", "1:1")
    assert seen["ls"]["1:3"] > 2 * seen["be"]["1:4"]
    assert 0 < seen["own"][own] < 1.1 * OWN_LIMIT
    # Nothing is done where nothing changed; what others removed comes back.
    assert seen["idle"] == []
    assert (seen["mended"], seen["table"], seen["left"]) == (True, True, [own])
    # The default route went elsewhere, and with it the classes; another process ends it.
    assert (seen["old"], seen["new"]) == ("noqueue 0:", "htb 1:")
    assert (seen["remaining"], seen["after"], seen["gone"]) == ([], "noqueue 0:", True)


def test_anothers_qdisc_stays_and_the_originals_is_taken_over() -> None:
    seen = play("others")
    (why,) = seen["failures"]
    assert "root qdisc tbf 8001: of uplink is another's" in why
    assert (seen["tbf"], seen["still"], seen["table"]) == ("tbf 8001:", "tbf 8001:", True)
    assert (seen["taken"], seen["none"]) == (sorted(BUILT), [])
    assert seen["after"] == "noqueue 0:"


def test_sockets_of_the_nodes_network_by_net_cls() -> None:
    seen = play("sockets_v1")
    assert seen["classid"] == f"{0x10004}\n"
    carried(seen["be"], BE_LIMIT, "1:4", "1:fff4", "1:1")


def test_sockets_of_the_nodes_network_by_their_cgroup() -> None:
    seen = play("sockets_v2")
    assert seen["failures"] == []
    carried(seen["be"], BE_LIMIT, "1:4", "1:fff4", "1:1")


def test_the_capability_that_the_chart_adds_for_the_gate_is_needed_and_enough() -> None:
    seen = play("confined")
    assert seen["with"] == f"[] {sorted(BUILT)}"
    assert "not permitted" in seen["without"]
