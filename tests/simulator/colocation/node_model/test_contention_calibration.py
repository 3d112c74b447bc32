# SPDX-License-Identifier: Apache-2.0
"""The contention of the shipped day beside run delays that were measured in a guest."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from koord.simulator.colocation.inputs import scenario_file
from koord.simulator.colocation.inputs.scenario import SchedulingDelay
from tests.simulator.colocation.inputs.test_scenario import SHIPPED
from tests.simulator.colocation.node_model.contention_calibration import (
    ContentionComparison,
    beside,
    mean_error,
)

MEASURED = Path(__file__).resolve().parents[3] / "data/contention/guest.json"
# Best-effort processes as agents hold them: a class of next to no weight.
_HELD = "batch weight"
_NOISE = 0.02
# Shares of the wanted CPU, as docs/colocation.md states them.
_MEAN_ERROR, _MOST_TAKEN, _MOST_SPARED = 0.04, 0.19, 0.045


def test_an_error_is_what_the_model_takes_beyond_the_kernel() -> None:
    points = [
        {"condition": "x", "free_cpu_share": 0.0, "wanted_cpu": 2.0, "granted_cpu": 1.7},
        {"condition": "y", "free_cpu_share": 0.5, "wanted_cpu": 2.0, "granted_cpu": 2.01},
    ]
    found = beside(points, SchedulingDelay(0.05, 0.2))
    assert [each.error for each in found] == pytest.approx([0.05, 0.0])
    assert mean_error(found) == pytest.approx(0.025)


def test_the_model_takes_no_less_from_services_than_the_kernel_did() -> None:
    points = json.loads(MEASURED.read_text(encoding="utf-8"))
    delay = scenario_file.load(SHIPPED).contention.scheduling_delay
    found = [each for each in beside(points, delay) if each.condition.startswith(_HELD)]
    assert found
    assert all(each.error >= -_NOISE for each in found), _said(found)


def test_the_errors_are_as_stated() -> None:
    points = json.loads(MEASURED.read_text(encoding="utf-8"))
    found = beside(points, scenario_file.load(SHIPPED).contention.scheduling_delay)
    assert len(found) == 11
    assert mean_error(found) <= _MEAN_ERROR, _said(found)
    assert min(each.error for each in found) >= -_MOST_SPARED, _said(found)
    assert max(each.error for each in found) <= _MOST_TAKEN, _said(found)
    # Of processes of the usual weight, as batch pods are without co-location.
    usual = [each for each in found if not each.condition.startswith(_HELD)]
    assert mean_error(usual) <= 0.03, _said(usual)
    assert max(abs(each.error) for each in usual) <= 0.055, _said(usual)


def _said(found: list[ContentionComparison]) -> str:
    lines = [
        f"{each.condition}: free {each.free_share:.3f} lost {each.lost:.4f} "
        f"modelled {each.modelled:.4f}"
        for each in found
    ]
    return "\n".join([*lines, f"mean error {mean_error(found):.4f}"])
