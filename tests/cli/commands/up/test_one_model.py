# SPDX-License-Identifier: Apache-2.0
"""The live day beside the same day in the simulator: what batch gets, and who is evicted."""

from __future__ import annotations

import csv
import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from koord.simulator.live import initial_config, workload
from tests.cli.conftest import Run

NODES, HOURS, SEED, START_HOUR = 2, 1, 0, 6
# Its noise is three waves that go a third each: the deviation of their sum.
_DEVIATION = 6**-0.5


def _services() -> list[dict[str, Any]]:
    total = sum(each.per_node * each.cpu for each in workload.SERVICES)
    return [
        {
            "name": each.name,
            "qos": "LS",
            "shareOfRequestedCPU": each.per_node * each.cpu / total,
            "request": {"cpu": each.cpu, "memory": f"{each.memory_gi}Gi"},
            "limit": {"cpu": 32, "memory": f"{each.memory_gi}Gi"},
            "cpuDemand": {
                "mean": each.usage["cpu"],
                # The simulator's day begins at midnight.
                "diurnal": {
                    "amplitude": each.usage["amplitude"],
                    "peakHour": (each.usage["peakHour"] - START_HOUR) % 24,
                },
                "noise": {"sigma": each.usage["noise"] * _DEVIATION, "correlation": "2m"},
            },
            "memoryDemand": {"mean": 0.6},
        }
        for each in workload.SERVICES
    ]


def _batch(folder: Path) -> list[dict[str, Any]]:
    """The very jobs of the live day."""
    come = itertools.takewhile(
        lambda each: each.seconds < 3600 * HOURS, workload.arrivals(SEED, NODES)
    )
    rows = [(each.kind.name, (each.seconds, each.tasks, each.duration_seconds)) for each in come]
    for kind in workload.BATCH:
        with (folder / f"{kind.name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(("seconds", "tasks", "duration_seconds"))
            writer.writerows(row for name, row in rows if name == kind.name)
    return [
        {
            "name": kind.name,
            "request": {"cpu": kind.cpu, "memory": f"{kind.memory_gi}Gi"},
            "arrivalsFile": f"{kind.name}.csv",
            "cpuUse": {"mean": 0.9, "sigma": 0.02},
            "memoryUse": {"mean": 0.7},
        }
        for kind in workload.BATCH
    ]


def _simulated(koord: Run, folder: Path) -> dict[str, Any]:
    requested = sum(each.per_node * each.cpu for each in workload.SERVICES) / 32
    scenario = {
        "apiVersion": "simulator.koord/v1",
        "kind": "Scenario",
        "metadata": {"name": "live"},
        "hours": HOURS,
        "step": "10s",
        "nodes": [{"count": NODES, "cpu": 32, "memory": "128Gi"}],
        "services": _services(),
        "servicesRequestShareOfClusterCPU": requested,
        "batch": _batch(folder),
        "agents": {"featureGates": initial_config.pools(NODES).agents.feature_gates},
        "contention": {"schedulingDelay": {"freeCPUsBelow": 0.05, "lossAtZero": 0.2}},
        "report": {"short": {"grantedBelow": 0.95, "window": "60s"}},
    }
    (folder / "day.yaml").write_text(json.dumps(scenario))
    (folder / "settings.yaml").write_text(json.dumps(initial_config.config_map()))
    status, out, err = koord(
        "simulate", "colocation", "--scenario", folder / "day.yaml",
        "--settings", folder / "settings.yaml", "-o", "json",
    )  # fmt: skip
    assert status == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_both_days_have_the_same_outcome(koord: Run, tmp_path: Path) -> None:
    """A day that an operator would have: hardly a task is evicted in either."""
    status, out, err = koord(
        "up", "--colocation", "--nodes", NODES, "--hours", HOURS, "--speed", 0,
        "--seed", SEED, "-o", "json", "--report", tmp_path,
    )  # fmt: skip
    assert status == 0, err
    live, simulated = json.loads(out), _simulated(koord, tmp_path)
    used = live["cpu_utilisation_percent"]["with_batch"]
    assert used == pytest.approx(simulated["cpu_utilisation_percent"]["with"], rel=0.06)
    assert live["batch_core_hours"] == pytest.approx(simulated["batch_core_hours"], rel=0.15)
    tasks = live["batch_tasks"]["submitted"]
    assert tasks > 15 * NODES
    assert sum(live["evictions"].values()) <= 0.03 * tasks
    assert simulated["evictions"] <= 0.03 * tasks
    assert live["short_service_pod_minutes"] == 0
    assert simulated["latency_sensitive_short_pod_minutes_percent"]["with"] == 0
