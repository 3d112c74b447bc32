# SPDX-License-Identifier: Apache-2.0
"""How many pods of a job each node takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.accounts import Accounts
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.plugins.coscheduling.allocation.node_capacity import (
    NodeCapacity,
    capacity_by_columns,
)
from tests.controllers.scheduler.decision.test_decider import Room
from tests.controllers.scheduler.plugins.coscheduling.allocation.test_network_placement import (
    Moody,
)
from tests.controllers.scheduler.pods import info, node, pod, table

CPUS = st.lists(st.integers(0, 12), min_size=1, max_size=6)


def offers(cpus: list[int], asks: list[int], most: dict[str, int]) -> NodeCapacity:
    nodes = table(*(node(f"n{i}", cpu=str(cpu)) for i, cpu in enumerate(cpus)))
    room = Room()
    filters: Any = [room, Moody(most)]
    decider = Decider(nodes, Accounts(nodes), ProfilePlugins(filter=filters, score=[(room, 1)]))
    pods = [info(pod(f"p{i}", cpu=str(ask))) for i, ask in enumerate(asks)]
    before = nodes.requested.copy()
    made = NodeCapacity(decider, pods, lambda each: Cycle(each, nodes))
    assert np.array_equal(nodes.requested, before)
    return made


def takes(cpu: int, asks: list[int], most: int) -> int:
    """By the letter: one after the other until one does not fit."""
    count = 0
    for ask in asks:
        cpu -= ask
        if cpu < 0 or count == most:
            break
        count += 1
    return count


@given(CPUS, st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_nodes_that_differ_by_columns_alone_need_no_second_look(
    cpus: list[int], asks: list[int]
) -> None:
    made = offers(cpus, asks, {})
    expected = {i: takes(cpu, asks, 99) for i, cpu in enumerate(cpus)}
    assert made.slots == {row: count for row, count in expected.items() if count}
    assert not made.distrust()


@given(
    CPUS,
    st.lists(st.integers(1, 5), min_size=1, max_size=5),
    st.dictionaries(st.sampled_from([f"n{i}" for i in range(6)]), st.integers(0, 3)),
)
def test_distrust_finds_what_columns_do_not_tell(
    cpus: list[int], asks: list[int], most: dict[str, int]
) -> None:
    made = offers(cpus, asks, most)
    for row in list(made.slots):
        made.distrust(row)
    expected = {i: takes(cpu, asks, most.get(f"n{i}", 99)) for i, cpu in enumerate(cpus)}
    assert made.slots == {row: count for row, count in expected.items() if count}
    assert not made.distrust()


@given(CPUS, st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_room_by_columns(cpus: list[int], asks: list[int]) -> None:
    nodes = table(*(node(f"n{i}", cpu=str(cpu), pods="4") for i, cpu in enumerate(cpus)))
    pods = [info(pod(f"p{i}", cpu=str(ask) if ask else "")) for i, ask in enumerate(asks)]
    found = capacity_by_columns(nodes, pods, np.arange(len(cpus)))
    assert found.tolist() == [takes(cpu, asks, 4) for cpu in cpus]
