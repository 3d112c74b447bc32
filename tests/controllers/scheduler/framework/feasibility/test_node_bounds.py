# SPDX-License-Identifier: Apache-2.0
"""The best row of a table, followed through the table's changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.node_table import Aspect, NodeTable
from koord.controllers.scheduler.framework.feasibility.fit_kernels import FitKernels, KernelPlugins
from koord.controllers.scheduler.framework.feasibility.node_bounds import NodeBounds
from koord.controllers.scheduler.framework.feasibility.participants import Participants
from koord.kernels.placement_board import Rooms
from tests.controllers.scheduler.pods import node

# Nobody looks at the nodes: of all that are there the first by name is the best.
EQUAL = FitKernels(
    KernelPlugins((), (), Participants(), Participants(), 0, 0, (), ((), ())), Rooms([], [])
)


@given(numbers=st.lists(st.integers(0, 5), max_size=30))
def test_another_order_of_names_always_comes_with_rows_to_read(numbers: list[int]) -> None:
    table, names = NodeTable(), set[str]()
    bounds = NodeBounds(table)
    for number in numbers:
        name, since, rank = f"n{number}", table.version, table.rank
        if name in names:
            names.remove(name)
            table.remove(name)
        else:
            names.add(name)
            table.put(node(name))
        assert table.rank is not rank
        changes = table.changed_rows(since)
        assert changes is not None
        assert changes[2] & Aspect.NODE
        row = bounds.best(EQUAL, [], None)
        assert (table.name(row) if row >= 0 else None) == min(names, default=None)
