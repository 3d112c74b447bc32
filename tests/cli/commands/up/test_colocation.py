# SPDX-License-Identifier: Apache-2.0
"""``koord up --colocation``: an hour of two machines on virtual time, and what it shows."""

from __future__ import annotations

import io
import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from koord.base.clock import VirtualClock
from koord.cli.commands.up import colocation_screen as screen
from koord.cli.commands.up.colocation import Speedometer
from koord.cli.commands.up.colocation_screen import ScreenState
from koord.simulator.live import workload
from koord.simulator.live.run_record import RunRecord
from tests.cli.conftest import Run
from tests.simulator.live.samples import record, sample

# They wake fast: from 13 cores a machine at 6 o'clock to 18 at 7.
_WAKING = workload.ServiceWorkload(
    "web", 4, 6, 8, {"cpu": 0.75, "amplitude": 1, "peakHour": 13, "noise": 0}
)

_MINUTES = 5


def _state(kept: RunRecord, **fields: Any) -> ScreenState:
    made = ScreenState(
        1_767_592_800.0, 60, 60.0, kept, 9, "export KUBECONFIG=here", "there/report.html"
    )
    return made._replace(**fields)


def _drawn(state: ScreenState, width: int, height: int) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(screen.frame(state, width, height))
    return console.export_text().splitlines()


def test_a_day_begins(koord: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workload, "SERVICES", (_WAKING,))
    status, out, err = koord(
        "up", "--colocation", "--nodes", 2, "--hours", 1, "--speed", 0, "--seed", 3,
        "-o", "json", "--report", tmp_path,
    )  # fmt: skip
    assert status == 0, err
    figures = json.loads(out)
    assert figures["hours"] == pytest.approx(1)
    used = figures["cpu_utilisation_percent"]
    assert used["with_batch"] > used["services_alone"] + 5
    assert figures["batch_tasks"]["finished"] > 0
    assert 0 < figures["batch_core_hours"] <= 2 * 32
    assert figures["suppressed_machine_minutes"] > 0, "services have woken"
    assert figures["short_service_pod_minutes"] == 0
    lines = [line for line in err.splitlines() if "used of offered" in line]
    assert len(lines) == 6, "one for ten minutes"
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert figures["report"] == str(tmp_path / "report.html")
    assert re.search("holds? batch down", page)


def test_an_interrupt_ends_the_day_and_leaves_the_report(
    koord: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = RunRecord.add

    def interrupted(kept: RunRecord, *minute: Any) -> None:
        add(kept, *minute)
        if len(kept.samples) == _MINUTES:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(RunRecord, "add", interrupted)
    status, out, err = koord(
        "up", "--colocation", "--nodes", 2, "--speed", 0, "-o", "json", "--report", tmp_path
    )
    assert status == 0, err
    figures = json.loads(out)
    assert _MINUTES <= round(figures["hours"] * 60) < 24 * 60
    assert figures["report"] == str(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "a cluster with co-location" in page
    assert page.rstrip().endswith("</html>")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--data", "x"), "--data"),
        (("--without", "nodes"), "--without"),
        (("--report", "/dev/null/x"), "--report"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    koord: Run, words: tuple[str, ...], said: str
) -> None:
    status, out, err = koord("up", "--colocation", *words)
    assert (status, out) == (2, "")
    assert err.startswith("error: " + said)
    assert err.count("\n") == 1


@given(st.integers(44, 200), st.integers(11, 80), st.sampled_from((30.0, 60.0)))
def test_the_screen_fits(width: int, height: int, speed: float) -> None:
    lines = _drawn(_state(record(), speed=speed), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
    assert lines[-1].startswith("export KUBECONFIG=here"), "how to get there is never cut off"
    text = " ".join(" ".join(lines).split())
    assert "Mon 06:00" in text
    for whole in (
        "services short of CPU: none", "batch held back on 1 of 3 machines", "without batch",
        "21 of 27 cores used of offered", "6 run, 2 wait, 6 done, 1 evicted", "3 machines, 96 CPUs",
    ):  # fmt: skip
        assert whole in text, "no line is cut"
    if height >= 24:
        assert "node-0" in text
        assert "a column is 3 minutes" in text
        assert "▒▒ batch" in text


def test_a_narrow_and_low_terminal_leaves_out_the_least_important() -> None:
    access = "export KUBECONFIG=/tmp/koord-up-z1b7a2y4/kubeconfig"
    state = _state(record(), speed=49.0, requested_speed=240, access=access)
    lines = _drawn(state, 60, 20)
    assert lines[:7] == [
        "Mon 06:00 UTC   49 s a second of 240: the CPU is short",
        "3 machines, 96 CPUs",
        "services short of CPU: none",
        "batch held back on 1 of 3 machines",
        "without batch ░█████████████··························  36 %",
        "with batch    ░█████████████▒▒▒▒▒▒▒▒▒·················  58 %",
        "batch    21 of 27 cores used of offered",
    ]
    assert lines[7] == "batch tasks    6 run, 2 wait, 6 done, 1 evicted"
    assert [line.rstrip() for line in lines[8:10]] == ["", "100%"]
    assert lines[-1] == access + "   Ctrl-C"
    assert len(lines) == 20
    assert not any("…" in line for line in lines)


def test_what_happened_is_told_to_its_end() -> None:
    kept = record()
    lines = screen.events(_state(kept), 80, 3).plain.splitlines()
    assert lines == [
        "06:41 suppressed node-0 holds batch down, to 70 % of its wish at the least",
        "06:49 evicted    train-1-1 evicted from node-1: batch was left less than 60 % of",
        "                 the CPU that it asks for",
    ]


def test_the_last_line_says_how_it_ends_in_the_words_that_fit() -> None:
    access = "export KUBECONFIG=/tmp/koord-up-z1b7a2y4/kubeconfig"
    state = _state(record(), access=access, report="reports/colocation/report.html")
    last = [_drawn(state, width, 24)[-1] for width in (98, 97, 80, 62, 52)]
    assert last == [
        access + "   Ctrl-C writes reports/colocation/report.html",
        access + "   Ctrl-C ends it",
        access + "   Ctrl-C ends it",
        access + "   Ctrl-C",
        access,
    ]
    long = _drawn(_state(record(), access="export KUBECONFIG=/home/" + "x" * 70), 60, 24)
    assert "".join(long[-2:]) == "export KUBECONFIG=/home/" + "x" * 70


def test_the_screen_says_what_is_so() -> None:
    text = "\n".join(_drawn(_state(record()), 140, 50))
    assert "services short of CPU: none   batch held back on 1 of 3 machines" in text
    assert "21 of 27 cores used of offered" in text
    assert "6 run, 2 wait, 6 done, 1 evicted" in text
    assert "held to 70 %" in text
    assert "train-1-1 evicted from node-1" in text
    assert "export KUBECONFIG=here" in text
    assert "the CPU is short" not in text
    slow = "\n".join(_drawn(_state(record(), speed=30.0), 140, 50))
    assert "30 s a second of 60: the CPU is short" in slow


def test_a_service_that_is_short_is_said_before_all_else() -> None:
    kept = record()
    kept.add(sample(61, short_pods=4))
    lines = _drawn(_state(kept), 80, 24)
    assert lines[1] == "services short of CPU: 4 pods   batch held back on 0 of 3 machines"


def test_the_chart_says_its_hours() -> None:
    lines = _drawn(_state(record()), 80, 24)
    axis = next(line for line in lines if "└" in line)
    assert axis.rstrip() == "     └06:01             └07:00"
    kept = RunRecord(["a", "b", "c"], [32] * 3)
    for minute in range(10 * 60):
        kept.add(sample(minute))
    last = screen.chart(_state(kept), 80, 4).plain.splitlines()[-1]
    # 74 columns of three minutes end at 16:00; the first is 12:18.
    assert last == "     └12:18        └13:00              └14:00              └15:00"


def test_machines_that_hold_batch_back_come_first_where_not_all_fit() -> None:
    names = [f"node-{row:03}" for row in range(40)]
    kept, column = RunRecord(names, [32] * 40), np.ones(40)
    nothing: dict[str, Any] = dict.fromkeys(
        ("services", "batch", "system", "offered", "memory_bytes"), column
    )
    held = column.copy()
    held[37] = 0.5
    kept.add(sample()._replace(held=held, allowed=column, **nothing))
    lines = _drawn(_state(kept), 80, 24)
    shown = [line.split()[0] for line in lines if line.startswith("node-")]
    assert shown == ["node-037", "node-000", "node-001", "node-002"]
    assert "and 36 more" in "\n".join(lines)


def test_before_the_first_minute_it_says_what_it_waits_for() -> None:
    lines = _drawn(_state(RunRecord(["a"], [4]), speed=0.0), 100, 40)
    assert lines == [
        "Mon 06:00 UTC   1 machine, 4 CPUs",
        "services are being placed ...",
        "export KUBECONFIG=here   Ctrl-C writes there/report.html",
    ]


def test_more_machines_than_fit_are_counted() -> None:
    names = [f"node-{row:03}" for row in range(200)]
    kept, column = RunRecord(names, [32] * 200), np.ones(200)
    nothing: dict[str, Any] = dict.fromkeys(
        ("services", "batch", "system", "offered", "memory_bytes"), column
    )
    kept.add(sample()._replace(held=column, allowed=column, **nothing))
    assert "and 181 more" in "\n".join(_drawn(_state(kept), 80, 49))


def test_the_chart_has_a_layer_for_each_class() -> None:
    text = screen.chart(_state(record()), 60, 10).plain
    top = [line for line in text.splitlines() if "▒" in line]
    assert top, "batch lies on top of services"
    assert "░" in text.splitlines()[-3] or "█" in text.splitlines()[-3]


def test_lines_come_every_ten_minutes() -> None:
    stream, kept = io.StringIO(), RunRecord(["a", "b", "c"], [32] * 3)
    lines = screen.LineDisplay(stream)
    for minute in range(31):
        kept.add(sample(minute, services=[8, 8, 8]))
        lines.show(_state(kept))
        lines.show(_state(kept))
    said = stream.getvalue().splitlines()
    assert [line[:9] for line in said] == ["Mon 06:00", "Mon 06:10", "Mon 06:20", "Mon 06:30"]
    assert "services short of CPU   0  CPU  25.0 %, without batch  25.0 %" in said[0]


def test_the_picture_is_small_and_tells_no_folders() -> None:
    text = screen.picture(_state(record()))
    assert text.startswith("<svg")
    assert "KUBECONFIG" not in text
    assert len(text.encode()) < 100 << 10


def test_the_speed_is_that_of_the_last_seconds() -> None:
    real, virtual = VirtualClock(), VirtualClock()
    meter = Speedometer(real, virtual)
    assert meter.now() == 0
    for speed in (10, 40):
        for _ in range(10):
            real.advance(1)
            virtual.advance(speed)
            meter.read()
        assert meter.now() == pytest.approx(speed)
    assert meter.overall() == pytest.approx(25)
