# SPDX-License-Identifier: Apache-2.0
"""The report's pictures, each as SVG text; colours are told apart with any colour vision."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from koord.simulator.pictures import STYLE, pyplot, svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.simulator.colocation.result import Floats, Outcome, Series, Singles

SYSTEM, SERVICES, BATCH = "#999999", "#0072B2", "#E69F00"
WITHOUT, WITH, OFFERED, ALARM = "#56B4E9", "#D55E00", "#009E73", "#CC79A7"
SIDES = ("without", "with co-location")
_HEAT: dict[str, Any] = {"aspect": "auto", "vmin": 0, "vmax": 100, "cmap": "cividis"}
_WIDE = (9.6, 3.2)
_HOURS = "hours since the start"
_POINTS = 480
"""More than so many points a line are not seen; what lies between is averaged."""


def utilisation(sides: Mapping[str, Series], capacity_cores: float) -> str:
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
            axes.axhline(mean, color="black", lw=1, ls="--")
            axes.annotate(
                f"{mean:.1f} %", (hours[-1], mean), xytext=(-2, 4), ha="right",
                textcoords="offset points", fontsize=10, fontweight="bold",
            )  # fmt: skip
            axes.set_title(title, fontsize=10)
            axes.set_xlabel(_HOURS)
            axes.set_ylim(0, 100)
            axes.margins(x=0)
        both[0].set_ylabel("CPU of the cluster, %")
        both[0].legend(frameon=False, loc="upper left", reverse=True)
        figure.tight_layout()
        return svg(figure)


def offers(series: Series) -> str:
    """What the manager offered to batch pods, what they asked for and what they used."""
    lines = (
        ("offered", series.batch_offered_cores, OFFERED),
        ("requested by running pods", series.batch_requested_cores, WITH),
        ("used", series.cpu_batch, BATCH),
    )
    return _lines(series.hours, lines, "cores")


def waiting(outcome: Outcome) -> str:
    """How many batch tasks ran and waited, on both sides."""
    before, after = outcome.without.series, outcome.with_.series
    lines = (
        ("running, without", before.batch_running_pods, WITHOUT),
        ("running, with", after.batch_running_pods, WITH),
        ("waiting, without", before.batch_waiting_pods, SYSTEM),
        ("waiting, with", after.batch_waiting_pods, "black"),
    )
    return _lines(after.hours, lines, "batch tasks")


def protection(series: Series) -> str:
    """Machines whose batch pods were held down, and tasks evicted."""
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, axes = plots.subplots(figsize=_WIDE)
        hours = thin(series.hours)
        axes.fill_between(hours, thin(series.suppressed_machines), color=BATCH, lw=0)
        axes.set_ylabel("machines with suppressed batch")
        axes.set_xlabel(_HOURS)
        axes.margins(x=0)
        axes.set_ylim(bottom=0)
        right = axes.twinx()
        right.plot(series.hours, np.cumsum(series.evictions), color=WITH, lw=1.6)
        right.set_ylabel("tasks evicted so far", color=WITH)
        right.set_ylim(bottom=0)
        right.margins(x=0)
        right.grid(visible=False)
        return svg(figure)


def shortage(outcome: Outcome) -> str:
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
                thin(run.series.short_pods),
                color=colour,
                lw=1.2,
                label=label,
            )
        over.set_xlabel(_HOURS)
        over.set_ylabel("pods short of CPU")
        over.set_ylim(bottom=0)
        over.margins(x=0)
        over.legend(frameon=False, fontsize=8)
        edges = outcome.with_.shortage.grant_edges
        names = [f"{100 * a:.0f}-{100 * b:.0f}" for a, b in itertools.pairwise(edges)]
        _bars(much, [run.shortage.minutes_by_grant for run, _, _ in runs], names)
        much.set_xlabel("granted, % of what was wanted")
        much.set_ylabel("pod-minutes")
        lengths = outcome.with_.shortage.length_edges_minutes
        _bars(
            long, [run.shortage.shortages_by_length for run, _, _ in runs],
            [f"{each}" for each in lengths[:-1]] + [f"{lengths[-1]}+"],
        )  # fmt: skip
        long.set_xlabel("length from, minutes")
        long.set_ylabel("shortages")
        figure.tight_layout()
        return svg(figure)


def machines(sides: Mapping[str, Floats | Singles], hours: Floats) -> str:
    """Machines over time, a strip each, on two sides.

    Args:
        sides: the share of each machine's CPU in use, shape (machines, minutes), by title.
        hours: of each minute.
    """
    plots = pyplot()
    with plots.rc_context({**STYLE, "axes.grid": False}):
        figure, both = plots.subplots(1, 2, figsize=(9.6, 3.0), sharey=True)
        image = None
        for axes, (title, share) in zip(both, sides.items(), strict=True):
            shown = np.stack([thin(row.astype(np.float64)) for row in share])
            image = axes.imshow(
                100 * shown, **_HEAT, interpolation="nearest",
                extent=(0.0, float(hours[-1]) if len(hours) else 1.0, len(share), 0),
            )  # fmt: skip
            axes.set_title(title, fontsize=10)
            axes.set_xlabel(_HOURS)
            axes.set_yticks([])
        both[0].set_ylabel(f"{len(share)} machines")
        bar = figure.colorbar(image, ax=list(both), fraction=0.02, pad=0.01)
        bar.set_label("CPU in use, %")
        return svg(figure)


def thin(values: Floats) -> Floats:
    """At most :data:`_POINTS` values: means of equal stretches, the last one maybe shorter."""
    size = -(-len(values) // _POINTS)
    if size <= 1:
        return values
    starts = np.arange(0, len(values), size)
    counts = np.diff(np.append(starts, len(values)))
    means: Floats = np.add.reduceat(values, starts) / counts
    return means


def _lines(hours: Floats, lines: Sequence[tuple[str, Floats, str]], ylabel: str) -> str:
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, axes = plots.subplots(figsize=_WIDE)
        for label, values, colour in lines:
            axes.plot(thin(hours), thin(values), color=colour, lw=1.5, label=label)
        axes.set_xlabel(_HOURS)
        axes.set_ylabel(ylabel)
        axes.set_ylim(bottom=0)
        axes.margins(x=0)
        axes.legend(frameon=False, fontsize=8, ncols=2)
        return svg(figure)


def _bars(axes: Any, heights: Sequence[Any], names: Sequence[str]) -> None:
    places = np.arange(len(names))
    for values, colour, aside in zip(heights, (WITHOUT, WITH), (-0.2, 0.2), strict=True):
        axes.bar(places + aside, values, width=0.4, color=colour)
    axes.set_xticks(places, names, rotation=60, fontsize=7)
    axes.set_ylim(bottom=0)
    axes.grid(visible=False, axis="x")
