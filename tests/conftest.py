# SPDX-License-Identifier: Apache-2.0
"""Profiles of the property tests, and the reference data that lies beside the checkout."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.controlplane.fixtures"]

ROOT = Path(__file__).resolve().parent.parent
IN_CI = os.environ.get("CI", "").lower() in ("1", "true")

# Derandomised: a failure seen once is seen again. `make soak` explores with fresh seeds.
_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("dev", max_examples=200, derandomize=True, **_COMMON)
settings.register_profile("ci", max_examples=300, derandomize=True, **_COMMON)
settings.register_profile("soak", max_examples=50_000, **_COMMON)
settings.load_profile(os.environ.get("KOORD_PROFILE", "ci" if IN_CI else "dev"))


def _reference_data() -> Path | None:
    named = os.environ.get("KOORD_REFERENCE_DATA")
    path = Path(named) if named else ROOT.parent / "shared"
    return path if path.is_dir() else None


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder of reference data; a test that needs it skips where there is none, fails in CI."""
    path = _reference_data()
    if path is None:
        reason = "KOORD_REFERENCE_DATA is not set and ../shared does not exist"
        if IN_CI:
            pytest.fail(reason)
        pytest.skip(reason)
    return path


@pytest.fixture(autouse=True)
def _quiet_logging() -> Iterator[None]:
    """Every test finds koord's logging as a program does before it sets it up, whoever came before.

    What is logged then reaches ``caplog``.
    """
    koord = logging.getLogger("koord")
    before = koord.handlers, koord.level, koord.propagate
    koord.handlers, koord.propagate = [], True
    koord.setLevel(logging.NOTSET)
    yield
    koord.handlers, koord.propagate = before[0], before[2]
    koord.setLevel(before[1])
