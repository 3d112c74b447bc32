# SPDX-License-Identifier: Apache-2.0
"""Amounts and orders of evictions: worked examples, a plain model, rows that do not mix."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.agent.strategies.cpuevict import decision as cpu
from koord.agent.strategies.eviction import release_amounts, victim_order
from koord.agent.strategies.memoryevict import decision as memory
from tests.agent.strategies.columns import floats, ints
from tests.models import agent_strategies_evict as model

_AMOUNT = st.integers(0, 2**42)
_PERCENT = st.integers(0, 120)
_MILLI = st.integers(0, 100_000).map(float)
_TIER = st.tuples(_MILLI, _MILLI, st.integers(-1, 100_000).map(float))
_SMALL = st.integers(-3, 3)


@given(st.lists(st.tuples(_AMOUNT, _AMOUNT, _PERCENT, _PERCENT), min_size=1, max_size=6))
def test_usage_is_the_model(rows):
    found = release_amounts.by_usage(*(ints(row[i] for row in rows) for i in range(4)))
    assert found.tolist() == [model.by_usage(*row) for row in rows]
    assert found.tolist() == [
        int(release_amounts.by_usage(*(ints([v]) for v in r))[0]) for r in rows
    ]


@given(
    st.lists(st.tuples(_AMOUNT, _AMOUNT, _PERCENT, _PERCENT), min_size=1, max_size=6), st.booleans()
)
def test_requests_are_the_model(rows, as_ratio):
    columns = [ints(row[i] for row in rows) for i in range(4)]
    found = release_amounts.by_requests(*columns, as_ratio=as_ratio)
    assert found.tolist() == [model.by_requests(*row, as_ratio) for row in rows]


def test_a_hundred_of_a_hundred_and_twenty_gigabytes():
    giga = 10**9
    found = release_amounts.by_usage(ints([100 * giga]), ints([120 * giga]), ints([80]), ints([78]))
    assert found.tolist() == [6 * giga]


@given(
    st.lists(
        st.tuples(_TIER, _TIER, st.booleans(), st.integers(1, 60), st.integers(0, 39), _PERCENT),
        min_size=1,
        max_size=6,
    )
)
def test_satisfaction_is_the_model(drawn):
    rows = [
        (average, (last[0], *average[1:]) if same else last, lower, lower + more, threshold)
        for average, last, same, lower, more, threshold in drawn
    ]

    def tier(at):
        return cpu.BestEffortColumns(*(floats(row[at][i] for row in rows) for i in range(3)))

    config = cpu.SatisfactionThresholds(*(ints(row[i] for row in rows) for i in (2, 3, 4)))
    found = cpu.releases(tier(0), tier(1), config)
    assert found.tolist() == [model.satisfaction(*row) for row in rows]


def test_a_quarter_of_what_was_asked_for_releases_twenty_eight_cores():
    tier = cpu.BestEffortColumns(floats([19_000]), floats([80_000]), floats([20_000]))
    config = cpu.SatisfactionThresholds(ints([30]), ints([60]), ints([90]))
    assert cpu.releases(tier, tier, config).tolist() == [28_000]


def test_a_third_of_the_window_must_be_covered():
    assert cpu.covered(ints([19, 20]), 1.0, ints([60, 60])).tolist() == [False, True]


@given(st.lists(st.tuples(_SMALL, _SMALL, _SMALL, _SMALL), max_size=8))
def test_priority_order_is_the_model(rows):
    columns = [ints(row[i] for row in rows) for i in range(4)]
    found = victim_order.by_priority(ints([0] * len(rows)), *columns)
    assert found.tolist() == model.priority_order(rows)


@given(st.lists(st.tuples(_SMALL, st.integers(0, 3), st.integers(0, 3)), max_size=8))
def test_share_order_is_the_model(rows):
    columns = [ints(row[i] for row in rows) for i in range(3)]
    found = victim_order.by_share(ints([0] * len(rows)), *columns)
    assert found.tolist() == model.share_order(rows)


@given(
    st.lists(
        st.tuples(_SMALL, st.integers(0, 2), st.sampled_from("abcdefgh")),
        max_size=8,
        unique_by=lambda row: row[2],
    )
)
def test_memory_order_is_the_model(rows):
    names = sorted(row[2] for row in rows)
    columns = [ints(row[i] for row in rows) for i in range(2)]
    ranks = ints(names.index(row[2]) for row in rows)
    found = memory.best_effort_order(ints([0] * len(rows)), *columns, ranks)
    assert found.tolist() == model.memory_order(rows)


@given(st.lists(st.tuples(st.integers(0, 2), _SMALL, _SMALL, _SMALL, _SMALL), max_size=10))
def test_nodes_are_ordered_each_for_itself(rows):
    found = victim_order.by_priority(*(ints(row[i] for row in rows) for i in range(5))).tolist()
    expected = []
    for node in range(3):
        own = [at for at, row in enumerate(rows) if row[0] == node]
        chosen = victim_order.by_priority(
            ints([0] * len(own)), *(ints(rows[at][i] for at in own) for i in range(1, 5))
        )
        expected += [own[at] for at in chosen.tolist()]
    assert found == expected
