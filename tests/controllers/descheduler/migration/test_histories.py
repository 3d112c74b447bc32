# SPDX-License-Identifier: Apache-2.0
"""Migrations through deschedulers that are late, cut off, killed and two at a time.

``make soak`` plays many more (``tests/soak/subjects.py``).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from koord.controllers.descheduler.migration.arbitration.arbitrator import Arbitrator
from koord.controllers.descheduler.migration.arbitration.moving_limits import MovingLimits
from koord.controllers.descheduler.migration.course import next_step, surroundings
from koord.controllers.descheduler.migration.course.job_pass import GroupState, JobStep
from koord.controllers.descheduler.migration.course.surges import Surges
from tests.controllers.descheduler.migration.histories import POINTS, live

STEPS = 25


def test_what_holds_of_migrations_holds() -> None:
    """Every place where a write may fail was one where it could have."""
    passed: Counter[str] = Counter()
    for seed in (21, 25, 33):
        passed += live(seed, STEPS).passed
    assert [point for point in POINTS if not passed[point]] == []


def test_what_once_did_not_hold_holds() -> None:
    """110099: the eviction of one of a gang is tried again, and the job of one that went before is
    deleted meanwhile.
    """
    for seed in (110099,):
        live(seed, STEPS)


def _no_roll_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(next_step, "_ended", lambda job, around: JobStep())


def _no_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MovingLimits, "refusal", lambda self, pod, arbitrating: None)


def _twice(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Arbitrator, "_moved_already", lambda self, job, pod: None)


def _alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(surroundings, "group_state", lambda job, jobs, mode: GroupState())


def _no_undo(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Surges, client: Any, job: str, old: Any) -> None:
        return None

    patch.setattr(Surges, "undo", nothing)


@pytest.mark.parametrize("mutant", [_no_roll_back, _no_limits, _twice, _alone, _no_undo])
def test_what_does_not_hold_is_found(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        _play_until_one_fails()


def _play_until_one_fails() -> None:
    for seed in (14, 5, 2, 3, 7, 9, 33):
        live(seed, STEPS)
