# SPDX-License-Identifier: Apache-2.0
"""Which rows changed, by aspect, against a plain look at all changes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.cluster.node_table import NodeTable
from koord.controllers.scheduler.framework.changed_rows import ChangedRows, with_rows
from koord.kernels.placement_board import changed_rows

CHANGES = st.dictionaries(st.integers(0, 20), st.integers(1, 127), max_size=8)


@given(CHANGES, st.sets(st.integers(0, 20), max_size=3), st.lists(st.integers(1, 127), max_size=4))
def test_rows_by_aspect_are_those_of_a_plain_look(
    plain: dict[int, int], own: set[int], masks: list[int]
) -> None:
    changes = changed_rows([row << 8 | aspects for row, aspects in plain.items()], 0)
    for row in own:
        plain[row] = 127
    if own:
        changes = with_rows(changes, own, 127)
    changed = ChangedRows(NodeTable(), changes)
    for mask in masks * 2:
        expected = sorted(row for row, aspects in plain.items() if aspects & mask)
        found = changed.rows(mask)
        assert ([] if found is None else found.tolist()) == expected
