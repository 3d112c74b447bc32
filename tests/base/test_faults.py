# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import traceback

import pytest

from koord.base import faults
from koord.base.faults import FaultPlan, FaultRule, inject


def _failures(seed: int, passes: int) -> list[int]:
    plan = FaultPlan(seed, {"store.write": FaultRule(rate=0.3, error=OSError(5, "io"))})
    failed = []
    with inject(plan):
        for number in range(passes):
            try:
                faults.point("store.write")
            except OSError:
                failed.append(number)
    assert plan.passed["store.write"] == passes
    assert plan.failed["store.write"] == len(failed)
    return failed


def test_without_a_plan_a_point_passes() -> None:
    faults.point("anything")


def test_a_seed_replays_the_same_failures() -> None:
    first = _failures(seed=7, passes=200)
    assert first == _failures(seed=7, passes=200)
    assert first != _failures(seed=8, passes=200)
    assert 30 <= len(first) <= 90


def test_points_do_not_disturb_each_other() -> None:
    rules = {name: FaultRule(0.5, RuntimeError(name)) for name in ("a", "b")}
    plan = FaultPlan(1, rules)
    with inject(plan):
        for _ in range(50):
            for name in ("a", "b"):
                with pytest.raises(RuntimeError) if _will_fail(plan, name) else _nothing():
                    faults.point(name)
    assert plan.passed == {"a": 50, "b": 50}


def test_after_lets_the_first_passes_through() -> None:
    with inject(FaultPlan(1, {"p": FaultRule(1.0, KeyError("gone"), after=2)})):
        faults.point("p")
        faults.point("p")
        with pytest.raises(KeyError):
            faults.point("p")


def test_plans_do_not_nest_and_end_with_their_block() -> None:
    with (
        inject(FaultPlan(1, {})),
        pytest.raises(RuntimeError, match="active already"),
        inject(FaultPlan(2, {})),
    ):
        pass
    with pytest.raises(ValueError, match=r"rate: got 1\.5"):
        FaultRule(1.5, RuntimeError())
    faults.point("free again")


def _will_fail(plan: FaultPlan, name: str) -> bool:
    """Looks one draw ahead without taking it."""
    state = plan._streams[name].getstate()
    draw = plan._streams[name].random()
    plan._streams[name].setstate(state)
    return draw < plan.rules[name].rate


class _nothing:  # noqa: N801  reads as a word beside pytest.raises
    def __enter__(self) -> None: ...
    def __exit__(self, *args: object) -> None: ...


def test_an_error_keeps_nothing_of_where_it_was_raised_before() -> None:
    error = OSError("again")
    with inject(FaultPlan(1, {"p": FaultRule(1.0, error)})):
        for _ in range(3):
            with pytest.raises(OSError, match="again"):
                faults.point("p")
    assert len(traceback.extract_tb(error.__traceback__)) == 3
