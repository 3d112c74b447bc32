# SPDX-License-Identifier: Apache-2.0
"""One self-contained HTML page about a set of runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from koord.simulator.openb.replay import RunResult

SHOWN_BINS = (50, 80, 90, 100, 110, 120, 130)


def write_report(runs: Sequence[RunResult], directory: Path) -> Path:
    """Writes ``report.html`` into the directory, which is made if need be, and returns its path.

    Raises:
        OSError: the directory or the file cannot be written.
    """
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "report.html"
    head = "".join(f"<th>{cell} %</th>" for cell in SHOWN_BINS)
    body = "\n".join(_row(run) for run in runs)
    path.write_text(
        "<!doctype html><meta charset=utf-8><title>openb replay</title>\n"
        "<h1>Allocated GPUs in percent, by arrived requests</h1>\n"
        f"<table><tr><th>policy</th><th>workload</th>{head}</tr>\n{body}\n</table>\n",
        encoding="utf-8",
    )
    return path


def _row(run: RunResult) -> str:
    workload = run.workload.order or f"seed {run.workload.seed}"
    allocated = run.gpu_allocated_percent
    cells = "".join(f"<td>{allocated[cell]}</td>" for cell in SHOWN_BINS)
    return f"<tr><td>{escape(run.policy)}</td><td>{escape(workload)}</td>{cells}</tr>"
