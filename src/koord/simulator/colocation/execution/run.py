# SPDX-License-Identifier: Apache-2.0
"""One run of a scenario, and both runs of a seed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from koord.simulator.colocation.execution import paired_runs
from koord.simulator.colocation.inputs import slo_config
from koord.simulator.colocation.inputs.scenario_file import varied
from koord.simulator.colocation.results.result import ComparisonResult

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import DayResult


def simulate(
    scenario: Scenario,
    seed: int,
    beside: Path | None = None,
    *,
    processes: int = 1,
    progress: Callable[[int], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> ComparisonResult:
    """Both runs of a seed.

    Args:
        scenario: what to run.
        seed: of all that is random.
        beside: the folder of arrivals files; see
        :func:`koord.simulator.colocation.workload.batch_arrivals.arrivals`.
        processes: with 2 the runs go side by side.
        progress: called with the steps done since its last call; both runs together make twice
            ``scenario.steps``.
        stopped: asked before each step; where it says so the outcome is that of the last minute
            that both runs kept, and its scenario has only the hours until then.

    Raises:
        KoordError: settings or arrivals that cannot be.
        StoppedError: stopped before anything was kept.
    """
    start = time.perf_counter()
    document = slo_config.of(scenario).as_document()
    both = (paired_runs.side_by_side if processes > 1 else paired_runs.in_turn)(
        scenario, seed, beside, progress, stopped
    )
    ran = scenario
    if both.minutes < scenario.minutes:
        ran = varied(scenario, hours=both.minutes / 60)
    seconds = time.perf_counter() - start
    return ComparisonResult(ran, seed, both.without, both.with_, document, seconds, scenario.hours)


def run(
    scenario: Scenario,
    seed: int,
    beside: Path | None = None,
    *,
    colocated: bool,
    progress: Callable[[int], None] = lambda _: None,
) -> DayResult:
    """One run; see :func:`simulate`."""
    side = paired_runs.RunSide(scenario, seed, beside, colocated=colocated)
    try:
        while steps := side.minute():
            progress(steps)
        return side.results()
    finally:
        side.close()
