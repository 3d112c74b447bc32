# SPDX-License-Identifier: Apache-2.0
"""``koord simulate openb --defragment N``: what moves are worth, planned and one by one."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from koord.cli.process.signals import keeping_results, warn_of_partial_results
from koord.cli.terminal.output import Format, print_json, print_table, progress, say

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from koord.simulator.openb.defragmentation import DefragmentedRun
    from koord.simulator.openb.replay import Experiment
    from koord.simulator.openb.workload import TraceWorkload

MOST_MOVES = 10_000
_BAR = 40


def defragment(
    experiment: Experiment,
    policies: Sequence[str],
    workloads: Sequence[TraceWorkload],
    moves: int,
    output: Format,
    write: Callable[[Sequence[DefragmentedRun]], Path] | None,
) -> None:
    """Runs every policy under every workload, and shows what fits after the moves.

    Args:
        experiment: cluster and pod list.
        policies: fill the nodes.
        workloads: arrivals beyond 100 % of the GPUs.
        moves: at most.
        output: form.
        write: writes a report; None for none.
    """
    with keeping_results() as ending:
        runs = _run(experiment, policies, workloads, moves, ending.requested)
    wished = len(policies) * len(workloads)
    partial = len(runs) < wished
    if partial:
        warn_of_partial_results(f"partial result: {len(runs)} of {wished} runs")
    if output is Format.JSON:
        some = {"partial": {"runs": len(runs), "of_runs": wished}} if partial else {}
        print_json({**some, "runs": [run.as_json() for run in runs]})
    elif runs:
        show_runs(runs)
    if write is not None and runs:
        path = write(runs)
        if output is Format.TEXT:
            say(f"report: {path}")
    ending.check()


def _run(
    experiment: Experiment,
    policies: Sequence[str],
    workloads: Sequence[TraceWorkload],
    moves: int,
    stopped: Callable[[], bool],
) -> list[DefragmentedRun]:
    from koord.simulator.openb.defragmentation import run_defragmented

    jobs = [(policy, workload) for policy in policies for workload in workloads]
    with progress("moving pods", moves * len(jobs)) as advance, ThreadPoolExecutor(2) as pool:

        def run(job: tuple[str, TraceWorkload]) -> DefragmentedRun | None:
            return None if stopped() else run_defragmented(experiment, *job, moves, advance)

        return [run for run in pool.map(run, jobs) if run is not None]


def show_runs(runs: Sequence[DefragmentedRun]) -> None:
    """A row a policy and rule, means over its runs; then the GPUs gained as bars."""
    from koord.simulator.openb.defragmentation import rows_of

    rows = rows_of(runs)
    stops = [each.moves for each in rows[0].points]
    heads = [f"@{stop}" for stop in stops]
    print("pods of the later arrivals that fit after so many moves, and GPU allocated, %")
    print_table(
        ["policy", "moves", "runs", *heads, f"% @{stops[0]}", f"% @{stops[-1]}", "no node"],
        [
            [
                row.policy, row.rule, str(row.runs), *(f"{each.pods:.1f}" for each in row.points),
                f"{row.points[0].allocated_percent:.2f}",
                f"{row.points[-1].allocated_percent:.2f}", f"{row.without_node:.1f}",
            ]
            for row in rows
        ],
    )  # fmt: skip
    print("\nGPUs that the later arrivals get more than without moves")
    most = max((each.gained_gpus for row in rows for each in row.points), default=0.0)
    for row in rows:
        for each in row.points[1:]:
            bar = "█" * round(_BAR * max(each.gained_gpus, 0.0) / most) if most > 0 else ""
            label = f"{row.policy:<10} {row.rule:<10} {each.moves:>5}"
            say(f"{label} {bar} {each.gained_gpus:.1f}")
