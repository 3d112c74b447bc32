# SPDX-License-Identifier: Apache-2.0
"""``koord simulate colocation`` as a user calls it; what a day comes to is tested elsewhere."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from tests.cli.conftest import Run

ROOT = Path(__file__).resolve().parents[4]
SMALL = ("--nodes", "3", "--step", "60s")
SHORT = (*SMALL, "--hours", "0.1")
LENDS_MORE = ROOT / "examples/settings/reclaim-72.yaml"


@pytest.fixture
def colocation(koord: Run) -> Run:
    return partial(koord, "simulate", "colocation")


def test_json_is_one_document(colocation) -> None:
    status, out, _ = colocation(
        *SMALL, "--hours", "1", "--seed", "3", "--settings", LENDS_MORE, "-o", "json"
    )
    assert status == 0
    found = json.loads(out)
    assert list(found) == [
        "scenario", "seed", "cpu_utilisation_percent",
        "latency_sensitive_short_pod_minutes_percent", "batch_core_hours",
        "batch_core_hours_without", "wasted_core_hours", "suppressions", "evictions",
        "node_updates", "settings", "seconds",
    ]  # fmt: skip
    assert (found["scenario"], found["seed"]) == ("mixed-day", 3)
    both = found["cpu_utilisation_percent"]
    assert 0 < both["without"] < both["with"] < 100
    assert set(found["latency_sensitive_short_pod_minutes_percent"]) == {"without", "with"}
    assert found["settings"]["colocation-config"]["cpuReclaimThresholdPercent"] == 72


def test_several_seeds_are_a_table_or_a_list(colocation) -> None:
    status, out, _ = colocation(*SHORT, "--seed", "1,4")
    assert status == 0
    assert [line.split()[0] for line in out.splitlines()] == ["seed", "1", "4", "mean", "deviation"]
    status, out, _ = colocation(*SHORT, "--seed", "1,4", "-o", "json")
    assert [run["seed"] for run in json.loads(out)["runs"]] == [1, 4]


def test_a_scenario_of_ones_own_and_its_report(colocation, tmp_path: Path) -> None:
    words = ["--scenario", ROOT / "examples/scenarios/leaky-night.yaml", *SHORT]
    status, out, _ = colocation(*words, "--report", tmp_path / "out")
    assert status == 0
    report = Path(out.splitlines()[-1].removeprefix("report: "))
    assert report.parent == tmp_path / "out"
    assert "leaky-night" in report.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seed", "1,2", "--report", "out"], "--report: got '1,2', expected one seed"),
        (["--seed", "x"], "--seed"),
        (
            ["--seed", "99999999999"],
            "--seed: got '99999999999', expected seeds such as 42-51 or"
            " 42,44, up to 999999999, at most 10000\n",
        ),
        (["--step", "7s"], "error: --step: got '7s', expected a divisor of a minute\n"),
        (["--nodes", "0"], "error: --nodes: got '0', expected a whole number from 1 to 20000\n"),
        (["--nodes", "-1"], "error: --nodes: got '-1', expected a whole number from 1 to 20000\n"),
        (["--nodes", "x"], "error: --nodes: got 'x', expected a whole number from 1 to 20000\n"),
        (["--hours", "-1"], "error: --hours: got -1.0, expected a number from 0.0166667 to 744\n"),
        (["--hours", "nan"], "error: --hours: got 'nan', expected a number such as 0.5 or 24\n"),
        (["--hours", "x"], "error: --hours: got 'x', expected a number such as 0.5 or 24\n"),
        (
            ["--settings", "/dev/null"],
            "error: /dev/null: kind: got None, expected ConfigMap or KubeSchedulerConfiguration\n",
        ),
        (
            ["--report", "/proc/x"],
            "error: --report: got '/proc/x', expected a folder that can be"
            " written (No such file or directory)\n",
        ),
        (["--scenario", "gone.yaml"], "gone.yaml"),
    ],
)
def test_what_cannot_be_is_one_line(
    colocation, words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = colocation(*words)
    assert (status, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
