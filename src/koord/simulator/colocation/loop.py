# SPDX-License-Identifier: Apache-2.0
"""One run of a scenario, and both runs of a seed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from koord.simulator.colocation import lockstep, settings
from koord.simulator.colocation.result import Outcome
from koord.simulator.colocation.scenario import varied

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from koord.simulator.colocation.result import Run
    from koord.simulator.colocation.scenario import Scenario


def simulate(
    scenario: Scenario,
    seed: int,
    beside: Path | None = None,
    *,
    processes: int = 1,
    progress: Callable[[int], None] = lambda _: None,
    stopped: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Both runs of a seed.

    Args:
        scenario: what to run.
        seed: of all that is random.
        beside: the folder of arrivals files; see :func:`koord.simulator.colocation.batch.arrivals`.
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
    document = settings.of(scenario).as_document()
    both = (lockstep.side_by_side if processes > 1 else lockstep.in_turn)(
        scenario, seed, beside, progress, stopped
    )
    ran = scenario
    if both.minutes < scenario.minutes:
        ran = varied(scenario, hours=both.minutes / 60)
    seconds = time.perf_counter() - start
    return Outcome(ran, seed, both.without, both.with_, document, seconds, scenario.hours)


def run(
    scenario: Scenario,
    seed: int,
    beside: Path | None = None,
    *,
    colocated: bool,
    progress: Callable[[int], None] = lambda _: None,
) -> Run:
    """One run; see :func:`simulate`."""
    side = lockstep.Side(scenario, seed, beside, colocated=colocated)
    try:
        while steps := side.minute():
            progress(steps)
        return side.found()
    finally:
        side.close()
