# SPDX-License-Identifier: Apache-2.0
"""Attempts are remembered up to a bound, and it is said since when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from koord.base.clock import VirtualClock
from koord.controllers.scheduler.explain.attempt_history import AttemptHistory
from tests.controllers.scheduler.pods import node, table


def decision(uid: str, row: int = 0) -> Any:
    return SimpleNamespace(cycle=SimpleNamespace(pod=SimpleNamespace(uid=uid)), row=row)


def test_the_last_attempt_counts() -> None:
    history = AttemptHistory(table(node("a")), VirtualClock(1000.0))
    history.observe(decision("p", -1), "no room")
    first = history.last("p")
    assert first is not None
    assert (first.at, first.node, first.message) == (1000.0, "", "no room")
    history.observe(decision("p"), "")
    last = history.last("p")
    assert last is not None
    assert (last.node, last.message) == ("a", "")
    assert history.last("q") is None


def test_the_oldest_goes_first_and_since_moves() -> None:
    clock = VirtualClock(1000.0)
    history = AttemptHistory(table(node("a")), clock, limit=2)
    assert history.since == 1000.0
    for number, uid in enumerate(("p", "q", "p", "r")):
        clock.advance(1.0)
        history.observe(decision(uid), "")
        assert history.since == (1000.0 if number < 3 else 1002.0)
    assert history.last("q") is None
    assert history.last("p") is not None
    assert history.last("r") is not None
