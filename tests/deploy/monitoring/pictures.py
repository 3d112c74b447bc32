# SPDX-License-Identifier: Apache-2.0
"""Pictures of panels from what Prometheus answered.

Drawn by Matplotlib, not by Grafana: they show the data of a panel, its title, unit and legend, and
nothing of how Grafana looks.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np

from tests.deploy.monitoring.panels import Dashboard, Panel, Query

mpl.use("Agg")
from matplotlib import pyplot as plt

_LABEL = re.compile(r"\{\{(\w+)\}\}")
_COLUMNS, _SHOWN = 3, 8
# In seconds, a second between two points: where more is between them there were none.
_GAP_SECONDS = 1.5
_SCALES = {
    "bytes": (2**30, "GiB"),
    "ops": (1, "a second"),
    "percentunit": (0.01, "%"),
    "s": (0.001, "ms"),
    "short": (1, ""),
}


class Answer(NamedTuple):
    """What a query gave: its series, as Prometheus tells them."""

    query: Query
    series: list[dict[str, Any]]

    def finite(self) -> bool:
        """Whether there is a number among the values."""
        return any(
            math.isfinite(float(value)) for each in self.series for _, value in each["values"]
        )


def draw(dashboard: Dashboard, answers: dict[str, list[Answer]], note: str, path: Path) -> None:
    """All panels of a dashboard.

    Args:
        dashboard: its description.
        answers: of each panel's queries, by :func:`key`.
        note: what the reader has to know of the time.
        path: of the picture, a PNG.
    """
    panels = dashboard.panels()
    rows = -(-len(panels) // _COLUMNS)
    figure, axes = plt.subplots(
        rows, _COLUMNS, figsize=(15, 3.4 * rows), squeeze=False, layout="constrained"
    )
    for place, axis in enumerate(axes.flat):
        if place < len(panels):
            _panel(axis, panels[place], answers[key(dashboard, panels[place])])
        else:
            axis.set_axis_off()
    figure.suptitle(f"{dashboard.title} (drawn by Matplotlib from Prometheus' answers; {note})")
    figure.savefig(path, dpi=70)
    plt.close(figure)


def key(dashboard: Dashboard, panel: Panel) -> str:
    """Names a panel among all: two rows may have one of the same title."""
    return f"{dashboard.name}/{dashboard.panels().index(panel)}"


def _panel(axis: Any, panel: Panel, answers: list[Answer]) -> None:
    scale, unit = _scale(panel, answers)
    lines = [
        (legend(answer.query, each["metric"]), _values(each, scale))
        for answer in answers
        for each in answer.series[:_SHOWN]
    ]
    lines = [(name, points) for name, points in lines if points]
    if panel.stacked and lines:
        times = sorted({at for _, points in lines for at in points})
        heights = [[points.get(at, 0.0) for at in times] for _, points in lines]
        axis.stackplot(_since(times, times[0]), heights, labels=[name for name, _ in lines])
    else:
        first = min((min(points) for _, points in lines), default=0.0)
        for name, points in lines:
            times, values = with_gaps(points)
            axis.plot(_since(times, first), values, label=name, linewidth=1)
    if not lines:
        axis.text(0.5, 0.5, "no data", ha="center", va="center", transform=axis.transAxes)
    axis.set_title(panel.title, fontsize=10)
    axis.set_ylabel(unit, fontsize=8)
    axis.set_xlabel("s", fontsize=8)
    axis.set_ylim(bottom=0)
    axis.tick_params(labelsize=7)
    if lines:
        axis.legend(fontsize=6, loc="best", ncols=2)


def _scale(panel: Panel, answers: list[Answer]) -> tuple[float, str]:
    """What values are divided by, and the unit that is left: short times are milliseconds."""
    values = (float(v) for each in answers for one in each.series for _, v in one["values"])
    if panel.unit == "s" and any(math.isfinite(value) and value >= 1 for value in values):
        return 1, "s"
    return _SCALES.get(panel.unit, (1, panel.unit))


def _values(series: dict[str, Any], scale: float) -> dict[float, float]:
    pairs = ((float(at), float(value) / scale) for at, value in series["values"])
    return {at: value for at, value in pairs if math.isfinite(value)}


def with_gaps(points: dict[float, float]) -> tuple[list[float], list[float]]:
    """Times and values of a line that breaks where points are missing."""
    times: list[float] = []
    values: list[float] = []
    for at, value in points.items():
        if times and at - times[-1] > _GAP_SECONDS:
            times.append(at)
            values.append(math.nan)
        times.append(at)
        values.append(value)
    return times, values


def _since(times: list[float], first: float) -> Any:
    return np.array(times) - first


def legend(query: Query, labels: dict[str, str]) -> str:
    """The name of a series, as Grafana makes it of a legend's format."""
    return _LABEL.sub(lambda found: labels.get(found[1], ""), query.legend)
