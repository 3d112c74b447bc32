# SPDX-License-Identifier: Apache-2.0
"""The scenarios that ship are valid, and run."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from koord.simulator.colocation.execution.run import simulate
from koord.simulator.colocation.inputs import slo_config
from koord.simulator.colocation.inputs.scenario_file import load, varied
from koord.simulator.colocation.workload.batch_arrivals import arrivals

SCENARIOS = Path(__file__).resolve().parents[4] / "examples" / "scenarios"
NAMES = ("leaky-night", "openb-day", "wandering-hot-spot")


def test_these_ship() -> None:
    assert sorted(path.stem for path in SCENARIOS.glob("*.yaml")) == sorted(NAMES)


def test_settings_that_lend_more_ship() -> None:
    given = SCENARIOS.parent / "settings" / "reclaim-72.yaml"
    found = slo_config.of(slo_config.overlaid(load(SCENARIOS / "leaky-night.yaml"), given))
    assert found.colocation.cpu_reclaim_threshold_percent == 72
    threshold = found.slo.resource_used_threshold_with_be
    assert threshold is not None
    assert threshold.cpu_suppress_threshold_percent == 77


@pytest.mark.parametrize("name", NAMES)
def test_some_minutes_of_it(name: str) -> None:
    scenario = varied(load(SCENARIOS / f"{name}.yaml"), nodes=4, hours=0.1)
    found = simulate(scenario, 1, SCENARIOS)
    assert scenario.metadata.name == name
    assert len(found.with_.series.hours) == 6
    assert 0 < found.without.cpu_utilisation_percent < 100
    assert 0 < found.with_.cpu_utilisation_percent < 100


def test_the_trace_s_arrivals_are_those_of_the_trace(tmp_path, monkeypatch, capsys) -> None:
    script = runpy.run_path(str(SCENARIOS / "openb_arrivals.py"))
    monkeypatch.setitem(script["main"].__globals__, "HERE", tmp_path)
    script["main"]()
    assert capsys.readouterr().out.count("jobs") == 3
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (SCENARIOS / path.name).read_bytes()
    tasks = arrivals(load(SCENARIOS / "openb-day.yaml"), 1, SCENARIOS)
    assert len(tasks.kind) == sum(
        len(path.read_text().splitlines()) - 1 for path in tmp_path.iterdir()
    )
