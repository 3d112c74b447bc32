# SPDX-License-Identifier: Apache-2.0
"""Bits of rows that follow counts by domain, against what is worked out anew from the counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from koord.api.codec import convert
from koord.api.kinds.constraints import TopologySpreadConstraint
from koord.controllers.cluster.node_labels import LabelColumn
from koord.controllers.scheduler.plugins.kubernetes.domain_counts import RowLog
from koord.controllers.scheduler.plugins.kubernetes.interpodaffinity.term_counts import (
    DomainPresence,
)
from koord.controllers.scheduler.plugins.kubernetes.pod_counts import RowCounts
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread import constraints
from koord.controllers.scheduler.plugins.kubernetes.podtopologyspread.filtering import (
    EligibleNodes,
    HardConstraintCounts,
)
from tests.controllers.scheduler.pods import node
from tests.controllers.scheduler.stock import Stock

ROWS = 70
# How many values the label has: few, each of many rows; many, of several rows; one a row.
VALUES = pytest.mark.parametrize("values", [3, 25, ROWS])
STEPS = st.lists(st.lists(st.tuples(st.integers(0, ROWS - 1), st.booleans()), max_size=8))
KEY = "group"


def labelled(values: int) -> Any:
    """The table of nodes of which all but one have the label."""
    stock = Stock()
    for row in range(ROWS):
        labels = {KEY: f"value-{row % values}"} if row != 5 else {}
        stock.add(node(f"node-{row:02}", "4", "8Gi", labels=labels))
    return stock.table


def moved(pods: RowCounts, changes: list[tuple[int, bool]]) -> None:
    """Has pods come, and go where there are any."""
    for row, comes in changes:
        if comes or row in pods.by_row:
            pods.add(row, 1 if comes else -1)


def by_row(bits: NDArray[np.uint64]) -> list[bool]:
    """Bits of rows as a list."""
    return [bool(int(bits[row // 64]) >> row % 64 & 1) for row in range(ROWS)]


@VALUES
@given(steps=STEPS)
def test_bits_of_domains_with_pods(values: int, steps: list[list[tuple[int, bool]]]) -> None:
    table, pods, log = labelled(values), RowCounts(), RowLog()
    presence = DomainPresence(table, KEY)
    presence.add([(pods, 1)])
    for changes in steps:
        moved(pods, changes)
        presence.sync(log)
        having = {row % values for row in pods.by_row if row != 5}
        expected = [row % values in having and row != 5 for row in range(ROWS)]
        assert presence.number == len(having)
        if having:
            assert by_row(presence.bits()) == expected


@VALUES
@given(steps=STEPS, max_skew=st.integers(1, 3))
def test_bits_of_domains_that_take_a_pod(
    values: int, steps: list[list[tuple[int, bool]]], max_skew: int
) -> None:
    table, pods, log = labelled(values), RowCounts(), RowLog()
    listed = {"maxSkew": max_skew, "topologyKey": KEY, "whenUnsatisfiable": constraints.HARD}
    made = convert([listed], list[TopologySpreadConstraint], "constraints")
    (constraint,) = constraints.read(made, constraints.HARD, {}, "Pod default/p")
    column = table.labels.column(KEY)
    eligible = EligibleNodes((column.ids >= 0) & table.open, column)
    counts = HardConstraintCounts(constraint, True, column, eligible, [(pods, 1)])
    for changes in steps:
        moved(pods, changes)
        counts.sync(log)
        rows = [row for row in range(ROWS) if row != 5]
        sums = {row % values: 0 for row in rows}
        for row, count in pods.by_row.items():
            if row != 5:
                sums[row % values] += count
        most = min(sums.values()) + max_skew - 1
        assert by_row(counts.bits()) == [
            row != 5 and sums[row % values] <= most for row in range(ROWS)
        ]


@given(st.lists(st.tuples(st.integers(0, 9), st.none() | st.sampled_from("abc")), max_size=40))
def test_the_only_row_of_a_value(changes: list[tuple[int, str | None]]) -> None:
    column, values = LabelColumn(10), dict[int, str | None]()
    for row, value in changes:
        column.set(row, value)
        values[row] = value
    for value in "abc":
        rows = [row for row, its in values.items() if its == value]
        assert column.only_row(column.number(value)) == (rows[0] if len(rows) == 1 else -1)
    assert column.only_row(-1) == -1
