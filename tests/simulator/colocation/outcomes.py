# SPDX-License-Identifier: Apache-2.0
"""Outcomes that no simulation made: figures that are known, for tests of what reads them."""

from __future__ import annotations

import numpy as np

from koord.simulator.colocation.inputs.scenario import Scenario
from koord.simulator.colocation.inputs.scenario_file import decode
from koord.simulator.colocation.results import result
from koord.simulator.colocation.results.result import ComparisonResult, DayResult

MINUTES = 120
CORES = 64.0


def scenario() -> Scenario:
    """Two machines, one service, one kind of job."""
    document = {
        "apiVersion": "simulator.koord/v1",
        "kind": "Scenario",
        "metadata": {"name": "known <figures>"},
        "hours": MINUTES / 60,
        "nodes": [{"count": 2, "cpu": 32, "memory": "64Gi"}],
        "services": [
            {
                "name": "web",
                "qos": "LS",
                "shareOfRequestedCPU": 1.0,
                "request": {"cpu": "4", "memory": "8Gi"},
                "limit": {"cpu": "8", "memory": "16Gi"},
                "cpuDemand": {"mean": 0.3},
                "memoryDemand": {"mean": 0.5},
            }
        ],
        "servicesRequestShareOfClusterCPU": 0.9,
        "batch": [{"name": "etl", "arrivalsPerHour": 10, "request": {"cpu": "2", "memory": "4Gi"}}],
        "contention": {"schedulingDelay": {"freeCPUsBelow": 0.05, "lossAtZero": 0.2}},
    }
    return decode(document, "scenario")


def run(batch_cores: float, short: float) -> DayResult:
    """A run whose machines give batch so many cores; in every minute so many pods are short."""
    flat = np.ones(MINUTES)
    services = 20 + 5 * np.sin(np.arange(MINUTES) / 20)
    series = result.DaySeries(
        hours=np.arange(MINUTES) / 60,
        cpu_used=services + batch_cores + 1,
        cpu_services=services,
        cpu_batch=batch_cores * flat,
        cpu_system=flat,
        memory_used_bytes=2.0**36 * flat,
        batch_offered_cores=(batch_cores + 3) * flat,
        batch_requested_cores=(batch_cores + 1) * flat,
        batch_running_pods=batch_cores / 2 * flat,
        batch_waiting_pods=3 * flat,
        suppressed_machines=flat if batch_cores > 5 else 0 * flat,
        evictions=0 * flat,
        short_pods=short * flat,
    )
    short_minutes = int(short * MINUTES)
    worst = (result.PodShortage("web", 3, 1, short_minutes, 0.8),) if short_minutes else ()
    service = result.ServiceShortage("web", "LS", 14, 14 * MINUTES, short_minutes, 0.8, 0)
    classes = len(result.GRANT_EDGES) - 1
    shortage = result.Shortage(
        result.GRANT_EDGES,
        np.full(classes, short_minutes // classes),
        result.LENGTH_EDGES_MINUTES,
        np.zeros(len(result.LENGTH_EDGES_MINUTES), np.int64),
        (service,),
        worst,
    )
    share = np.full((2, MINUTES), (21 + batch_cores) / CORES, np.float32)
    machines = result.MachineMinutes(np.arange(2), share, share * 0, share * 0)
    kind = result.BatchKindResult("etl", 20, 40, 38, 30, 1, 60.0, 120.0, 1.5, batch_cores * 2, 0.0)
    return DayResult(
        series=series,
        cpu_utilisation_percent=float(series.cpu_used.mean() / CORES * 100),
        short_pod_minutes_percent=100 * short / 14,
        batch_core_hours=batch_cores * 2,
        wasted_core_hours=1.0,
        suppressions=int(series.suppressed_machines.sum()),
        evictions=1,
        shortage=shortage,
        machines=machines,
        batch=(kind,),
        node_updates=7,
        decisions=50,
        seconds=1.0,
    )


def outcome() -> ComparisonResult:
    """Co-location that adds ten cores of batch and a little shortage."""
    settings = {"colocation-config": {"enable": True}}
    return ComparisonResult(scenario(), 3, run(4.0, 0.0), run(14.0, 0.1), settings, 2.5)
