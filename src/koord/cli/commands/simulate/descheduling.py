# SPDX-License-Identifier: Apache-2.0
"""``koord simulate colocation --descheduler``: what moving pods of services is worth over a day."""

from __future__ import annotations

import shlex
import sys
from typing import TYPE_CHECKING

from koord.base.errors import Code, KoordError, nearest
from koord.cli.process.signals import keeping_results, warn_of_partial_results
from koord.cli.terminal.output import Format, print_json, print_table, progress, say

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from koord.simulator.colocation.descheduling.comparison import DeschedulingResult
    from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode
    from koord.simulator.colocation.inputs.scenario import Scenario

NODES, STEP = 20, "60s"
"""Of the shipped day beside a descheduler, whose API server is simulated object by object."""
MOST_NODES = 1000
_BAR = 40


def parse_rounds(text: str | None) -> list[DeschedulingMode]:
    """The modes of a comma-separated list, each once; all for None. KoordError for another."""
    from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode

    known = [str(mode) for mode in DeschedulingMode]
    names = known if text is None else list(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in known:
            near = nearest(name, known)
            hint = f" (did you mean {near}?)" if near else ""
            raise KoordError(
                "--rounds", "", name, f"one of {', '.join(known)}{hint}", Code.NOT_FOUND
            )
    return [DeschedulingMode(name) for name in names]


def descheduling(
    scenario: Scenario,
    seeds: Sequence[int],
    rounds: Sequence[DeschedulingMode],
    beside: Path | None,
    report: Path | None,
    output: Format,
) -> None:
    """Runs every seed in each mode and shows what moves are worth.

    Args:
        scenario: what to run.
        seeds: of all that is random.
        rounds: who moves pods of services.
        beside: the folder of arrivals files.
        report: folder for a page; None for none.
        output: form.
    """
    from koord.simulator.colocation.descheduling.comparison import compare
    from koord.simulator.colocation.descheduling.rounds import configuration_of

    if scenario.machines > MOST_NODES:
        expected = f"at most {MOST_NODES} machines beside --descheduler"
        raise KoordError("--nodes", "", scenario.machines, expected)
    configuration_of(scenario)
    wished = len(seeds) * len(rounds)
    with (
        keeping_results() as ending,
        progress("simulating", scenario.steps * wished) as advance,
    ):
        found = compare(scenario, seeds, rounds, beside, progress=advance, stopped=ending.requested)
    missing = f"{len(found)} of {wished} runs" if len(found) < wished else ""
    if missing:
        some = f"partial result: {missing}" if found else "no run was done that could be shown"
        warn_of_partial_results(some)
    if found:
        _show(found, scenario, output, wished)
        if report is not None:
            path = _write(found, scenario, report, missing)
            if output is Format.TEXT:
                say(f"report: {path}")
    ending.check()


def _show(
    results: Sequence[DeschedulingResult], scenario: Scenario, output: Format, wished: int
) -> None:
    from koord.simulator.colocation.descheduling import summary

    if output is Format.JSON:
        missing = {"partial": {"runs": len(results), "of_runs": wished}}
        some = missing if len(results) < wished else {}
        print_json({**some, **summary.document(results, scenario)})
        return
    means = summary.means(results)
    say(summary.HEADS_MEAN)
    print_table(list(summary.HEADS), summary.rows(means))
    for line in summary.effects(means):
        say(line)
    say("\nnode-minutes in which services alone use over 65 % of the CPU")
    most = max(each.hot_percent[0] for each in means)
    for each in means:
        bar = "█" * round(_BAR * each.hot_percent[0] / most) if most > 0 else ""
        say(f"{each.mode:<10} {bar} {each.hot_percent[0]:.2f} %")


def _write(
    results: Sequence[DeschedulingResult], scenario: Scenario, directory: Path, missing: str
) -> Path:
    from koord.simulator.colocation.descheduling.page import write_report

    try:
        return write_report(
            results, scenario, directory, shlex.join(["koord", *sys.argv[1:]]), missing
        )
    except OSError as error:
        raise KoordError.wrap("--report", "", error) from error
