# SPDX-License-Identifier: Apache-2.0
"""What a descheduler gains over a day in virtual time: nobody, one by one, planned.

``python -m benchmarks.descheduler_gains --scenario examples/scenarios/wandering-hot-spot.yaml
--hours 11 --seeds 1-3``
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from koord.cli.options.values import parse_seeds
from koord.simulator.colocation.descheduling.comparison import descheduled_day
from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode
from koord.simulator.colocation.inputs import scenario_file

HEAD = "who moves    seed  >65 %  >80 %  moves undone held  short    CPU  CPU s"


def main() -> None:
    """A line a run, then means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenario", type=Path)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--seeds", default="1-10")
    parser.add_argument("--modes", default="none,one by one,planned")
    given = parser.parse_args()
    day = scenario_file.shipped() if given.scenario is None else scenario_file.load(given.scenario)
    day = scenario_file.varied(day, nodes=given.nodes, hours=given.hours, step="60s")
    print(HEAD, flush=True)
    for mode in map(DeschedulingMode, given.modes.split(",")):
        rows = []
        for seed in parse_seeds(given.seeds, "--seeds"):
            began = time.process_time()
            found = descheduled_day(day, seed, mode)
            row = (*found.hot_percent, *found[1:], time.process_time() - began)
            rows.append(row)
            _show(mode, str(seed), row)
        _show(mode, "mean", tuple(np.mean(rows, axis=0)))


def _show(mode: DeschedulingMode, seed: str, row: tuple[float, ...]) -> None:
    hot, very, moves, undone, held, short, cpu, seconds = row
    print(f"{mode:<12} {seed:>4} {hot:6.2f} {very:6.2f} {moves:6.1f} {undone:6.1f} {held:5.0f}"
          f" {short:6.3f} {cpu:6.2f} {seconds:6.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
