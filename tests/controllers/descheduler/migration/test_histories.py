# SPDX-License-Identifier: Apache-2.0
"""Migrations through deschedulers that are late, cut off, killed and two at a time.

``make soak`` plays many more (``tests/soak/subjects.py``).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds.migration import PodMigrationJob
from koord.controllers.descheduler import migration
from koord.controllers.descheduler.migration.arbitration.arbitrator import Arbitrator
from koord.controllers.descheduler.migration.arbitration.job_index import group_of
from koord.controllers.descheduler.migration.arbitration.moving_limits import MovingLimits
from koord.controllers.descheduler.migration.arbitration.refusal import MoveRefusal
from koord.controllers.descheduler.migration.course import job_groups, next_step, surroundings
from koord.controllers.descheduler.migration.course.evictors import PodEvictors
from koord.controllers.descheduler.migration.course.job_claims import JobClaims
from koord.controllers.descheduler.migration.course.job_controller import MigrationJobController
from koord.controllers.descheduler.migration.course.job_pass import EVICT, GroupState, JobStep
from koord.controllers.descheduler.migration.course.surges import Surges
from koord.controllers.descheduler.migration.course.surroundings import SurroundingsReader
from koord.controllers.descheduler.migration.migration_args import DELETE
from tests.controllers.descheduler.migration.histories import POINTS, live
from tests.controllers.descheduler.migration.history_checks import GLOBALLY

STEPS = 25


def test_what_holds_of_migrations_holds() -> None:
    """Every place where a write may fail was one where it could have."""
    passed: Counter[str] = Counter()
    for seed in (2, 4, 62, 80):
        passed += live(seed, STEPS).passed
    assert [point for point in POINTS if not passed[point]] == []


def test_what_once_did_not_hold_holds() -> None:
    """63: a soft eviction whose answer was lost stayed.

    84: one was left to another job, which ended without an eviction.

    512: of a gang that had begun to go a job was deleted; the other asked again, which is right.

    2730: of a gang a job was deleted while the other was about to begin, and could not know.
    """
    for seed in (63, 84, 512, 2730):
        live(seed, STEPS)


def _no_roll_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(next_step, "_ended", lambda job, around: JobStep())


def _no_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MovingLimits, "refusal", lambda self, pod, arbitrating: None)


def _twice(patch: pytest.MonkeyPatch) -> None:
    """Neither one that passes nor one that begins looks for another of its pod."""

    async def begins(self: JobClaims, job: PodMigrationJob) -> bool:
        return True

    patch.setattr(JobClaims, "claim", begins)
    patch.setattr(Arbitrator, "_moved_already", lambda self, job, pod: None)
    patch.setattr(SurroundingsReader, "_is_moved_otherwise", lambda self, job: False)


def _alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(surroundings, "group_state", lambda job, jobs, mode: GroupState())


def _in_part(patch: pytest.MonkeyPatch) -> None:
    """Jobs of a gang do not look whether others are gone or have failed."""
    patch.setattr(job_groups, "_broken", lambda group, members: "")


def _half(patch: pytest.MonkeyPatch) -> None:
    """Who begins to evict a gang deletes another's job first."""
    do = MigrationJobController._do

    async def fewer(self: Any, job: PodMigrationJob, step: Any, surroundings: Any) -> Any:
        others = self._jobs.of_group(group_of(job)) if group_of(job) else ()
        if step.action == EVICT and not surroundings.group.begun:
            for other in others:
                if other is not job:
                    await self._writer.delete(other)
        return await do(self, job, step, surroundings)

    patch.setattr(MigrationJobController, "_do", fewer)


def _no_undo(patch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Surges, client: Any, job: str, old: Any) -> None:
        return None

    patch.setattr(Surges, "undo", nothing)


def _one_more(patch: pytest.MonkeyPatch) -> None:
    """The limit of all is one too high."""
    exceeded = MovingLimits._exceeded

    def fewer(self: MovingLimits, pod: Any, counts: Any) -> Iterator[MoveRefusal]:
        for each in exceeded(self, pod, counts):
            if not each.message.startswith(f"{GLOBALLY} pods of the cluster"):
                yield each

    patch.setattr(MovingLimits, "_exceeded", fewer)


def _no_budgets(patch: pytest.MonkeyPatch) -> None:
    """Pods are deleted, whatever a budget says."""
    patch.setattr(PodEvictors, "policy", lambda self, job, pod: DELETE)


def _no_place(patch: pytest.MonkeyPatch) -> None:
    """Nobody waits until the reservation has a node."""
    patch.setattr(next_step._Pass, "_place", lambda self, held: None)


@pytest.mark.parametrize(
    ("mutant", "seed"),
    [(_no_roll_back, 5), (_no_limits, 5), (_twice, 4), (_alone, 0), (_in_part, 35),
     (_half, 1), (_no_undo, 4), (_one_more, 5), (_no_budgets, 2),
     (_no_place, 0)],
)  # fmt: skip
def test_what_does_not_hold_is_found(
    mutant: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        _play_until_one_fails(seed)


def _play_until_one_fails(first: int) -> None:
    for seed in (first, 0, 2, 3, 4, 5, 10, 16):
        live(seed, STEPS)


def test_every_place_where_a_migration_may_fail_is_known() -> None:
    """What the code names, the words of a job's writes put in."""
    folder = Path(migration.__file__).parent
    text = "\n".join(path.read_text() for path in sorted(folder.rglob("*.py")))
    named = re.findall(r'faults\.point\(f?"([^"]+)"\)', text)
    words = re.findall(r'self\._patch\(\s*"(\w+)"', text)
    points = {name.replace("{what}", word) for name in named for word in words}
    assert points == set(POINTS)
