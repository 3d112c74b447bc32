# SPDX-License-Identifier: Apache-2.0
"""The report's pictures, each as SVG text; colours are told apart with any colour vision."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.simulator.svg_charts import INK, STYLE, count_axis, hour_axis, legend_above, pyplot, svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.simulator.colocation.results.result import (
        ComparisonResult,
        DaySeries,
        Floats,
        Singles,
    )

SYSTEM, SERVICES, BATCH = "#999999", "#0072B2", "#E69F00"
WITHOUT, WITH, OFFERED = "#56B4E9", "#D55E00", "#009E73"
SIDES = ("without", "with co-location")
_WIDE = (9.6, 3.2)
# Machines that have their names beside their strips; of more it is every second, third and so on.
_NAMED_MACHINES = 20
_POINTS = 480
"""More than so many points a line are not seen; what lies between is averaged."""


def utilisation(sides: Mapping[str, DaySeries], capacity_cores: float) -> str:
    """CPU in use by class over the day on two sides, by title."""
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, both = plots.subplots(1, 2, figsize=(9.6, 3.4), sharey=True)
        for axes, (title, series) in zip(both, sides.items(), strict=True):
            hours = thin(series.hours)
            layers = [
                100 * thin(each) / capacity_cores
                for each in (series.cpu_system, series.cpu_services, series.cpu_batch)
            ]
            axes.stackplot(
                hours, *layers, colors=(SYSTEM, SERVICES, BATCH), lw=0,
                labels=("system", "services", "batch"),
            )  # fmt: skip
            mean = 100 * float(series.cpu_used.mean()) / capacity_cores
            axes.axhline(mean, color=INK, lw=1, ls="--")
            axes.set_title(f"{title}: {mean:.1f} % on average", fontsize=10)
            hour_axis(axes, _end(series.hours))
            axes.set_ylim(0, 100)
        both[0].set_ylabel("CPU of the cluster, %")
        handles, labels = both[0].get_legend_handles_labels()
        figure.legend(
            handles, labels, frameon=False, fontsize=8, ncols=3, loc="upper center",
            bbox_to_anchor=(0.5, 0.0),
        )  # fmt: skip
        figure.tight_layout()
        return svg(figure)


def offers(series: DaySeries) -> str:
    """What the manager offered to batch pods, what they asked for and what they used."""
    lines = (
        ("offered", series.batch_offered_cores, OFFERED),
        ("requested by running pods", series.batch_requested_cores, WITH),
        ("used", series.cpu_batch, BATCH),
    )
    return _lines(series.hours, lines, "cores")


def waiting(outcome: ComparisonResult) -> str:
    """How many batch tasks ran and waited, on both sides."""
    before, after = outcome.without.series, outcome.with_.series
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, both = plots.subplots(1, 2, figsize=_WIDE)
        names = ("batch_running_pods", "batch_waiting_pods")
        for axes, name, what in zip(both, names, ("running", "waiting"), strict=True):
            for series, colour, side in zip((before, after), (WITHOUT, WITH), SIDES, strict=True):
                values = thin(getattr(series, name))
                axes.plot(thin(series.hours), values, color=colour, lw=1.5, label=side)
            axes.set_ylabel(f"batch tasks {what}")
            hour_axis(axes, _end(after.hours))
            axes.set_ylim(bottom=0)
            count_axis(axes.yaxis)
        legend_above(both[0], 2)
        figure.tight_layout()
        return svg(figure)


def protection(series: DaySeries) -> str:
    """Machines whose batch pods were held down, and where there were any, tasks evicted."""
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, axes = plots.subplots(figsize=_WIDE)
        most = _most(series.suppressed_machines)
        axes.fill_between(thin(series.hours), most, color=BATCH, lw=0, step="post")
        axes.set_ylabel("machines with suppressed batch")
        hour_axis(axes, _end(series.hours))
        axes.set_ylim(0, max(math.ceil(most.max(initial=0.0)), 1))
        count_axis(axes.yaxis)
        if series.evictions.any():
            right = axes.twinx()
            right.plot(series.hours, np.cumsum(series.evictions), color=WITH, lw=1.6)
            right.set_ylabel("tasks evicted so far", color=WITH)
            right.set_ylim(bottom=0)
            count_axis(right.yaxis)
            right.grid(visible=False)
        return svg(figure)


def shortage(outcome: ComparisonResult) -> str:
    """Latency-sensitive pods short of CPU over time; by how much; for how long."""
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, (over, much, long) = plots.subplots(
            1, 3, figsize=(9.6, 3.0), width_ratios=(2, 1.2, 1.2)
        )
        runs = ((outcome.without, WITHOUT, -0.2), (outcome.with_, WITH, 0.2))
        for (run, colour, _), label in zip(runs, SIDES, strict=True):
            over.plot(
                thin(run.series.hours),
                _most(run.series.short_pods),
                color=colour,
                lw=1.2,
                label=label,
            )
        hour_axis(over, _end(outcome.with_.series.hours))
        over.set_ylabel("pods short of CPU")
        over.set_ylim(bottom=0)
        count_axis(over.yaxis)
        legend_above(over, 2)
        edges = outcome.with_.shortage.grant_edges
        names = [f"{100 * a:.0f}-{100 * b:.0f}" for a, b in itertools.pairwise(edges)]
        minutes = [run.shortage.minutes_by_grant for run, _, _ in runs]
        # Below the least that anybody was granted there is nothing to see.
        first = int(min([len(names) - 1, *np.flatnonzero(sum(minutes))]))
        _bars(much, [each[first:] for each in minutes], names[first:])
        much.set_xlabel("granted, % of what was wanted")
        much.set_ylabel("pod-minutes")
        lengths = outcome.with_.shortage.length_edges_minutes
        counts = [run.shortage.shortages_by_length for run, _, _ in runs]
        # Nor beyond the longest.
        last = int(max([0, *np.flatnonzero(sum(counts))])) + 1
        names = [f"{each}" for each in lengths[:-1]] + [f"{lengths[-1]}+"]
        _bars(long, [each[:last] for each in counts], names[:last])
        long.set_xlabel("length from, minutes")
        long.set_ylabel("shortages")
        figure.tight_layout()
        return svg(figure)


def machines(sides: Mapping[str, Floats | Singles], hours: Floats, names: Sequence[str]) -> str:
    """Machines over time, a strip each, on two sides; one scale, from the least to the most.

    Args:
        sides: the share of each machine's CPU in use, shape (machines, minutes), by title.
        hours: of each minute.
        names: of the machines, top to bottom.
    """
    plots = pyplot()
    with plots.rc_context({**STYLE, "axes.grid": False}):
        height = min(max(0.16 * len(names), 1.4), 3.2) + 0.8
        figure, both = plots.subplots(1, 2, figsize=(9.6, height), sharey=True)
        shown = {
            title: 100 * np.stack([thin(row.astype(np.float64)) for row in share])
            for title, share in sides.items()
        }
        low, high = scale(list(shown.values()))
        image = None
        for axes, (title, share) in zip(both, shown.items(), strict=True):
            image = axes.imshow(
                share, aspect="auto", cmap="cividis", vmin=low, vmax=high, interpolation="nearest",
                extent=(0.0, _end(hours), len(share), 0),
            )  # fmt: skip
            axes.set_title(title, fontsize=10)
            hour_axis(axes, _end(hours))
        every = range(0, len(names), -(-len(names) // _NAMED_MACHINES))
        both[0].set_yticks([row + 0.5 for row in every], [names[row] for row in every], fontsize=7)
        for axes in both:
            axes.tick_params(axis="y", length=0)
        bar = figure.colorbar(image, ax=list(both), fraction=0.02, pad=0.01)
        bar.set_label("CPU in use, %")
        return svg(figure)


def scale(shares: Sequence[Floats]) -> tuple[float, float]:
    """The tens of percent that hold all values, for colours that use their whole range."""
    low = min((float(each.min(initial=100.0)) for each in shares), default=0.0)
    high = max((float(each.max(initial=0.0)) for each in shares), default=100.0)
    first = min(10.0 * math.floor(low / 10), 90.0)
    return first, max(10.0 * math.ceil(high / 10), first + 10)


def thin(values: Floats) -> Floats:
    """At most :data:`_POINTS` values: means of equal stretches, the last one maybe shorter."""
    size = -(-len(values) // _POINTS)
    if size <= 1:
        return values
    starts = np.arange(0, len(values), size)
    counts = np.diff(np.append(starts, len(values)))
    means: Floats = np.add.reduceat(values, starts) / counts
    return means


def _most(values: Floats) -> Floats:
    """As :func:`thin`, of counts: the most of each stretch, for a third of a machine is none."""
    size = -(-len(values) // _POINTS)
    return values if size <= 1 else np.maximum.reduceat(values, np.arange(0, len(values), size))


def _end(hours: Floats) -> float:
    return float(hours[-1]) if len(hours) and hours[-1] > 0 else 1.0


def _lines(hours: Floats, lines: Sequence[tuple[str, Floats, str]], ylabel: str) -> str:
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, axes = plots.subplots(figsize=_WIDE)
        for label, values, colour in lines:
            axes.plot(thin(hours), thin(values), color=colour, lw=1.5, label=label)
        hour_axis(axes, _end(hours))
        axes.set_ylabel(ylabel)
        axes.set_ylim(bottom=0)
        legend_above(axes, len(lines))
        return svg(figure)


def _bars(axes: Any, heights: Sequence[Any], names: Sequence[str]) -> None:
    places = np.arange(len(names))
    for values, colour, aside in zip(heights, (WITHOUT, WITH), (-0.2, 0.2), strict=True):
        axes.bar(places + aside, values, width=0.4, color=colour)
    axes.set_xticks(places, names, rotation=60, fontsize=7)
    axes.set_xlim(-0.6, len(names) - 0.4)
    axes.set_ylim(bottom=0)
    count_axis(axes.yaxis)
    axes.grid(visible=False, axis="x")
