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
from tests.scenes.place import Place

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


def check_tools() -> None:
    """Skips with the reason where something is not there."""
    lacking = [tool for tool in _TOOLS if not shutil.which(tool)]
    if os.geteuid() != 0 or lacking:
        pytest.skip(f"needs root and {', '.join(lacking) or 'nothing else'}")


def play(story: str) -> dict[str, Any]:
    """What a story saw; skips with the reason where it cannot be played."""
    check_tools()
    words = ["unshare", "--net", "--mount", sys.executable, "-m", "tests.scenes.network_scene"]
    done = subprocess.run([*words, story], capture_output=True, text=True, check=False, timeout=120)
    for missing in ("mount -t cgroup", "no cgroup v2"):
        if done.returncode != 0 and missing in done.stderr:
            pytest.skip(f"no such cgroups here: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


_WHOLE = """
import json, sys
from tests.scenes.place import find_hierarchies
print(json.dumps(find_hierarchies().run("network", added=sys.argv[1:])))
"""


def play_whole(*added: str) -> dict[str, Any]:
    """The experiment of this name in a network of its own; skips with the reason."""
    check_tools()
    inside = ["sh", "-c", 'ip link set lo up && exec "$@"', "sh", sys.executable, "-c", _WHOLE]
    words = ["unshare", "--net", *inside, *added]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def belonged(rates: dict[str, float], limit: float, *names: str) -> None:
    """The traffic was in a class and those above it, and not above its ceiling."""
    busiest = sorted(rates, key=rates.__getitem__, reverse=True)
    assert {*names} <= {*busiest[: len(names) + 1]}, rates
    assert rates[names[0]] < 1.1 * limit, rates


def carried(rates: dict[str, float], limit: float, *names: str) -> None:
    """The same, and its ceiling was what held it.

    That only roughly: other work of the machine sends less.
    """
    belonged(rates, limit, *names)
    assert limit / 4 < rates[names[0]], rates


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


def test_tables_of_many_sizes_are_in_the_kernel_as_they_were_made() -> None:
    assert play("tables") == {"wrong": [], "left": False}


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
    assert (seen["remaining"], seen["after"]) == ([], "0\n")
    carried(seen["be"], BE_LIMIT, "1:4", "1:fff4", "1:1")


def test_sockets_of_the_nodes_network_by_their_cgroup() -> None:
    seen = play("sockets_v2")
    assert seen["failures"] == []
    carried(seen["be"], BE_LIMIT, "1:4", "1:fff4", "1:1")


def test_the_capability_that_the_chart_adds_for_the_gate_is_needed_and_enough() -> None:
    seen = play("confined")
    assert seen["with"] == f"[] {sorted(BUILT)}"
    assert "not permitted" in seen["without"]


def test_the_whole_agent_from_nodeslo_to_tc_and_back(v1: Place) -> None:
    seen = play_whole("NET_ADMIN")
    assert seen["classes"] == BUILT
    assert seen["addresses"] == {"0a000102": 0x10004}
    # It stays while the agent is killed; what others remove meanwhile comes back.
    assert (seen["killed"], seen["troubles"]) == (True, [])
    assert (seen["stopped"], seen["table"]) == ("noqueue 0:", False)


def test_an_agent_that_may_not_says_so(v1: Place) -> None:
    seen = play_whole()
    assert seen["root"] == "noqueue 0:"
    (why,) = (line for line in seen["troubles"] if "network.classes" in line)
    assert "not permitted" in why
