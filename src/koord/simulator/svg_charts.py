# SPDX-License-Identifier: Apache-2.0
"""How pictures of reports are drawn: one style, as SVG text that stands inside an HTML page."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

from koord.base.errors import MissingExtraError

INK, GRID = "#010203", "#040506"
"""Stand for the page's own colours of text and grid, light or dark: :func:`svg` puts those in."""
_PAGE = {INK: "currentColor", GRID: "var(--line, #dfe3e8)"}
STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": GRID,
    "svg.fonttype": "none",
    # Fixed ids: the same runs give the same bytes.
    "svg.hashsalt": "koord",
}
"""For ``pyplot.rc_context``."""


def require_matplotlib() -> None:
    """MissingExtraError where matplotlib is not installed; does not load it."""
    if find_spec("matplotlib") is None:
        raise MissingExtraError("matplotlib", "sim")


def pyplot() -> Any:
    """matplotlib's pyplot, drawing SVG.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    require_matplotlib()
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as found

    return found


def svg(figure: Any) -> str:
    """The text of a figure, which is closed."""
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", bbox_inches="tight", transparent=True, metadata={"Date": None}
    )
    pyplot().close(figure)
    text = buffer.getvalue()
    for stand_in, colour in _PAGE.items():
        text = text.replace(stand_in, colour)
    return text[text.index("<svg") :]


def legend_above(axes: Any, columns: int, *, reverse: bool = False) -> None:
    """The legend over the axes, where no data can be."""
    axes.legend(
        frameon=False, fontsize=8, ncols=columns, loc="lower left", bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2, reverse=reverse,
    )  # fmt: skip


def count_axis(axis: Any) -> None:
    """Ticks of what can be counted: whole numbers alone."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))


def from_zero(axes: Any) -> None:
    """Lets axes begin at 0 that the margins around data let begin below it."""
    if axes.dataLim.y0 >= 0:
        axes.set_ylim(bottom=max(axes.get_ylim()[0], 0.0))
    if axes.dataLim.x0 >= 0:
        axes.set_xlim(left=max(axes.get_xlim()[0], 0.0))


def hour_axis(axes: Any, hours: float) -> None:
    """An axis of hours from 0 to the end, with ticks that a clock has."""
    from matplotlib.ticker import MultipleLocator

    step = next((each for each in (0.25, 0.5, 1, 2, 4) if hours / each <= 8), 24)
    axes.xaxis.set_major_locator(MultipleLocator(step))
    axes.set_xlim(0, hours)
    axes.set_xlabel("hours since the start")
