# SPDX-License-Identifier: Apache-2.0
"""What moves are worth, as rows, lines and a page, of figures that are given."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from koord.simulator.colocation.descheduling import summary
from koord.simulator.colocation.descheduling.comparison import DeschedulingResult
from koord.simulator.colocation.descheduling.movable_services import DeschedulingMode
from koord.simulator.colocation.descheduling.page import write_report
from tests.simulator.colocation.days import day

_MODES = list(DeschedulingMode)


def _result(mode: DeschedulingMode, seed: int, hot: float, moves: int) -> DeschedulingResult:
    return DeschedulingResult(
        mode, seed, (hot, hot / 10), moves, 0, 900, 0.25, 0.25, 57.5 - moves / 50,
        1.0 - moves / 50, 31.5, 24.0, 27.5, 28.0, 6000.0, np.array([[1, 0], [2, 1]]),
        (0.5,) * moves, 40.0,
    )  # fmt: skip


def _results() -> list[DeschedulingResult]:
    figures = list(zip(_MODES, ((6.0, 0), (0.5, 50), (0.0, 20)), strict=True))
    return [
        _result(mode, seed, hot + seed, moves) for seed in (1, 3) for mode, (hot, moves) in figures
    ]


def test_rows_are_means_over_the_seeds_of_a_mode() -> None:
    rows = summary.rows(summary.means(_results()))
    assert rows == [
        ["none", "2", "8.00", "0.80", "0.0", "0.0", "900", "0.250", "0.250", "57.50"],
        ["one-by-one", "2", "2.50", "0.25", "50.0", "0.0", "900", "0.250", "0.250", "56.50"],
        ["planned", "2", "2.00", "0.20", "20.0", "0.0", "900", "0.250", "0.250", "57.10"],
    ]
    assert all(len(row) == len(summary.HEADS) for row in rows)


def test_effects_are_told_against_the_day_without_moves() -> None:
    assert summary.effects(summary.means(_results())) == [
        "one-by-one: node-minutes over 65 % -69 %, CPU in use -1.7 % (-1.00 points; services' "
        "use above what batch may fill -1.00)",
        "planned: node-minutes over 65 % -75 %, CPU in use -0.7 % (-0.40 points; services' use "
        "above what batch may fill -0.40), 40 % of the moves of one-by-one",
    ]
    assert summary.effects(summary.means(_results()[1:2])) == []


def test_a_day_that_is_never_hot_has_no_ratio() -> None:
    calm = [_result(mode, 1, 0.0, 0) for mode in _MODES]
    lines = summary.effects(summary.means(calm))
    assert lines[1].startswith("planned: node-minutes over 65 % 0.00 % instead of none,")
    assert "of the moves" not in lines[1]


def test_the_page_has_both_pictures_and_says_what_it_lacks(tmp_path: Path) -> None:
    path = write_report(_results(), day(hours=0.1), tmp_path, "koord <x>", "6 of 30 runs")
    text = path.read_text(encoding="utf-8")
    assert text.count("<svg") == 2
    assert "<code>koord &lt;x&gt;</code>" in text
    assert "interrupted after 6 of 30 runs" in text
    assert "seeds 1, 3." in text


def test_each_picture_says_in_a_sentence_what_to_see() -> None:
    means = summary.means(_results())
    assert summary.hot_sentence(means) == (
        "Node-minutes in which services alone use over 65 % of the CPU: 8.00 % without moves, "
        "2.50 % one by one, 2.00 % planned."
    )
    assert summary.moves_sentence(means) == (
        "Moves: 50 one by one, 0 of them undone within an hour; 20 planned, 0 of them undone "
        "within an hour."
    )
    assert summary.moves_sentence(means[:1]) == "Nobody moves pods."


def test_minutes_of_hot_machines_are_counted_whole(tmp_path: Path) -> None:
    """Of few machines a share is in tens of percent, and many a line goes up and down with it."""
    text = write_report(_results(), day(hours=0.1), tmp_path, "koord").read_text(encoding="utf-8")
    drawn = re.findall(r"<text[^>]*>([^<]*)</text>", text)
    assert "machine-minutes so far" in drawn
    assert "machines, %" not in drawn
    assert summary.HEADS_MEAN.split("; ")[1] in text
