# SPDX-License-Identifier: Apache-2.0
"""The whole agent divides the link of a network of the test's own: from NodeSLO to tc(8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from koord.agent.host.traffic.nftables import IPV4, NfTables
from tests.scenes.daemon import Agent
from tests.scenes.network_scene import LINK, SLO, classes, root_kind, sh
from tests.scenes.runtime import pod, wait_until
from tests.scenes.world import World

_GATES = "TCNetworkQoS=true"


def run(world: World) -> Any:
    """What tc(8) shows, and what the agent says, as the NodeSLO changes and the agent ends."""
    sh(f"ip link add {LINK} type veth peer name far")
    sh("ip addr add 192.0.2.1/24 dev uplink")
    sh(f"ip link set {LINK} up")
    sh("ip link set far up")
    sh("ip route add default via 192.0.2.2")
    world.runtime.start(pod("batch", ["burn 5"], "BE", address="10.0.1.2"))
    world.put_node()
    world.put_slo(**SLO)
    agent = Agent(world, gates=_GATES, force_seconds=2)
    seen: dict[str, Any] = {}
    try:
        wait_until("classes", 20, lambda: len(classes()) > 1)
    except AssertionError:
        return {"troubles": agent.troubles(), "root": root_kind()}
    seen["classes"] = classes()
    wait_until("the pod", 20, _addresses)
    seen["addresses"] = _addresses()
    _choose(world, "terway-qos")
    wait_until("the kernel's own", 30, lambda: root_kind().startswith("noqueue"))
    _choose(world, "tc")
    wait_until("classes again", 30, lambda: len(classes()) > 1)
    agent.kill()
    seen["killed"] = classes() == seen["classes"]
    agent.start()
    sh(f"tc qdisc del dev {LINK} root")
    wait_until("mended", 30, lambda: len(classes()) == len(seen["classes"]))
    seen["troubles"] = agent.troubles()
    agent.stop()
    return seen | {"stopped": root_kind(), "table": NfTables().read() is not None}


def _choose(world: World, policy: str) -> None:
    quality: Mapping[str, Any] = SLO["resourceQOSStrategy"]
    world.put_slo(
        **SLO | {"resourceQOSStrategy": {**quality, "policies": {"netQOSPolicy": policy}}}
    )


def _addresses() -> dict[str, int]:
    table = NfTables().read()
    return {key.hex(): value for key, value in table.maps[IPV4].items()} if table else {}
