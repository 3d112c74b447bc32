# SPDX-License-Identifier: Apache-2.0
"""More tries in CI for what a busy machine may keep from the processor for seconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ci import IN_CI

_HERE = Path(__file__).resolve().parent
# Folders and files whose tests may try again, each with its reason. Everything else has to pass the
# first time; one that fails often is a defect of the test.
RACES_THE_CLOCK = {
    "../benchmarks": "ratios of times, beside whatever else the machine runs",
    "agent/e2e": "koordlet as a process, beside a kubelet and an API server of the test",
    "agent/states/test_states.py": "polls of a kubelet over real connections, with time limits",
    "cli": "programs that start, are interrupted and end within seconds",
    "contract": "both servers as processes; watches and controllers that are waited for",
    "controllers/manager/e2e": "koord-manager as a process on a control plane",
    "controllers/manager/node_objects/test_sweep.py": "a sweep that has to come by itself",
    "controllers/scheduler/e2e": "koord-scheduler as a process on a control plane",
    "controllers/scheduler/cycles/test_api_failures.py": "retries with real delays",
    "controllers/scheduler/test_on_a_cluster.py": "a scheduler in real time",
    "controlplane": "controllers in real time, connections with time limits",
    "hostile/test_koordlet.py": "koordlet as a process, beside processes that burn the same CPUs",
    "hostile/test_scheduler_attempts.py": "leases of seconds, renewed beside a busy interpreter",
    "kube": "connections, leases and watches with time limits",
    "loop": "scheduler, manager and agent together in real time",
    "real": "kube-apiserver, etcd and kube-controller-manager as processes",
    "scenes": "shares of a processor that others use too",
    "vm": "a guest under emulation",
}


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
