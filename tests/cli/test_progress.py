# SPDX-License-Identifier: Apache-2.0
"""What long work tells where no bar can be drawn."""

from __future__ import annotations

import io

import pytest

from koord.cli.terminal import output
from koord.cli.terminal.output import ProgressLines

from .conftest import Run


def test_a_line_comes_every_ten_seconds_with_what_is_left() -> None:
    stream, now = io.StringIO(), [100.0]
    lines = ProgressLines("simulating", 1000, stream, lambda: now[0])
    for seconds, steps in ((5, 10), (5, 10), (5, 80), (6, 300), (40, 600)):
        now[0] += seconds
        lines.advance(steps)
    assert stream.getvalue().splitlines() == [
        "simulating: 2 %, about 8 min left",
        "simulating: 40 %, about 25 s left",
    ]


def test_what_it_takes_to_begin_is_not_taken_for_the_work() -> None:
    stream, now = io.StringIO(), [0.0]
    lines = ProgressLines("simulating", 1000, stream, lambda: now[0])
    now[0] = 30
    lines.advance(1)
    for _ in range(3):
        now[0] += 1
        lines.advance(10)
    assert stream.getvalue().splitlines() == ["simulating: 1 %, about 99 s left"]


def test_short_work_is_silent() -> None:
    stream, now = io.StringIO(), [0.0]
    lines = ProgressLines("placing pods", 3, stream, lambda: now[0])
    for _ in range(3):
        now[0] += 3
        lines.advance(1)
    assert stream.getvalue() == ""


def test_a_piped_simulation_tells_on_standard_error_alone(
    koord: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "PROGRESS_SECONDS", 0.0)
    words = ("simulate", "colocation", "--nodes", 2, "--hours", 1, "--step", "30s", "-o", "json")
    status, out, err = koord(*words)
    assert status == 0
    assert out.startswith("{")
    assert "simulating" not in out
    lines = err.splitlines()
    assert lines
    assert all(line.startswith("simulating: ") and line.endswith(" left") for line in lines)
