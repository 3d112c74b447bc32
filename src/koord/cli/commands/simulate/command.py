# SPDX-License-Identifier: Apache-2.0
"""``koord simulate``."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from koord.base.errors import Code, KoordError, MissingExtraError, nearest
from koord.cli.commands.simulate.colocation import colocation
from koord.cli.commands.simulate.defragmentation import MOST_MOVES
from koord.cli.commands.simulate.defragmentation import defragment as show_defragmented
from koord.cli.help.typer_help import TyperApp
from koord.cli.options.values import parse_seeds, whole_number
from koord.cli.process.signals import keeping_results, warn_of_partial_results
from koord.cli.terminal.output import (
    Format,
    OutputOption,
    prepare_report,
    print_json,
    print_table,
    progress,
    refuse_beside,
    say,
)

if TYPE_CHECKING:
    from koord.simulator.openb.defragmentation import DefragmentedRun
    from koord.simulator.openb.published_results import PublishedResults
    from koord.simulator.openb.replay import Experiment, RunResult
    from koord.simulator.openb.scheduler_replay import Scheduling
    from koord.simulator.openb.workload import TraceWorkload

app = TyperApp()

MOST_LOAD = 100
DEFAULT_LOAD, DEFAULT_SEEDS = "1.3", "42-51"
PRINTED_BINS = (100, 130)

NodesOption = Annotated[Path, typer.Option("--nodes", metavar="CSV", help="node list")]
PodsOption = Annotated[Path, typer.Option("--pods", metavar="CSV", help="pod list")]
PolicyOption = Annotated[
    str,
    typer.Option(
        "--policy",
        metavar="POLICY,...",
        help="random, dotprod, clustering, packing, bestfit, fgd or koord; "
        "also fit, least, most, balanced",
    ),
]
LoadOption = Annotated[
    str | None,
    typer.Option(
        "--load",
        metavar="X",
        help="arrived GPU requests over all GPUs; not with --order",
        show_default=DEFAULT_LOAD,
    ),
]
SeedsOption = Annotated[
    str | None,
    typer.Option("--seeds", metavar="LIST", help="as 42-51 or 42,44", show_default=DEFAULT_SEEDS),
]
OrderOption = Annotated[
    list[Path] | None,
    typer.Option("--order", metavar="FILE", help="arrival order and node ranks, instead of seeds"),
]
MoreOrders = Annotated[list[Path] | None, typer.Argument(metavar="FILE", help="more for --order")]
SchedulerOption = Annotated[
    Path | None,
    typer.Option(
        "--through-scheduler",
        metavar="FILE",
        help="KubeSchedulerConfiguration: send the pods through the whole scheduler too",
    ),
]
DefragmentOption = Annotated[
    int | None,
    typer.Option(
        "--defragment",
        metavar="N",
        parser=whole_number("--defragment", 1, MOST_MOVES),
        help="move so many pods at most, planned and one by one",
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="DIR", help="write an HTML report there")
]


@app.callback()
def group() -> None:
    """Verbs of this group."""


@app.command()
def openb(
    nodes: NodesOption,
    pods: PodsOption,
    policy: PolicyOption,
    load: LoadOption = None,
    seeds: SeedsOption = None,
    order: OrderOption = None,
    more_orders: MoreOrders = None,
    through_scheduler: SchedulerOption = None,
    defragment: DefragmentOption = None,
    report: ReportOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Replay the openb GPU trace through the scheduler's own kernels.

    Pods arrive one by one; each is placed or dropped for good. With
    --defragment pods move once 100 % of the GPUs are asked for, and what of
    the later arrivals fits says what the moves are worth.

    Exit status:
      0  done
      2  wrong usage, or a file that cannot be read
      130  interrupted; what had ended is shown
      143  the same, ended by SIGTERM

    Example: koord simulate openb --nodes nodes.csv --pods pods.csv --policy fgd,koord --seeds 42-51
    """
    from koord.simulator.openb.published_results import read_published
    from koord.simulator.openb.replay import Experiment
    from koord.simulator.openb.trace import read_nodes, read_pods
    from koord.simulator.openb.workload import read_order, sample

    policies = parse_policies(policy)
    target = parse_load(DEFAULT_LOAD if load is None else load)
    orders = _orders(order, more_orders, seeds, load)
    numbers = [] if orders else parse_seeds(DEFAULT_SEEDS if seeds is None else seeds)
    if defragment is not None:
        refuse_beside("--defragment", {"--through-scheduler": through_scheduler})
    if report is not None:
        prepare_report(report)
    scheduling = read_scheduling(through_scheduler) if through_scheduler else None
    experiment = Experiment.of(read_nodes(nodes), read_pods(pods))
    workloads = [read_order(path, experiment.nodes, experiment.pods) for path in orders] + [
        sample(experiment.nodes, experiment.pods, target, seed) for seed in numbers
    ]
    if defragment is not None:
        write = None if report is None else partial(_write_moves_report, report)
        show_defragmented(experiment, policies, workloads, defragment, output, write)
        return
    with keeping_results() as ending:
        runs = run_all(experiment, policies, workloads, ending.requested)
        if scheduling is not None:
            runs += run_scheduler(experiment, scheduling, workloads, ending.requested)
    published = read_published(pods)
    wished = (len(policies) + (scheduling is not None)) * len(workloads)
    missing = f"{len(runs)} of {wished} runs" if len(runs) < wished else ""
    if missing:
        warn_of_partial_results(f"partial result: {missing}")
    if output is Format.JSON:
        some = {"partial": {"runs": len(runs), "of_runs": wished}} if missing else {}
        print_json({**some, "runs": [run.as_json() for run in runs]})
    elif runs:
        print_summary(runs, published)
    if report is not None and runs:
        path = _write_report(runs, report, published, missing)
        if output is Format.TEXT:
            say(f"report: {path}")
    ending.check()


app.command()(colocation)


def _orders(
    order: list[Path] | None, more: list[Path] | None, seeds: str | None, load: str | None
) -> list[Path]:
    """The files of arrival orders. KoordError for flags that do not go together."""
    if more and not order:
        raise KoordError("koord simulate openb", "", str(more[0]), "files after --order alone")
    orders = [*(order or []), *(more or [])]
    if orders and seeds is not None:
        expected = "--order FILE... or --seeds LIST, not both"
        raise KoordError("koord simulate openb", "", str(orders[-1]), expected)
    if orders:
        refuse_beside("--order", {"--load": load})
    return orders


def parse_policies(text: str) -> list[str]:
    """The names in a comma-separated list, each once. KoordError for an unknown one."""
    from koord.kernels.placement import policy_names

    known = policy_names()
    names = list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            near = nearest(name, known)
            hint = f" (did you mean {near}?)" if near else ""
            expected = f"one of {', '.join(known)}{hint}"
            raise KoordError("--policy", "", name, expected, Code.NOT_FOUND)
    return names


def parse_load(text: str) -> float:
    """A load above 0. KoordError for anything else."""
    try:
        load = float(text)
    except ValueError:
        load = math.nan
    if not 0 < load <= MOST_LOAD:
        raise KoordError("--load", "", text, f"a number above 0, at most {MOST_LOAD}")
    return load


class _ReplayStoppedError(Exception):
    """A run that is not wanted any more."""


def run_all(
    experiment: Experiment,
    policies: Sequence[str],
    workloads: Sequence[TraceWorkload],
    stopped: Callable[[], bool] = lambda: False,
) -> list[RunResult]:
    """Every policy under every workload, policy by policy.

    Runs share nothing that changes and release the GIL, so they use all cores; the results are
    those of running them one after another.

    Args:
        experiment: cluster and pod list.
        policies: of the placement kernel.
        workloads: arrivals and node ranks.
        stopped: asked now and then; runs that have not ended by then are left out.
    """
    total = len(policies) * sum(len(workload.arrivals) for workload in workloads)
    with progress("placing pods", total) as advance, ThreadPoolExecutor(os.cpu_count()) as pool:

        def run(job: tuple[str, TraceWorkload]) -> RunResult | None:
            return _finished(lambda: experiment.run(*job, _checked(advance, stopped)), stopped)

        jobs = [(policy, workload) for policy in policies for workload in workloads]
        return [run for run in pool.map(run, jobs) if run is not None]


def _checked(advance: Callable[[int], None], stopped: Callable[[], bool]) -> Callable[[int], None]:
    """Tells of progress, and ends a run where it is stopped."""

    def report(steps: int) -> None:
        advance(steps)
        if stopped():
            raise _ReplayStoppedError

    return report


def _finished(run: Callable[[], RunResult], stopped: Callable[[], bool]) -> RunResult | None:
    """A run's result; None where it was stopped before or meanwhile."""
    if stopped():
        return None
    try:
        return run()
    except _ReplayStoppedError:
        return None


def read_scheduling(path: Path) -> Scheduling:
    """A scheduler's configuration. KoordError for one that is not valid."""
    try:
        from koord.simulator.openb.scheduler_replay import Scheduling
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "sim") from None
    return Scheduling.read(path)


def run_scheduler(
    experiment: Experiment,
    scheduling: Scheduling,
    workloads: Sequence[TraceWorkload],
    stopped: Callable[[], bool] = lambda: False,
) -> list[RunResult]:
    """Every workload through a scheduler, one after the other: decisions hold the GIL."""
    from koord.simulator.openb.scheduler_replay import run_scheduled

    total = sum(len(workload.arrivals) for workload in workloads)
    with progress("scheduling pods", total) as advance:
        report = _checked(advance, stopped)
        runs = [
            _finished(partial(run_scheduled, experiment, scheduling, each, report), stopped)
            for each in workloads
        ]
    return [run for run in runs if run is not None]


def print_summary(runs: Sequence[RunResult], published: PublishedResults | None) -> None:
    """One row a policy, means over its runs, with the published means beside them."""
    columns = ["policy", "runs"]
    for cell in PRINTED_BINS:
        columns += [f"allocated % @{cell}", "published"] if published else [f"allocated % @{cell}"]
    columns += [f"fragmented % @{cell}" for cell in PRINTED_BINS]
    columns += ["cpu %", "failed", "seconds a run"]
    by_policy: dict[str, list[RunResult]] = {}
    for run in runs:
        by_policy.setdefault(run.policy, []).append(run)
    rows = [[policy, *_summary(policy, group, published)] for policy, group in by_policy.items()]
    print_table(columns, rows)


def _summary(
    policy: str, runs: Sequence[RunResult], published: PublishedResults | None
) -> list[str]:
    cells = [str(len(runs))]
    allocated = [run.gpu_allocated_percent for run in runs]
    for cell in PRINTED_BINS:
        cells.append(_mean([table[cell] for table in allocated]))
        if published:
            theirs = published.allocated.get(policy)
            cells.append("-" if theirs is None else _mean(theirs[:, cell].tolist()))
    fragmented = [run.fragmented_percent for run in runs]
    cells += [_mean([table[cell] for table in fragmented]) for cell in PRINTED_BINS]
    cpu = _mean([run.cpu_allocated_percent for run in runs])
    failed = _mean([run.pods_failed for run in runs], digits=1)
    return [*cells, cpu, failed, _mean([run.seconds for run in runs], digits=3)]


def _mean(values: Sequence[float | None], digits: int = 2) -> str:
    found = [value for value in values if value is not None and not math.isnan(value)]
    return f"{sum(found) / len(found):.{digits}f}" if found else "-"


def _write_report(
    runs: Sequence[RunResult], directory: Path, published: PublishedResults | None, missing: str
) -> Path:
    from koord.simulator.openb.report import write_report

    command = shlex.join(["koord", *sys.argv[1:]])
    try:
        return write_report(runs, directory, published, command, missing)
    except OSError as error:
        raise KoordError.wrap("--report", "", error) from error


def _write_moves_report(directory: Path, runs: Sequence[DefragmentedRun]) -> Path:
    from koord.simulator.openb.report import write_moves_report

    command = shlex.join(["koord", *sys.argv[1:]])
    try:
        return write_moves_report(runs, directory, command)
    except OSError as error:
        raise KoordError.wrap("--report", "", error) from error
