# SPDX-License-Identifier: Apache-2.0
"""What the cluster is told before the day begins: machines, and slo-controller-config."""

from __future__ import annotations

import json
from typing import Any

from koord.api.sloconfig import sections
from koord.simulator.nodes.pools import AgentSpec, NodePool, NodePools

START_SECONDS = 1_767_592_800.0
"""2026-01-05 06:00 UTC, a Monday: services are about to wake."""
DEFAULT_NODES = 20

SETTINGS: dict[str, dict[str, Any]] = {
    sections.COLOCATION: {"enable": True},
    sections.THRESHOLD: {
        "clusterStrategy": {
            "enable": True,
            "cpuEvictBESatisfactionLowerPercent": 60,
            "cpuEvictBESatisfactionUpperPercent": 80,
            "memoryEvictThresholdPercent": 70,
        }
    },
}
"""Sections of slo-controller-config: what is offered to batch, when it is held down and evicted.

What they do not name is at its default: offered is what services leave of 60 % of the CPU, batch is
held down above 65 %. Without the margin between the two every rise of a service costs tasks.
"""


def pools(count: int) -> NodePools:
    """Machines of 32 CPUs and 128Gi whose agents may evict, which koordlet's defaults leave off.

    Args:
        count: how many.
    """
    gates = {"BECPUEvict": True, "BEMemoryEvict": True}
    return NodePools([NodePool(name="node", count=count)], agents=AgentSpec(gates))


def config_map() -> dict[str, Any]:
    """slo-controller-config with :data:`SETTINGS`, as a document."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": sections.CONFIG_MAP_NAME,
            "namespace": sections.CONFIG_MAP_NAMESPACE,
        },
        "data": {name: json.dumps(section) for name, section in SETTINGS.items()},
    }
