# SPDX-License-Identifier: Apache-2.0
"""More tries in CI for what a busy machine may keep from the processor for seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ci import IN_CI

_HERE = Path(__file__).resolve().parent
# Real processes and servers, and ratios of times. Everything else has to pass the first time.
RACES_THE_CLOCK = (
    "../benchmarks", "agent/e2e", "agent/states", "agent/strategies/test_evict_cgroup.py", "cli",
    "contract", "controllers/manager/e2e", "controllers/manager/test_serving.py",
    "controllers/manager/test_sweep.py", "controllers/scheduler/e2e",
    "controllers/scheduler/plugins/reservation/test_on_a_cluster.py",
    "controllers/scheduler/test_mishaps.py", "controllers/scheduler/test_on_a_cluster.py",
    "controllers/scheduler/test_serving.py", "controlplane", "embedded", "kube", "loop", "scenes",
    "simulator/live", "vm",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In CI, what races the clock may try again."""
    if not IN_CI:
        return
    places = [(_HERE / name).resolve() for name in RACES_THE_CLOCK]
    for item in items:
        if any(item.path.is_relative_to(place) for place in places):
            item.add_marker(pytest.mark.flaky(reruns=2, reruns_delay=5))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Says of each try that failed why it did."""
    for report in terminalreporter.stats.get("rerun", []):
        told = report.longreprtext.splitlines()
        why = [line for line in told if line.startswith("E ")][:20]
        terminalreporter.write_line(f"tried again: {report.nodeid} ({report.when})")
        terminalreporter.write_line("\n".join(why or told[-10:]))
