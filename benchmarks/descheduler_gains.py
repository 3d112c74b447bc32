# SPDX-License-Identifier: Apache-2.0
"""What a descheduler gains over a day in virtual time, a line a run: for long series of seeds.

The figures are those of ``koord simulate colocation --descheduler``, which shows means.

``python -m benchmarks.descheduler_gains --scenario examples/scenarios/wandering-hot-spot.yaml
--seeds 1-3``
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from koord.cli.commands.simulate.descheduling import NODES, STEP, parse_rounds
from koord.cli.options.values import parse_seeds
from koord.simulator.colocation.descheduling import summary
from koord.simulator.colocation.descheduling.comparison import descheduled_day
from koord.simulator.colocation.inputs import scenario_file

if TYPE_CHECKING:
    from koord.simulator.colocation.descheduling.comparison import DeschedulingResult


def main() -> None:
    """A line a run as soon as it is done, then means."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--scenario", type=Path)
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--seeds", default="1-10")
    parser.add_argument("--rounds")
    given = parser.parse_args()
    day = scenario_file.shipped() if given.scenario is None else scenario_file.load(given.scenario)
    day = scenario_file.varied(day, nodes=given.nodes, hours=given.hours, step=STEP)
    print("seed ", *(f"{head:>10}" for head in summary.HEADS), "CPU seconds", flush=True)
    results = []
    for seed in parse_seeds(given.seeds, "--seeds"):
        for mode in parse_rounds(given.rounds):
            results.append(descheduled_day(day, seed, mode))
            _show(str(seed), results[-1:], results[-1].seconds)
    _show("mean", results, sum(each.seconds for each in results))


def _show(name: str, results: list[DeschedulingResult], seconds: float) -> None:
    for row in summary.rows(summary.means(results)):
        print(f"{name:<5}", *(f"{cell:>10}" for cell in row), f"{seconds:11.1f}", flush=True)


if __name__ == "__main__":
    main()
