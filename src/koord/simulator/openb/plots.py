# SPDX-License-Identifier: Apache-2.0
"""The report's pictures, each as SVG text that stands inside an HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.simulator.openb.defragmentation import PLANNED
from koord.simulator.svg_charts import STYLE, from_zero, legend_above, pyplot, svg

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from koord.simulator.openb.defragmentation import MeansOfRule
    from koord.simulator.openb.published_results import Curves
    from koord.simulator.openb.replay import ReplayedNodes

# One colour a policy in every picture; told apart with any colour vision (Okabe and Ito's palette).
COLOURS = {
    "random": "#999999",
    "dotprod": "#E69F00",
    "clustering": "#56B4E9",
    "packing": "#009E73",
    "bestfit": "#CC79A7",
    "fgd": "#0072B2",
    "koord": "#D55E00",
}
# Shares of all nodes: of a group that has room for an upright name, and for one that lies.
_SEEN_GROUP, _WIDE_GROUP = 0.02, 0.06
_PERCENT: dict[str, Any] = {"aspect": "auto", "vmin": 0, "vmax": 100, "cmap": "cividis"}


def curves_svg(
    curves: Mapping[str, Curves],
    ylabel: str,
    *,
    published: Mapping[str, Curves] | None = None,
    first_bin: int = 0,
) -> str:
    """A line a policy over the arrived load, with a band from the lowest to the highest run.

    Args:
        curves: policy name to values by run and bin.
        ylabel: what is drawn, with its unit.
        published: figures to draw dotted beside those of the same policies.
        first_bin: where the axis begins, to look closely at the loaded end.
    """
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, axes = plots.subplots(figsize=(7.2, 3.6))
        for policy, values in curves.items():
            _draw(axes, values, first_bin, COLOURS.get(policy, "#333333"), policy)
        for policy in curves.keys() & (published or {}).keys():
            x, mean = _mean((published or {})[policy], first_bin)
            axes.plot(x, mean, color=COLOURS.get(policy, "#333333"), lw=1, ls=":")
        axes.set_xlabel("arrived GPU requests, % of the cluster's GPUs")
        axes.set_ylabel(ylabel)
        axes.margins(x=0)
        from_zero(axes)
        legend_above(axes, len(curves))
        return svg(figure)


def moves_svg(rows: Sequence[MeansOfRule]) -> str:
    """A line a policy and rule over the moves: GPUs that later arrivals get more than without."""
    plots = pyplot()
    with plots.rc_context(STYLE):
        figure, axes = plots.subplots(figsize=(7.2, 3.6))
        for row in rows:
            axes.plot(
                [each.moves for each in row.points], [each.gained_gpus for each in row.points],
                color=COLOURS.get(row.policy, "#333333"), lw=2, marker="o", ms=4,
                ls="-" if row.rule == PLANNED else ":", label=f"{row.policy}, {row.rule}",
                clip_on=False,
            )  # fmt: skip
        axes.set_xlabel("moves")
        axes.set_ylabel("GPUs gained")
        axes.margins(x=0.02)
        from_zero(axes)
        legend_above(axes, 3)
        return svg(figure)


def heat_map_svg(ends: Mapping[str, ReplayedNodes]) -> str:
    """How full every node is at the end: a strip of GPU and a strip of CPU for each policy.

    Nodes stand in groups of one model, the fullest first, so that a strip reads as the distribution
    inside each group.
    """
    plots = pyplot()
    with plots.rc_context({**STYLE, "axes.grid": False}):
        figure, axes = plots.subplots(
            len(ends), 1, figsize=(9.6, 0.62 * len(ends) + 1.0), squeeze=False
        )
        image = None
        for row, (policy, nodes) in zip(axes[:, 0], ends.items(), strict=True):
            order, borders = _by_model(nodes)
            gpu = _allocated(nodes.gpu_milli, nodes.gpu_free_milli)
            cpu = _allocated(nodes.cpu_milli, nodes.cpu_free_milli)
            image = row.imshow(
                np.vstack([gpu[order], cpu[order]]), **_PERCENT, interpolation="nearest"
            )
            row.set_yticks([0, 1], ["GPU", "CPU"], fontsize=7)
            row.set_ylabel(policy, rotation=0, ha="right", va="center", labelpad=30)
            row.tick_params(length=0)
            row.set_xticks([])
            for _, end in borders.values():
                row.axvline(end - 0.5, color="white", lw=0.8)
        _label_models(axes[-1, 0], borders)
        bar = figure.colorbar(image, ax=list(axes[:, 0]), fraction=0.02, pad=0.01)
        bar.set_label("allocated, %")
        return svg(figure)


def _draw(axes: Any, values: Curves, first_bin: int, colour: str, label: str) -> None:
    x, mean = _mean(values, first_bin)
    emphasis = 2.2 if label == "koord" else 1.4
    axes.plot(x, mean, color=colour, lw=emphasis, label=label)
    if len(values) > 1:
        shown = values[:, first_bin:]
        filled = ~np.isnan(shown).all(axis=0)
        low, high = np.nanmin(shown[:, filled], axis=0), np.nanmax(shown[:, filled], axis=0)
        axes.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)


def _mean(values: Curves, first_bin: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Bins that any run filled, and the mean over the runs that did."""
    shown = values[:, first_bin:]
    filled = ~np.isnan(shown).all(axis=0)
    return np.flatnonzero(filled) + first_bin, np.nanmean(shown[:, filled], axis=0)


def _allocated(capacity: NDArray[np.int64], free: NDArray[np.int64]) -> NDArray[np.float64]:
    return 100.0 * (capacity - free) / np.maximum(capacity, 1)


def _by_model(nodes: ReplayedNodes) -> tuple[NDArray[np.int64], dict[str, tuple[int, int]]]:
    """Nodes grouped by model, largest group first, fullest node first; and each group's range."""
    models, counts = np.unique(np.asarray(nodes.models), return_counts=True)
    fullness = _allocated(nodes.gpu_milli, nodes.gpu_free_milli)
    order: list[int] = []
    borders: dict[str, tuple[int, int]] = {}
    for model in models[np.argsort(-counts, kind="stable")]:
        members = np.flatnonzero(np.asarray(nodes.models) == model)
        begin = len(order)
        order.extend(members[np.argsort(-fullness[members], kind="stable")].tolist())
        borders[str(model)] = (begin, len(order))
    return np.asarray(order), borders


def _label_models(axes: Any, borders: dict[str, tuple[int, int]]) -> None:
    """Names every group that is wide enough to be seen; upright where its name is wider."""
    total = max(end for _, end in borders.values())
    seen = {model: b - a for model, (a, b) in borders.items() if b - a > _SEEN_GROUP * total}
    places = [sum(borders[model]) / 2 for model in seen]
    axes.set_xticks(places, list(seen), fontsize=8)
    for label, width in zip(axes.get_xticklabels(), seen.values(), strict=True):
        label.set_rotation(0 if width > _WIDE_GROUP * total else 90)
    axes.set_xlabel(f"{total} nodes by GPU model, the fullest first")
