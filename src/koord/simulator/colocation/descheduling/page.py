# SPDX-License-Identifier: Apache-2.0
"""The report of days with a descheduler: one HTML file that needs nothing beside it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from koord.simulator import html_page
from koord.simulator.colocation.descheduling import summary
from koord.simulator.colocation.descheduling.load_account import HOT_PERCENT
from koord.simulator.colocation.report.charts import thin
from koord.simulator.svg_charts import STYLE, count_axis, hour_axis, legend_above, pyplot, svg

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from koord.simulator.colocation.descheduling.comparison import DeschedulingResult
    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import Floats

TITLE = "a day with a descheduler and without"
# Told apart with any colour vision (Okabe and Ito's palette).
_COLOURS = {"none": "#999999", "one-by-one": "#E69F00", "planned": "#0072B2"}


def write_report(
    results: Sequence[DeschedulingResult],
    scenario: Scenario,
    directory: Path,
    command: str,
    partial: str = "",
) -> Path:
    """Writes ``DIRECTORY/report.html`` and returns its path.

    Args:
        results: of one scenario, at least one.
        scenario: it.
        directory: made if missing.
        command: what reproduces the page, shown at its top.
        partial: how many of the runs that were asked for these are; empty for all.

    Raises:
        OSError: the directory or the file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    return html_page.write(directory, TITLE, _parts(results, scenario, command, partial))


def _parts(
    results: Sequence[DeschedulingResult], scenario: Scenario, command: str, partial: str
) -> Iterator[str]:
    found = summary.means(results)
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(each.seed for each in results))
    yield "<h1>A day with a descheduler and without</h1>"
    yield (
        f"<p>Scenario <b>{escape(scenario.metadata.name)}</b>: {scenario.machines:,} machines, "
        f"{scenario.hours:g} hours in steps of {escape(scenario.step)}, seeds {seeds}. Services "
        "are Deployments whose pods koord-descheduler may move, in rounds that are planned or one "
        "by one; those bound to CPUs stay. Figures are means over the seeds.</p>"
    )
    if partial:
        yield f"<p><b>Partial result:</b> interrupted after {escape(partial)}.</p>"
    yield f"<p><code>{escape(command)}</code></p>"
    yield html_page.table(summary.HEADS, summary.rows(found))
    yield f"<p>{escape(summary.HEADS_MEAN)}.</p>"
    yield from (f"<p>{escape(line)}.</p>" for line in summary.effects(found))
    yield html_page.figure(
        "Machines that services alone keep busy",
        summary.hot_sentence(found),
        f"Minutes of machines whose services used over {HOT_PERCENT[0]} % of the CPU so far: where "
        "a line rises machines are hot, where it is level none is.",
        _drawn(results, scenario, "machine-minutes so far", _hot_minutes),
    )
    yield html_page.figure(
        "Moves so far",
        summary.moves_sentence(found),
        "Parts of a service's load that went to another machine.",
        _drawn(results, scenario, "moves so far", _moves),
    )


def _hot_minutes(of: DeschedulingResult) -> Floats:
    return of.hot_by_minute[:, 0].cumsum().astype(np.float64)


def _moves(of: DeschedulingResult) -> Floats:
    counts = np.histogram(of.move_minutes, np.arange(len(of.hot_by_minute) + 1))[0]
    return counts.cumsum().astype(np.float64)


def _drawn(
    results: Sequence[DeschedulingResult],
    scenario: Scenario,
    ylabel: str,
    of: Callable[[DeschedulingResult], Floats],
) -> str:
    """A line a mode over the day: the mean over its runs."""
    plots = pyplot()
    modes = list(dict.fromkeys(each.mode for each in results))
    with plots.rc_context(STYLE):
        figure, axes = plots.subplots(figsize=(9.6, 3.2))
        for mode in modes:
            runs = [of(each) for each in results if each.mode == mode]
            values: Floats = np.mean(runs, axis=0)
            hours = np.arange(len(values)) / 60
            axes.plot(thin(hours), thin(values), color=_COLOURS[mode], lw=1.5, label=str(mode))
        hour_axis(axes, scenario.hours)
        axes.set_ylabel(ylabel)
        axes.set_ylim(bottom=0)
        count_axis(axes.yaxis)
        legend_above(axes, len(modes))
        return svg(figure)
