# SPDX-License-Identifier: Apache-2.0
"""Seeds are played in forks: what fails is told with its seed, and a point nobody passes fails."""

from __future__ import annotations

import os
from collections import Counter
from contextlib import closing

import pytest

from koord.base.faults import FaultPlan
from tests.controllers.descheduler.migration import histories
from tests.soak.seeds import ForkedOutcome, in_fork, run_seeds, seeds_of


class Shout:
    """Two clusters; a history is its number and its cluster's, and 13 does not hold."""

    name, steps, points = "shout", 1, ("shout.low", "shout.high")

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.played = 0

    def shape_of(self, seed: int) -> int:
        return seed % 2

    def started(self, shape: int) -> Shout:
        self.begun.append(shape)
        return self

    def play(self, seed: int, steps: int) -> FaultPlan:
        self.played += 1
        assert self.played == 1, "another history was here"
        assert seed != 13, "thirteen"
        plan = FaultPlan(seed=seed, rules={})
        plan.visit("shout.low" if seed < 20 else "shout.high")
        return plan


class Whisper(Shout):
    """The same, beside it."""

    name = "whisper"


def test_all_seeds_are_played_each_from_the_same_beginning(
    capsys: pytest.CaptureFixture[str],
) -> None:
    subject = Shout()
    assert run_seeds([subject], range(18, 22)) == 0
    assert (subject.begun, subject.played) == ([0, 1], 0)
    assert "4 histories of seeds 18-22 (to 22), 0 faults, 0 failures" in capsys.readouterr().out


def test_a_failure_is_told_with_its_seed_and_the_others_are_played(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run_seeds([Shout()], range(12, 22)) == 1
    out = capsys.readouterr().out
    assert "FAILED shout: seed 13: AssertionError: thirteen" in out
    assert "10 histories of seeds 12-22 (to 22), 0 faults, 1 failures" in out


def test_several_processes_say_in_the_end_what_one_says(capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for processes in (1, 3):
        assert run_seeds([Shout(), Whisper()], range(8, 24), processes) == 1
        out = capsys.readouterr().out
        assert "FAILED shout: seed 13: AssertionError: thirteen" in out
        assert "32 histories of seeds 8-24 (to 24), 0 faults, 2 failures" in out
        said.append(out[out.index("\nshout: 16 histories, 1 failures") :])
    assert said[0] == said[1]


def test_a_process_that_ends_early_names_the_seed_it_was_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Ends(Shout):
        def started(self, shape: int) -> Shout:
            if shape == 1:
                os._exit(3)
            return self

    assert run_seeds([Ends()], range(12, 22), 2) == 1
    out = capsys.readouterr().out
    assert "FAILED shout: seed 13: the process ended that plays it, each 2th from here\n" in out
    assert "6 histories of seeds" in out


def test_a_point_that_no_history_passed_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_seeds([Shout()], range(3)) == 1
    assert "never passed: shout.high" in capsys.readouterr().out


def test_a_process_that_ends_without_a_word_is_a_failure() -> None:
    outcome = in_fork(lambda: os._exit(3))
    assert outcome.said == "its process ended without a word"


def test_a_history_is_the_same_in_a_fork_and_alone() -> None:
    """By all that the server holds in the end."""
    seed, steps = 3, 4

    def play() -> ForkedOutcome:
        with closing(histories.started(histories.shape_of(seed))) as cluster:
            plan = cluster.play(seed, steps)
            store = cluster.history.world.plane.store
            bodies = [e.body for each in store.collections() for e in each.entries.values()]
        return ForkedOutcome(Counter(plan.passed), plan.failed, str(sorted(bodies)))

    assert in_fork(play) == play()


@pytest.mark.parametrize("text", ["", "3", "5-5", "9-3", "a-b", "3-"])
def test_a_range_is_first_and_end(text: str) -> None:
    assert seeds_of("3-10000") == range(3, 10000)
    with pytest.raises(ValueError, match="expected FIRST-END"):
        seeds_of(text)
