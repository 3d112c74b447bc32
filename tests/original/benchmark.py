# SPDX-License-Identifier: Apache-2.0
"""The original's scheduler benchmark, against a cluster that runs already.

Its 100 nodes are kwok's, which it expects to run in the cluster.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.hostile.places import Place
from tests.original.source import Source
from tests.real.binaries import find

_SCENARIO = "test/perf/configs/scenarios/basic-1k.yaml"
LIMIT_SECONDS = 900
# It gives up where the API server ends its watch, as a real one does with slow readers.
TRIES = 3


def run(source: Source, place: Place) -> dict[str, Any]:
    """Runs the scenario ``basic``: 1,000 pods on 100 nodes of its own.

    Returns:
        What it reports; ``{"error": TEXT}`` where it failed.
    """
    place.start(
        "kwok",
        f"--kubeconfig={place.kubeconfig}",
        f"--config={find('kwok-stages.yaml')}",
        "--manage-all-nodes=false",
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake",
        program=find("kwok"),
    )
    for _ in range(TRIES):
        report = _measured(source, place)
        if "watch channel closed" not in str(report.get("error")):
            break
    return report


def _measured(source: Source, place: Place) -> dict[str, Any]:
    output = place.folder / "benchmark.json"
    output.unlink(missing_ok=True)
    call = [
        str(source.program("benchmark")), "--config", str(source.folder / _SCENARIO),
        "--output", str(output), "--kubeconfig", str(place.kubeconfig),
    ]  # fmt: skip
    try:
        ran = subprocess.run(
            call, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {LIMIT_SECONDS} s"}
    Path(place.folder / "benchmark.log").write_text(ran.stdout + ran.stderr, encoding="utf-8")
    if ran.returncode or not output.is_file():
        return {"error": " ".join((ran.stdout + ran.stderr).strip().splitlines()[-2:])}
    report: dict[str, Any] = json.loads(output.read_text(encoding="utf-8"))
    return report
