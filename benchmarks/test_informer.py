# SPDX-License-Identifier: Apache-2.0
"""Memory of an informer: a bound on the bytes a pod, and a multiple of what plain structs take."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PODS = 100_000
PLAIN_PODS = 20_000
BYTES_A_POD = 3072
TIMES_SMALLER = 4.0


def measured(*arguments: str) -> dict[str, float]:
    """A fresh process, so that its memory is the informer's alone."""
    command = [sys.executable, "-m", "benchmarks.informer_memory", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def test_an_informer_over_100_000_pods() -> None:
    ours = measured("--pods", str(PODS))
    plain = measured("--pods", str(PLAIN_PODS), "--plain")
    smaller = plain["bytes_a_pod"] / ours["bytes_a_pod"]
    print(f"informer: {ours}; plain structs: {plain}; {smaller:.1f}x smaller")
    assert ours["bytes_a_pod"] < BYTES_A_POD
    assert smaller > TIMES_SMALLER
