# SPDX-License-Identifier: Apache-2.0
"""Flows take turns: the queue against a list that is searched each time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.turn_queue import TurnQueue


def test_one_of_each_flow_a_round() -> None:
    queue: TurnQueue[int] = TurnQueue()
    for number in range(5):
        queue.push("many", number)
    queue.push("one", 10)
    queue.push("two", 20)
    queue.push("two", 21)
    assert [queue.pop() for _ in range(len(queue))] == [0, 10, 20, 1, 21, 2, 3, 4]
    with pytest.raises(KeyError):
        queue.pop()


def test_nothing_is_left_of_flows_that_went() -> None:
    queue: TurnQueue[int] = TurnQueue()
    for number in range(1000):
        queue.push(f"flow-{number}", number)
        assert queue.pop() == number
    queue.push("last", 1)
    queue.clear()
    assert not queue
    assert not queue._flows


class PlainTurns:
    """Items in the order in which they came; of each flow, since when it waits for its turn."""

    def __init__(self) -> None:
        self.items: list[tuple[str, int]] = []
        self.waits_since: dict[str, int] = {}
        self.now = 0

    def push(self, flow: str, item: int) -> None:
        self.now += 1
        if all(flow != other for other, _ in self.items):
            self.waits_since[flow] = self.now
        self.items.append((flow, item))

    def pop(self) -> int:
        self.now += 1
        flow = min({flow for flow, _ in self.items}, key=lambda each: self.waits_since[each])
        taken = next(entry for entry in self.items if entry[0] == flow)
        self.items.remove(taken)
        self.waits_since[flow] = self.now
        return taken[1]


@given(st.lists(st.sampled_from(["", "a", "b", "c", "pop", "pop"]), max_size=60))
def test_against_the_model(steps: list[str]) -> None:
    queue, model = TurnQueue[int](), PlainTurns()
    for number, step in enumerate(steps):
        if step != "pop":
            queue.push(step, number)
            model.push(step, number)
        elif model.items:
            assert queue.pop() == model.pop()
        assert len(queue) == len(model.items)
