# SPDX-License-Identifier: Apache-2.0
"""``koord simulate colocation``."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from koord.base.errors import KoordError, MissingExtraError
from koord.cli.commands.simulate.descheduling import NODES, STEP, descheduling, parse_rounds
from koord.cli.options.values import number, parse_seeds, whole_number
from koord.cli.process.signals import keeping_results, warn_of_partial_results
from koord.cli.terminal.output import (
    Format,
    OutputOption,
    prepare_report,
    print_json,
    print_table,
    progress,
    refuse_without,
    say,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import ComparisonResult

_VERB = "koord simulate colocation"
_FLAGS = {"hours": "--hours", "step": "--step"}

NodesOption = Annotated[
    int | None,
    typer.Option(
        "--nodes",
        metavar="N",
        parser=whole_number("--nodes", 1, 20_000),
        help="machines; arrivals of jobs change in proportion",
    ),
]
HoursOption = Annotated[
    float | None,
    typer.Option("--hours", metavar="N", parser=number("--hours"), help="length of the run"),
]
StepOption = Annotated[
    str | None, typer.Option("--step", metavar="DURATION", help="such as 10s, a divisor of 1m")
]
SeedOption = Annotated[str, typer.Option("--seed", metavar="LIST", help="as 1 or 1-10 or 1,4")]
ScenarioOption = Annotated[
    Path | None,
    typer.Option(
        "--scenario", metavar="FILE", help="the day to run", show_default="mixed-day, as shipped"
    ),
]
SettingsOption = Annotated[
    Path | None,
    typer.Option(
        "--settings",
        metavar="FILE",
        help="a ConfigMap slo-controller-config, a KubeSchedulerConfiguration, or both",
    ),
]
DeschedulerOption = Annotated[
    bool,
    typer.Option(
        "--descheduler",
        help="instead, with a descheduler and without; without --scenario on 20 machines by 60s",
    ),
]
RoundsOption = Annotated[
    str | None,
    typer.Option(
        "--rounds",
        metavar="LIST",
        help="how the descheduler moves pods",
        show_default="none,one-by-one,planned",
    ),
]
ReportOption = Annotated[
    Path | None, typer.Option("--report", metavar="DIR", help="write an HTML report there")
]


def colocation(
    nodes: NodesOption = None,
    hours: HoursOption = None,
    step: StepOption = None,
    seed: SeedOption = "1",
    scenario: ScenarioOption = None,
    settings: SettingsOption = None,
    descheduler: DeschedulerOption = False,
    rounds: RoundsOption = None,
    report: ReportOption = None,
    output: OutputOption = Format.TEXT,
) -> None:
    """Run a day of a cluster with co-location and without.

    Both have the same services and the same jobs. What is not given on the
    command line is the scenario's. With --descheduler every run has
    co-location, and pods of services are moved by nobody, by rounds that go
    one by one, and by rounds that are planned.

    Exit status:
      0  done
      2  wrong usage, or a file that cannot be read
      130  interrupted; what there is is shown
      143  the same, ended by SIGTERM

    Example: koord simulate colocation --nodes 100 --hours 6 --report out

    Example: koord simulate colocation --descheduler --hours 6 --rounds none,planned
    """
    seeds = parse_seeds(seed, "--seed")
    if not descheduler:
        refuse_without("--descheduler", {"--rounds": rounds})
    modes = parse_rounds(rounds) if descheduler else []
    if report is not None:
        if len(seeds) > 1 and not descheduler:
            raise KoordError("--report", "", seed, "one seed: a report shows one day")
        prepare_report(report)
    if descheduler and scenario is None:
        nodes, step = nodes or NODES, step or STEP
    chosen = _chosen(scenario, nodes, hours, step, settings)
    beside = None if scenario is None else scenario.parent
    if descheduler:
        descheduling(chosen, seeds, modes, beside, report, output)
        return
    with keeping_results() as ending:
        outcomes = _simulated(chosen, seeds, beside, ending.requested)
    if ending.requested():
        warn_of_partial_results(_missing_parts(outcomes, seeds, chosen.hours))
    if outcomes:
        _show(outcomes, output, seeds)
        if report is not None:
            path = _write(outcomes[0], report)
            if output is Format.TEXT:
                say(f"report: {path}")
    ending.check()


def _chosen(
    path: Path | None,
    nodes: int | None,
    hours: float | None,
    step: str | None,
    settings: Path | None,
) -> Scenario:
    """The scenario that the options make. KoordError for one that cannot be."""
    try:
        from koord.simulator.colocation.inputs import scenario_file
        from koord.simulator.colocation.inputs import slo_config as overlays
    except ModuleNotFoundError as error:
        if not error.name or error.name.startswith("koord"):
            raise
        raise MissingExtraError(error.name, "sim") from None
    found = scenario_file.shipped() if path is None else scenario_file.load(path)
    try:
        found = scenario_file.varied(found, nodes=nodes, hours=hours, step=step, source=_VERB)
    except KoordError as error:
        raise _of_flag(error) from None
    if settings is not None:
        found = overlays.overlaid(found, settings)
    overlays.of(found)
    return found


def _of_flag(error: KoordError) -> KoordError:
    """What a flag makes of the scenario, in the words of the flag."""
    flag = _FLAGS.get(error.field)
    if flag is None or error.object_name != _VERB:
        return error
    return KoordError(flag, "", error.value, error.expected)


def _simulated(
    scenario: Scenario, seeds: Sequence[int], beside: Path | None, stopped: Callable[[], bool]
) -> list[ComparisonResult]:
    """Both runs of each seed, side by side where there are two CPUs.

    Where they are stopped: the seeds that were done, or what there is of the first.
    """
    from koord.simulator.colocation.execution.paired_runs import StoppedError
    from koord.simulator.colocation.execution.run import simulate

    found: list[ComparisonResult] = []
    processes = min(2, os.cpu_count() or 1)
    with progress("simulating", 2 * scenario.steps * len(seeds)) as advance:
        for each in seeds:
            try:
                outcome = simulate(
                    scenario, each, beside, processes=processes, progress=advance, stopped=stopped
                )
            except StoppedError:
                break
            if outcome.partial and found:
                break  # A mean over days of different lengths says nothing.
            found.append(outcome)
            if outcome.partial:
                break
    return found


def _missing_parts(outcomes: Sequence[ComparisonResult], seeds: Sequence[int], hours: float) -> str:
    """What a result lacks that came of an interrupt."""
    if not outcomes:
        return "too little was simulated to show"
    if len(seeds) > 1 and not outcomes[0].partial:
        return f"partial result: {len(outcomes)} of {len(seeds)} seeds"
    of_seeds = f" of the first of {len(seeds)} seeds" if len(seeds) > 1 else ""
    return f"partial result: {outcomes[0].scenario.hours:.3g} of {hours:g} hours{of_seeds}"


def _show(outcomes: Sequence[ComparisonResult], output: Format, seeds: Sequence[int]) -> None:
    from koord.simulator.colocation.report import summary

    if output is Format.JSON:
        found = [summary.document(each) for each in outcomes]
        missing = {"partial": {"seeds": len(found), "of_seeds": len(seeds)}}
        some = missing if len(found) < len(seeds) else {}
        print_json(found[0] if len(seeds) == 1 else {**some, "runs": found})
    elif len(outcomes) == 1:
        print_table(list(summary.HEADS), [list(row) for row in summary.rows(outcomes[0])])
    else:
        heads = ["seed", "CPU % without", "with", ""]
        print_table(heads, [list(row) for row in summary.spread(outcomes)])


def _write(outcome: ComparisonResult, directory: Path) -> Path:
    from koord.simulator.colocation.report.page import write_report

    try:
        return write_report(outcome, directory, shlex.join(["koord", *sys.argv[1:]]))
    except OSError as error:
        raise KoordError.wrap("--report", "", error) from error
