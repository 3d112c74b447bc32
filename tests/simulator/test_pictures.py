# SPDX-License-Identifier: Apache-2.0
"""What holds for every picture of a report: legends off the data, named axes and machines, and no
range that nothing can be in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from koord.simulator.colocation.descheduling import page as descheduling_page
from koord.simulator.colocation.descheduling.comparison import DeschedulingResult
from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode
from koord.simulator.colocation.report import charts
from koord.simulator.colocation.report.page import write_report
from koord.simulator.openb import plots
from koord.simulator.svg_charts import svg
from tests.simulator.colocation.days import day
from tests.simulator.colocation.outcomes import outcome


def _with_descheduler(folder: Path) -> None:
    days = [
        DeschedulingResult(
            mode, 1, (2.0, 0.0), 2, 0, 9, 0.2, 0.2, 57.0, 1.0, 31.5, 24.0, 27.5, 28.0, 6000.0,
            np.array([[1, 0], [2, 1]]), (0.5, 1.5), 40.0,
        )
        for mode in DeschedulingMode
    ]  # fmt: skip
    descheduling_page.write_report(days, day(hours=0.1), folder, "koord")


def _with_curves() -> None:
    line = np.linspace(0.0, 96.0, 131)
    curves = {name: np.array([line, line * 0.9]) for name in ("fgd", "koord")}
    plots.curves_svg(curves, "GPU allocated, %")
    plots.curves_svg(curves, "GPU allocated, %", first_bin=80)


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """The figures of three reports."""
    found: list[Any] = []

    def kept(figure: Any) -> str:
        text = svg(figure)
        found.append(figure)
        return text

    folder = tmp_path_factory.mktemp("reports")
    with pytest.MonkeyPatch.context() as patch:
        for module in (charts, plots, descheduling_page):
            patch.setattr(module, "svg", kept)
        write_report(outcome(), folder, "koord")
        _with_descheduler(folder)
        _with_curves()
    assert len(found) == 6 + 2 + 2
    return found


def test_legends_are_off_the_data(figures: list[Any]) -> None:
    seen = 0
    for figure in figures:
        figure.canvas.draw()
        legends = [each.get_legend() for each in figure.axes] + list(figure.legends)
        for legend in filter(None, legends):
            seen += 1
            place = legend.get_window_extent()
            for axes in figure.axes:
                shared = type(place).intersection(place, axes.get_window_extent())
                assert shared is None or min(shared.width, shared.height) < 1
    assert seen >= 7


def test_axes_are_named_and_have_no_range_that_nothing_can_be_in(figures: list[Any]) -> None:
    for figure in figures:
        for axes in figure.axes:
            assert axes.get_xlabel() or axes.get_ylabel()
            assert min(*axes.get_xlim(), *axes.get_ylim()) >= -0.6, "half a bar, at the most"


def test_machines_and_pods_have_names(tmp_path: Path) -> None:
    text = write_report(outcome(), tmp_path, "koord").read_text(encoding="utf-8")
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", text)
    assert {"machine 0", "machine 1"} <= set(drawn)
    assert re.search(r"<td[^>]*>web-3</td>\s*<td[^>]*>machine 1</td>", text)
