# SPDX-License-Identifier: Apache-2.0
"""What hooks cost a container's start by NRI: ``python -m tests.node.start_cost_scene ORDER``.

Three containerds make a container each in turn, beside the same koordlet: one that it is a plugin
of, one without a plugin, as containerd 2 comes, and one in which NRI is off.
"""

from __future__ import annotations

import time
from typing import Any

from tests.node.cri import CriClient
from tests.node.inside import write_figures
from tests.node.machine import RealNode
from tests.node.scene import Pods, read
from tests.node.start_times import Way, compared, in_turn

WITHOUT_NRI, WITHOUT_PLUGIN, KOORDLET = "NRI off", "NRI, no plugin", "NRI, koordlet"
_COMMAND = ["/bin/sleep", "100000"]
_WARM = 3
# What the kubelet asks for a batch pod, and what hooks make of it: with both alike, containers that
# are measured differ in nothing but who said so.
_ASKED: dict[str, Any] = {"cpu_shares": 2, "oom_score_adj": 1000}
_ALIKE: dict[str, Any] = {
    "cpu_shares": 512, "cpu_quota": 50_000, "cpu_period": 100_000,
    "memory_limit_in_bytes": 32 << 20, "oom_score_adj": 1000,
}  # fmt: skip


def run(node: RealNode, order: dict[str, Any]) -> dict[str, Any]:
    """Times, what koordlet spent, and that its hooks served the one and not the other."""
    others = {
        WITHOUT_PLUGIN: node.start_another_containerd("unplugged", nri=True),
        WITHOUT_NRI: node.start_another_containerd("plain", nri=False),
    }
    node.begin_koordlet("--feature-gates", "OOMScoreAdj=true", "-v", "2")
    node.wait_synchronized()
    pods = Pods(node)
    clients = {**others, KOORDLET: node.cri}
    ways = {
        name: _way(client, pods, number) for number, (name, client) in enumerate(clients.items())
    }
    found: dict[str, Any] = {"shares": {name: _shares(node, way) for name, way in ways.items()}}
    in_turn(ways, _WARM, _COMMAND, **_ALIKE)
    before, calls = _cpu(node), _calls(node)
    began = time.monotonic()
    taken = in_turn(ways, order["starts"], _COMMAND, **_ALIKE)
    after, seconds = _cpu(node), time.monotonic() - began
    # With what ends a container; koordlet's with all that it does otherwise in this time.
    found["CPU ms a container"] = {
        name: round(1000 * (after[name] - before[name]) / order["starts"], 2) for name in before
    }
    time.sleep(seconds)
    idle = _cpu(node)["koordlet"] - after["koordlet"]
    found["CPU ms a container"]["koordlet, in as long a time without any"] = round(
        1000 * idle / order["starts"], 2
    )
    found["calls"] = {name: count - calls[name] for name, count in _calls(node).items()}
    found["milliseconds"] = compared(taken, WITHOUT_PLUGIN)
    found["last calls"] = node.status()["runtime"]["calls"]
    return found


def _way(client: CriClient, pods: Pods, number: int) -> Way:
    pod = pods.batch(f"cost-{number}")
    return Way(client, client.run_pod(pod), pod)


def _shares(node: RealNode, way: Way) -> str:
    container = way.client.create(way.sandbox, way.pod, _COMMAND, **_ASKED)
    way.client.start(container)
    found = read(node, way.pod, container)["cpu.shares"]
    way.client.end(container)
    return found


def _cpu(node: RealNode) -> dict[str, float]:
    """Seconds, of each runtime and of koordlet."""
    programs = {
        KOORDLET: "containerd", WITHOUT_PLUGIN: "unplugged", WITHOUT_NRI: "plain",
        "koordlet": "koordlet",
    }  # fmt: skip
    return {name: node.cpu_seconds(program) for name, program in programs.items()}


def _calls(node: RealNode) -> dict[str, int]:
    return {each["method"]: each["count"] for each in node.status()["runtime"]["calls"]}


if __name__ == "__main__":
    write_figures(lambda folder, order: run(RealNode(folder), order))
