# SPDX-License-Identifier: Apache-2.0
"""The chart's life on a real kube-apiserver: installed, upgraded, tested, rolled back, uninstalled.

Its pods run as processes with what the chart says of them (`tests.deploy.node`): arguments, user,
mounts, environment, token and probes are the chart's own, and each component does what it is for
before and after each step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.deploy.chart_files import ROOT
from tests.deploy.installation import need_namespaces, played

FORMER = Path(__file__).parent / "koord-0.1.0.tgz"
INSTALL_SECONDS = 60
TEST_POD = ["/api/v1/pods/koord-ready"]


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the story saw."""
    need_namespaces()
    folder = tmp_path_factory.mktemp("installation")
    return played(folder, FORMER)


@pytest.mark.real
def test_it_is_ready_in_time(outcome: dict[str, Any]) -> None:
    assert outcome["install_seconds"] < INSTALL_SECONDS


@pytest.mark.real
def test_helm_test_passes(outcome: dict[str, Any]) -> None:
    assert "Phase:          Succeeded" in outcome["test"]


@pytest.mark.real
def test_each_profile_works(outcome: dict[str, Any]) -> None:
    """One after the other, on a cluster in which pods are created all the while."""
    few = ["koord-scheduler"]
    usual = ["koord-descheduler", "koord-manager", *few, "koordlet"]
    found = {name: sorted(components) for name, components in outcome["profiles"].items()}
    assert found == {
        "large": sorted([*usual, "koord-webhook"]),
        "scheduler-only": few,
        "small": usual,
    }


@pytest.mark.real
def test_nothing_that_runs_fails(outcome: dict[str, Any]) -> None:
    assert outcome["restarts"] == []


@pytest.mark.real
def test_pods_are_created_all_the_while(outcome: dict[str, Any]) -> None:
    assert outcome["arrivals"] > 0
    assert outcome["refused"] == []


@pytest.mark.real
def test_nothing_is_left_but_definitions_and_their_objects(outcome: dict[str, Any]) -> None:
    """And the pod of `helm test`, which helm keeps to be read."""
    assert outcome["left"] == TEST_POD
    assert outcome["definitions"] == len(list((ROOT / "deploy/crds").glob("*koordinator*")))
    assert outcome["kept"] > 0
