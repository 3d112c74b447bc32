# SPDX-License-Identifier: Apache-2.0
"""How pictures of reports are drawn: one style, as SVG text that stands inside an HTML page."""

from __future__ import annotations

import io
from importlib.util import find_spec
from typing import Any

from koord.base.errors import MissingExtraError

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
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
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    pyplot().close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]
