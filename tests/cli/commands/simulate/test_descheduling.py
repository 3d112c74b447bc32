# SPDX-License-Identifier: Apache-2.0
"""``koord simulate colocation --descheduler`` as a user calls it."""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import Run
from tests.simulator.colocation.days import document

_RUN = {"seed", "seconds"}
_FIGURES = {
    "rounds", "hot_node_minutes_percent", "moves", "undone", "suppressions",
    "latency_sensitive_short_pod_minutes_percent", "bound_short_pod_minutes_percent",
    "cpu_utilisation_percent", "services_above_batch_line_percent", "cpu_services_percent",
    "cpu_batch_percent", "batch_offered_percent", "batch_requested_percent", "batch_core_hours",
}  # fmt: skip


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    spot = {"machines": 1, "every": "1h", "extra": 0.9}
    small = document(hours=0.1, step="60s", hotSpot=spot, servicesRequestShareOfClusterCPU=0.7)
    path.write_text(yaml.safe_dump(small), encoding="utf-8")
    return path


@pytest.fixture
def descheduling(koord: Run, scenario: Path) -> Run:
    return partial(koord, "simulate", "colocation", "--descheduler", "--scenario", scenario)


def test_json_has_every_run_and_means(descheduling: Run) -> None:
    status, out, _ = descheduling("--seed", "1,4", "--rounds", "none,planned", "-o", "json")
    assert status == 0
    found = json.loads(out)
    assert list(found) == ["scenario", "machines", "hours", "runs", "means"]
    assert (found["scenario"], found["machines"], found["hours"]) == ("small", 4, 0.1)
    assert [(run["seed"], run["rounds"]) for run in found["runs"]] == [
        (1, "none"), (1, "planned"), (4, "none"), (4, "planned"),
    ]  # fmt: skip
    assert all(set(run) == _FIGURES | _RUN for run in found["runs"])
    assert [(row["rounds"], row["runs"]) for row in found["means"]] == [("none", 2), ("planned", 2)]
    assert set(found["means"][0]) == _FIGURES | {"runs"}
    assert set(found["runs"][0]["hot_node_minutes_percent"]) == {"65", "80"}
    assert 0 < found["runs"][0]["cpu_utilisation_percent"] < 100


def test_text_is_a_table_what_changes_and_bars(descheduling: Run, tmp_path: Path) -> None:
    status, out, _ = descheduling("--report", tmp_path / "out")
    assert status == 0
    lines = out.splitlines()
    assert lines[1].split()[:2] == ["rounds", "runs"]
    modes = ["none", "one-by-one", "planned"]
    assert [line.split()[0] for line in lines[2:5]] == modes
    assert [line.split(":")[0] for line in lines[5:7]] == modes[1:]
    assert [line.split()[0] for line in lines[9:12]] == modes
    assert lines[-1] == f"report: {tmp_path / 'out' / 'report.html'}"
    assert "one-by-one" in (tmp_path / "out/report.html").read_text(encoding="utf-8")


def test_a_signal_ends_it_with_what_there_is(
    descheduling: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from koord.simulator.colocation.descheduling import comparison

    run = comparison.descheduled_day

    def stop_after(*args: object, **options: object) -> object:
        found = run(*args, **options)  # type: ignore[arg-type]
        os.kill(os.getpid(), signal.SIGINT)
        return found

    monkeypatch.setattr(comparison, "descheduled_day", stop_after)
    status, out, err = descheduling("--rounds", "none,planned", "-o", "json")
    assert status == 130
    found = json.loads(out)
    assert found["partial"] == {"runs": 1, "of_runs": 2}
    assert [run["rounds"] for run in found["runs"]] == ["none"]
    assert "interrupted: partial result: 1 of 2 runs" in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--descheduler", "--rounds", "plannd"],
            "error: --rounds: got 'plannd', expected one of none, one-by-one, planned"
            " (did you mean planned?)\n",
        ),
        (["--rounds", "none"], "error: --rounds: got 'none', expected --descheduler beside it\n"),
        (
            ["--descheduler", "--nodes", "1001"],
            "error: --nodes: got 1001, expected at most 1000 machines beside --descheduler\n",
        ),
        # The descheduler itself says so, in its first round.
        (["--descheduler", "--nodes", "1", "--hours", "0.1"], "got 1, expected 2 ready nodes"),
        (["--descheduler", "--seed", "x"], "--seed"),
        (["--descheduler", "--step", "7s"], "error: --step: got '7s', expected a divisor of a"),
    ],
)
def test_what_cannot_be_is_one_line(koord: Run, words: list[str], message: str) -> None:
    status, out, err = koord("simulate", "colocation", *words)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_a_configuration_that_cannot_be_is_one_line(koord: Run, tmp_path: Path) -> None:
    path = tmp_path / "odd.yaml"
    path.write_text(yaml.safe_dump(document(descheduler={"kind": "Odd"})), encoding="utf-8")
    status, out, err = koord("simulate", "colocation", "--descheduler", "--scenario", path)
    assert (status, out) == (2, "")
    assert "scenario descheduler" in err
    assert len(err.splitlines()) == 1
