# SPDX-License-Identifier: Apache-2.0
"""The replay's report: one HTML file that needs nothing beside it."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from koord.simulator import html_page
from koord.simulator.openb.defragmentation import rows_of
from koord.simulator.openb.plots import curves_svg, heat_map_svg, moves_svg
from koord.simulator.openb.published_results import PublishedResults
from koord.simulator.openb.result_tables import curves

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from koord.simulator.openb.defragmentation import DefragmentedRun
    from koord.simulator.openb.published_results import Curves
    from koord.simulator.openb.replay import ReplayedNodes, RunResult

# Where the published experiment is read off: everything has arrived once, and at the end.
READ_AT = (100, 130)
# Below this load every policy places nearly everything and the lines lie on each other.
CLOSE_LOOK_FROM = 80


def write_report(
    runs: Sequence[RunResult],
    directory: Path,
    published: PublishedResults | None,
    command: str,
    partial: str = "",
) -> Path:
    """Writes ``DIRECTORY/report.html`` and returns its path.

    Args:
        runs: any number of runs of any number of policies over one node and pod list.
        directory: made if missing.
        published: the published figures of the same pod list, if there are any.
        command: what reproduces the page, shown at its top.
        partial: how many of the runs that were asked for these are; empty for all.

    Raises:
        OSError: the directory or the file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    parts = _parts(_by_policy(runs), published, command)
    if partial:
        parts.insert(1, f"<p><b>Partial result:</b> interrupted after {escape(partial)}.</p>")
    return html_page.write(directory, "GPU allocation and fragmentation", parts)


def write_moves_report(runs: Sequence[DefragmentedRun], directory: Path, command: str) -> Path:
    """The same about moves: what later arrivals gain by them, planned and one by one.

    Raises:
        OSError: the directory or the file cannot be written.
        MissingExtraError: matplotlib is not installed.
    """
    rows, first = rows_of(runs), runs[0]
    best = max(rows, key=lambda row: row.points[-1].gained_gpus)
    last = best.points[-1]
    parts = [
        "<h1>GPUs that moves make usable</h1>",
        f"<p>{first.placed} pods are placed in the first run until 100 % of the GPUs have been "
        f"asked for, then pods move, then {first.arrivals} more arrive.</p>",
        f"<p><code>{escape(command)}</code></p>",
        html_page.figure(
            "GPUs gained over moves",
            f"{last.moves} moves make {last.gained_gpus:.0f} GPUs usable to later arrivals "
            f"({best.policy}, {best.rule}).",
            "GPUs that later arrivals get more than without moves; means over the runs. Dotted: "
            "by the one-by-one rule.",
            moves_svg(rows),
        ),
    ]
    return html_page.write(directory, "GPUs that moves make usable", parts)


def _parts(
    runs: Mapping[str, Sequence[RunResult]], published: PublishedResults | None, command: str
) -> list[str]:
    first = next(iter(runs.values()))[0]
    longest = max(len(group) for group in runs.values())
    return [
        "<h1>GPU allocation and fragmentation</h1>",
        f"<p>{len(first.nodes.names)} nodes with {first.gpus} GPUs; {first.pods_submitted} "
        f"pods submitted one by one in the first run; {longest} runs a policy.</p>",
        f"<p><code>{escape(command)}</code></p>",
        "<h2>Result</h2>",
        _table(runs, published),
        *_curves(runs, published),
        _heat_map(runs),
    ]


def _table(runs: Mapping[str, Sequence[RunResult]], published: PublishedResults | None) -> str:
    heads = ["policy"]
    for load in READ_AT:
        heads += (
            [f"allocated % at {load}", "published"] if published else [f"allocated % at {load}"]
        )
    heads += [f"fragmented % at {READ_AT[0]}", "failed pods", "CPU allocated %", "seconds a run"]
    rows = [_row(policy, group, published) for policy, group in runs.items()]
    head = "".join(f"<th>{escape(name)}</th>" for name in heads)
    return f"<table><tr>{head}</tr>\n" + "\n".join(rows) + "\n</table>"


def _row(policy: str, group: Sequence[RunResult], published: PublishedResults | None) -> str:
    cells = [f"<td>{escape(policy)}</td>"]
    allocated = curves([run.gpu_allocated_percent for run in group])
    for load in READ_AT:
        cells.append(f"<td>{_mean_and_spread(allocated[:, load])}</td>")
        if published:
            theirs = published.allocated.get(policy)
            text = "-" if theirs is None else _mean_and_spread(theirs[:, load])
            cells.append(f'<td class="published">{text}</td>')
    fragmented = curves([run.fragmented_percent for run in group])
    cells.append(f"<td>{_mean_and_spread(fragmented[:, READ_AT[0]])}</td>")
    cells.append(f"<td>{np.mean([run.pods_failed for run in group]):.0f}</td>")
    cells.append(f"<td>{np.mean([run.cpu_allocated_percent for run in group]):.1f}</td>")
    cells.append(f"<td>{np.mean([run.seconds for run in group]):.2f}</td>")
    mark = ' class="ours"' if policy == "koord" else ""
    return f"<tr{mark}>{''.join(cells)}</tr>"


def _mean_and_spread(values: NDArray[np.float64]) -> str:
    """``95.23 ± 0.11``; the spread is the standard deviation over runs."""
    filled = values[~np.isnan(values)]
    if len(filled) == 0:
        return "-"
    spread = f" ± {filled.std(ddof=1):.2f}" if len(filled) > 1 else ""
    return f"{filled.mean():.2f}{spread}"


def _curves(
    runs: Mapping[str, Sequence[RunResult]], published: PublishedResults | None
) -> list[str]:
    allocated = _stack(runs, "gpu_allocated_percent")
    theirs = published.allocated if published else None
    fragmented, ratio = _stack(runs, "fragmented_percent"), _stack(runs, "fragmentation_ratio")
    dotted = " Dotted: the published means." if published else ""
    return [
        html_page.figure(
            "Allocation over arrived load",
            _finding(allocated, "of the GPUs are allocated", most=True),
            "What share of the cluster's GPUs the placed pods hold. The line is the mean over the "
            f"runs, the band spans them.{dotted}",
            curves_svg(allocated, "GPU allocated, %", published=theirs),
        ),
        html_page.figure(
            "Allocation, the loaded end",
            _parting(allocated),
            f"The same from {CLOSE_LOOK_FROM} % on, where the policies part.{dotted}",
            curves_svg(allocated, "GPU allocated, %", published=theirs, first_bin=CLOSE_LOOK_FROM),
        ),
        html_page.figure(
            "Fragmentation over arrived load",
            _finding(fragmented, "of the GPUs are idle and of no use", most=False),
            "Idle GPU capacity that the typical pods cannot use, as a share of all GPUs.",
            curves_svg(
                fragmented,
                "fragmented, % of all GPUs",
                published=published.fragmented if published else None,
            ),
        ),
        html_page.figure(
            "Fragmentation ratio over arrived load",
            "Once the cluster is full, hardly any idle GPU is of use under any policy; a line that "
            "rises later keeps room for the pods that still come.",
            "The same as a share of what is idle.",
            curves_svg(
                ratio,
                "fragmented, % of idle GPU",
                published=published.ratio if published else None,
            ),
        ),
    ]


def _heat_map(runs: Mapping[str, Sequence[RunResult]]) -> str:
    ends = {policy: group[0].nodes for policy, group in runs.items()}
    return html_page.figure(
        "Nodes at the end of the first run",
        _idle(ends),
        "Each column is a node. A full GPU strip is what a good placement looks like; a dark "
        "column in it is capacity that nothing fits any more.",
        heat_map_svg(ends),
    )


def _finding(values: Mapping[str, Curves], what: str, *, most: bool) -> str:
    """Which policy does best once everything has arrived, and which does worst."""
    load = READ_AT[0]
    ends = {policy: float(np.nanmean(each[:, load])) for policy, each in values.items()
            if not np.isnan(each[:, load]).all()}  # fmt: skip
    if not ends:
        return f"No run came to {load} % of the load."
    order = sorted(ends, key=lambda policy: ends[policy], reverse=most)
    first, last = order[0], order[-1]
    said = f"With {load} % of the load arrived {ends[first]:.1f} % {what} under {first}"
    return f"{said}, {ends[last]:.1f} % under {last}." if len(order) > 1 else f"{said}."


def _parting(values: Mapping[str, Curves]) -> str:
    """How far the policies are apart at the end."""
    ends = [np.nanmean(each[:, -1]) for each in values.values() if not np.isnan(each[:, -1]).all()]
    if len(ends) < 2:
        return "Up to the cluster's capacity the line is straight: everything is placed."
    apart = max(ends) - min(ends)
    alike = f"Up to {CLOSE_LOOK_FROM} % the policies are nearly alike"
    return f"{alike}; in the end they are {apart:.1f} points apart."


def _idle(ends: Mapping[str, ReplayedNodes]) -> str:
    """How many nodes with GPUs still have half of them or more idle, under each policy."""
    counts = {
        policy: int(np.count_nonzero((2 * nodes.gpu_free_milli >= nodes.gpu_milli)
                                     & (nodes.gpu_milli > 0)))
        for policy, nodes in ends.items()
    }  # fmt: skip
    said = ", ".join(f"{count} under {policy}" for policy, count in counts.items())
    return f"Nodes with half of their GPUs idle, or more: {said}."


def _by_policy(runs: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    grouped: dict[str, list[RunResult]] = {}
    for run in runs:
        grouped.setdefault(run.policy, []).append(run)
    return grouped


def _stack(runs: Mapping[str, Sequence[RunResult]], field: str) -> dict[str, Curves]:
    return {
        policy: curves([getattr(run, field) for run in group]) for policy, group in runs.items()
    }
