# SPDX-License-Identifier: Apache-2.0
"""Small scenarios for tests."""

from __future__ import annotations

from typing import Any

import msgspec

from koord.simulator.colocation.inputs.scenario import Scenario
from koord.simulator.colocation.inputs.scenario_file import decode

GI = 1 << 30


def document(**changes: Any) -> dict[str, Any]:
    """A scenario of four machines, as a file says it."""
    noise = {"sigma": 0.2, "correlation": "5m"}
    found: dict[str, Any] = {
        "apiVersion": "simulator.koord/v1",
        "kind": "Scenario",
        "metadata": {"name": "small"},
        "hours": 0.5,
        "nodes": [{"count": 4, "cpu": 32, "memory": "128Gi"}],
        "services": [
            {
                "name": "web",
                "qos": "LS",
                "shareOfRequestedCPU": 0.6,
                "request": {"cpu": "2", "memory": "2Gi"},
                "limit": {"cpu": "4", "memory": "4Gi"},
                "cpuDemand": {
                    "mean": 0.3,
                    "diurnal": {"amplitude": 0.5, "peakHour": 12},
                    "noise": noise,
                    "bursts": {"perHour": 2, "factor": 3, "seconds": 45},
                },
                "memoryDemand": {"mean": 0.6, "noise": {"sigma": 0.05, "correlation": "1h"}},
            },
            {
                "name": "search",
                "qos": "LSR",
                "shareOfRequestedCPU": 0.4,
                "request": {"cpu": "4", "memory": "8Gi"},
                "limit": {"cpu": "4", "memory": "8Gi"},
                "cpuDemand": {"mean": 0.4, "noise": noise},
                "memoryDemand": {"mean": 0.8},
            },
        ],
        "servicesRequestShareOfClusterCPU": 0.9,
        "batchRequestShareOfClusterCPU": 0.6,
        "batch": [
            {
                "name": "etl",
                "arrivalsPerHour": 100,
                "tasks": {"min": 1, "max": 8, "shape": 1.5},
                "request": {"cpu": "1", "memory": "1Gi"},
                "cpuUse": {"mean": 0.9, "sigma": 0.1},
                "memoryUse": {"mean": 0.7, "sigma": 0.2},
                "durationSeconds": {"median": 200, "sigma": 0.5},
            }
        ],
        "contention": {"schedulingDelay": {"freeCPUsBelow": 0.05, "lossAtZero": 0.2}},
    }
    return found | changes


def day(**changes: Any) -> Scenario:
    """The same, read."""
    return decode(document(**changes), "small")


def with_service(scenario: Scenario, at: int = 0, **changes: Any) -> Scenario:
    """A scenario one of whose services is different."""
    services = list(scenario.services)
    services[at] = msgspec.structs.replace(services[at], **changes)
    return msgspec.structs.replace(scenario, services=services)
