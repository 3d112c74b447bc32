# SPDX-License-Identifier: Apache-2.0
"""Planned rounds of deschedulers that are late, cut off, killed and two at a time.

``make soak`` plays many more (``tests/soak/subjects.py``).
"""

from __future__ import annotations

from typing import Any

import pytest

from koord.controllers.descheduler.migration.course import reservation_template
from koord.controllers.descheduler.planning import load_columns, rest_periods
from koord.controllers.descheduler.planning.current_cluster import CurrentCluster
from koord.controllers.descheduler.planning.load_columns import RESOURCES, LoadColumns
from tests.controllers.descheduler.planned_histories import live

STEPS = 20


def test_what_holds_of_planned_moves_holds() -> None:
    planned = sum(live(seed, STEPS)[1] for seed in (4, 11))
    assert planned > 10


@pytest.mark.parametrize("seed", [1097, 6555])
def test_a_gang_that_has_begun_to_go_goes_on(seed: int) -> None:
    """1097: its first eviction was lost, and another member's job deleted before the next.

    6555: both pods had gone when the answer of one was lost and the job of the other deleted.
    """
    live(seed, 25)


def test_a_pod_that_a_user_moves_is_not_the_plans() -> None:
    """A user's job runs for a pod while a plan's job for it waits."""
    live(9049, 25)


def _no_others(patch: pytest.MonkeyPatch) -> None:
    """Moves that are under way count for nothing."""
    patch.setattr(CurrentCluster, "under_way", lambda self, namespace=None: iter(()))


def _old_reports(patch: pytest.MonkeyPatch) -> None:
    """What came after a report counts for nothing."""
    patch.setattr(load_columns, "_since", lambda *_, **__: dict.fromkeys(RESOURCES, 0))


def _anywhere(patch: pytest.MonkeyPatch) -> None:
    """A plan's place is not asked for."""
    required = reservation_template._require

    def other(spec: Any, operator: str, node: str) -> None:
        if operator == "NotIn":
            required(spec, operator, node)

    patch.setattr(reservation_template, "_require", other)


def _into_load(patch: pytest.MonkeyPatch) -> None:
    """A move may take its own target above a threshold, for others to be moved from there."""
    patch.setattr(LoadColumns, "too_full_for", lambda self, pod: [])
    patch.setattr(LoadColumns, "is_high", lambda self, name: True)


@pytest.mark.parametrize("mutant", [_no_others, _old_reports, _anywhere, _into_load])
def test_what_does_not_hold_is_found(mutant: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    # A pod that rests stays for that alone.
    monkeypatch.setattr(rest_periods, "REST_SECONDS", 0.0)
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        _play_until_one_fails()


def _play_until_one_fails() -> None:
    for seed in (0, 1, 11, 4, 31):
        live(seed, STEPS)
