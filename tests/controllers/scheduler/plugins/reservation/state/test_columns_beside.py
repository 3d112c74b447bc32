# SPDX-License-Identifier: Apache-2.0
"""The copied columns are what pods see for which something is held, whoever saw them before."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.controllers.cluster.node_table import CPU, MEMORY
from koord.controllers.scheduler.framework.cycle import Cycle
from tests.controllers.scheduler.plugins.reservation.bench import Bench, available
from tests.controllers.scheduler.pods import node, pod

NODES, APPS = 40, ("x", "y", "z")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["see", "see", "reserve", "unreserve", "place", "gone", "more"]),
        st.integers(0, 59),
    ),
    min_size=2,
    max_size=20,
)


class World:
    """Nodes with reservations for pods of three apps, one on a node at most."""

    def __init__(self) -> None:
        self.bench = Bench(*(node(f"n{i:02}", cpu="8", memory="8Gi") for i in range(NODES)))
        self.numbers = itertools.count()
        self.held: dict[int, str] = {}
        self.placed: list[str] = []

    def cycle(self, which: int) -> Cycle:
        """An attempt of a pod like no other."""
        number = next(self.numbers)
        made = pod(f"p{number}", cpu=f"{100 + number}m", labels={"app": APPS[which % 3]})
        cycle = Cycle(self.bench.info(made), self.bench.table)
        assert self.bench.plugin.pre_filter(cycle) is None
        return cycle

    def do(self, what: str, which: int) -> None:
        index = which % NODES
        if what == "reserve" and index not in self.held:
            owners = [{"labelSelector": {"matchLabels": {"app": APPS[which % 3]}}}]
            self.held[index] = f"r{next(self.numbers)}"
            held = available(self.held[index], f"n{index:02}", cpu="2", memory="1Gi",
                             owners=owners, allocateOnce=False)  # fmt: skip
            self.bench.put(held)
        elif what == "unreserve" and index in self.held:
            self.bench.remove(self.held.pop(index))
        elif what == "place":
            cycle = self.cycle(which)
            decision = self.bench.decider.attempt(cycle)
            if decision.row >= 0 and self.bench.decider.assume(decision) is None:
                self.placed.append(cycle.pod.uid)
        elif what == "gone" and self.placed:
            info = self.bench.world.accounts.get(self.placed.pop(which % len(self.placed)))
            assert info is not None
            self.bench.world.accounts.drop(info)
        elif what == "more":
            number = next(self.numbers)
            offered = {f"example.com/{which % 3}": "1"}
            self.bench.table.put(node(f"m{number}", cpu="8", allocatable=offered))

    def check(self, which: int) -> None:
        """What a pod sees, beside the table's columns less the overlay of each row."""
        cycle = self.cycle(which)
        if cycle.seen_columns is None:
            return
        seen, table = cycle.seen_columns(), self.bench.table
        for row in range(table.size):
            given = cycle.overlay(row)
            less = np.zeros(len(table.resources), np.int64)
            if given is not None:
                less[: len(given)] = given
            here = seen.requested[: len(less), row]
            assert here.tolist() == (table.requested[: len(less), row] - less).tolist()
            scored = table.nonzero[:, row] - less[[CPU, MEMORY]]
            assert seen.nonzero[:, row].tolist() == scored.tolist()


@settings(max_examples=40)
@given(steps=STEPS)
def test_columns_are_what_each_viewer_sees(steps: list[tuple[str, int]]) -> None:
    world = World()
    for index in range(0, NODES, 3):
        world.do("reserve", index)
    for what, which in steps:
        world.do(what, which)
        if what == "see":
            world.check(which)
    for which in range(3):
        world.check(which)


def test_a_reservation_that_came_later_is_put_back_for_others() -> None:
    world = World()
    world.do("reserve", 0)
    world.do("reserve", 1)
    world.check(0)
    world.do("reserve", 3)  # for the pods that saw the columns last
    world.check(0)
    world.check(1)
