# SPDX-License-Identifier: Apache-2.0
"""One run of a scenario, and both runs of a seed."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING

from koord.simulator.colocation import settings
from koord.simulator.colocation.day import Day
from koord.simulator.colocation.result import Outcome

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
) -> Outcome:
    """Both runs of a seed.

    Args:
        scenario: what to run.
        seed: of all that is random.
        beside: the folder of arrivals files; see :func:`koord.simulator.colocation.batch.arrivals`.
        processes: with 2 the runs go side by side, and only one of them tells its progress.
        progress: called with the steps done since its last call; both runs together make twice
            ``scenario.steps``.

    Raises:
        KoordError: settings or arrivals that cannot be.
    """
    start = time.perf_counter()
    document = settings.of(scenario).as_document()
    if processes > 1:
        # A fresh interpreter: a fork of a process with threads may hang.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=context) as pool:
            other = pool.submit(run, scenario, seed, beside, colocated=False)
            with_ = run(scenario, seed, beside, colocated=True, progress=progress)
            without = other.result()
            progress(scenario.steps)
    else:
        without = run(scenario, seed, beside, colocated=False, progress=progress)
        with_ = run(scenario, seed, beside, colocated=True, progress=progress)
    return Outcome(scenario, seed, without, with_, document, time.perf_counter() - start)


def run(
    scenario: Scenario,
    seed: int,
    beside: Path | None = None,
    *,
    colocated: bool,
    progress: Callable[[int], None] = lambda _: None,
) -> Run:
    """One run; see :func:`simulate`."""
    start = time.process_time()
    made = Day(scenario, seed, beside, colocated=colocated)
    asyncio.run(made.run(progress))
    return made.found(time.process_time() - start)
