# SPDX-License-Identifier: Apache-2.0
"""Histories that failed once pass; and what fails in a soak is kept so that it fails again."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from tests.soak import cases
from tests.soak.subjects import Machine, OutdatedError, Subject, subjects


@pytest.fixture(scope="module")
def known() -> dict[str, Subject]:
    return {each.name: each for each in subjects()}


def test_everything_that_has_histories_is_found(known: dict[str, Subject]) -> None:
    assert len(known) >= 22
    assert not any("soak" in name for name in known)
    assert {
        "agent/test_day",
        "hostile/endurance",
        "controllers/scheduler/test_histories",
        "controllers/scheduler/plugins/coscheduling/test_gangs_machine:Gangs",
        "loop/test_histories:LoopHistories",
    } <= known.keys()


@pytest.mark.parametrize("path", cases.paths(), ids=lambda path: path.stem)
def test_what_failed_once_passes(path: Path, known: dict[str, Subject]) -> None:
    case = cases.read(path)
    try:
        known[case["subject"]].replay(case["history"])
    except OutdatedError as error:
        pytest.skip(str(error))


class Sum(RuleBasedStateMachine):
    """Fails above 20."""

    def __init__(self) -> None:
        super().__init__()
        self.sum = 0

    @rule(more=st.integers(0, 9))
    def add(self, more: int) -> None:
        self.sum += more
        assert self.sum <= 20, "too much"


class DrawnSum(Sum):
    """The same, with numbers that no call shows."""

    @rule(data=st.data())
    def add_drawn(self, data: st.DataObject) -> None:
        self.add(data.draw(st.integers(10, 19)))


class Nothing(RuleBasedStateMachine):
    """Never fails."""

    @rule(more=st.integers())
    def go_on(self, more: int) -> None:
        pass


Sum.TestCase.settings = settings(stateful_step_count=20)
DrawnSum.TestCase.settings = settings(stateful_step_count=20)


@pytest.mark.parametrize("machine", [Sum, DrawnSum])
def test_what_fails_is_kept_and_fails_again(
    machine: type[RuleBasedStateMachine], tmp_path: Path
) -> None:
    subject = Machine("sums/of:numbers", machine)
    outcome = subject.explore(lambda: False)
    assert outcome.count > 0
    assert outcome.error is not None
    assert "too much" in str(outcome.error)
    case = {"subject": subject.name, "said": "too much", "history": outcome.history}
    path = cases.keep(case, tmp_path)
    assert path.name.startswith("sums-of-numbers-")
    assert cases.keep(case, tmp_path) == path
    (found,) = cases.paths(tmp_path)
    assert cases.read(found) == case
    with pytest.raises(AssertionError, match="too much"):
        subject.replay(cases.read(found)["history"])


def test_time_that_is_over_ends_a_turn_without_a_failure() -> None:
    turns = iter([False] * 4)
    outcome = Machine("nothing", Nothing).explore(lambda: next(turns, True))
    assert outcome == (3, None, None)
