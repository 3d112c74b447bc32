# SPDX-License-Identifier: Apache-2.0
"""Formulas of memory quality, resctrl groups and system settings against plain models."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.agent.strategies.blkio import decision as blkio
from koord.agent.strategies.memoryqos import decision
from koord.agent.strategies.resctrl import decision as resctrl
from koord.agent.strategies.sysreconcile import decision as system
from tests.agent.strategies.columns import bools, ints
from tests.models import agent_strategies_memory as model

_BYTES = st.integers(0, 2**41)
_PERCENT = st.none() | st.integers(0, 100)
_GIB = 2**30


def _column(values, unset=decision.UNSET):
    return ints(unset if value is None else value for value in values)


def _plain(column, unset=decision.UNSET):
    return [None if value == unset else value for value in column.tolist()]


@given(
    st.lists(
        st.tuples(_BYTES, st.integers(0, 2**41), _BYTES, _PERCENT, _PERCENT, _PERCENT),
        min_size=1,
        max_size=6,
    )
)
def test_protection_and_throttling_are_the_model(rows):
    request, limit, node, least, low, high = (_column(row[i] for row in rows) for i in range(6))
    lower, middle = decision.protections(request, least, low)
    expected = [model.protections(row[0], row[3], row[4]) for row in rows]
    assert list(zip(_plain(lower), _plain(middle), strict=True)) == expected
    upper = decision.throttles(request, limit, node, high, lower, 4096)
    assert _plain(upper) == [
        model.high(row[0], row[1], row[2], row[5], protected[0], 4096)
        for row, protected in zip(rows, expected, strict=True)
    ]
    for at, row in enumerate(rows):
        one = decision.throttles(
            ints([row[0]]), ints([row[1]]), ints([row[2]]), high[at : at + 1],
            lower[at : at + 1], 4096,
        )  # fmt: skip
        assert one[0] == upper[at]


def test_four_fifths_of_the_way_from_one_to_two_gibibytes():
    high = decision.throttles(
        ints([_GIB]), ints([2 * _GIB]), ints([0]), ints([80]), ints([decision.UNSET]), 4096
    )
    assert high.tolist() == [1932734464]


@given(st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 2**60)), max_size=8))
def test_sums_are_the_model_and_exact(rows):
    rows = [(group, None if v is None else v // 8) for group, v in rows]
    found = decision.class_sums(ints(r[0] for r in rows), _column(r[1] for r in rows), 3)
    assert _plain(found) == model.sums([r[0] for r in rows], [r[1] for r in rows], 3)


@given(st.lists(st.tuples(_BYTES, st.none() | _BYTES, _PERCENT), min_size=1, max_size=6))
def test_page_cache_is_the_model(rows):
    found = decision.page_caches(*(_column(row[i] for row in rows) for i in range(3)))
    assert _plain(found) == [model.page_cache(*row) for row in rows]


@given(st.lists(st.tuples(_BYTES, st.none() | st.integers(0, 10_000)), min_size=1, max_size=6))
def test_min_free_kbytes_is_the_model(rows):
    unset = system.UNSET
    found = system.min_free_kbytes(*(_column((r[i] for r in rows), unset) for i in range(2)))
    assert _plain(found, unset) == [model.min_free_kbytes(*row) for row in rows]


def test_one_percent_of_half_a_tebibyte():
    assert system.min_free_kbytes(ints([512 * _GIB]), ints([100])).tolist() == [5368709]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(resctrl.CLASSES), st.booleans(), st.booleans(),
            st.tuples(st.booleans(), st.booleans(), st.booleans()),
        ),
        min_size=1,
        max_size=6,
    )
)  # fmt: skip
def test_groups_by_class(rows):
    found = resctrl.groups(
        ints(resctrl.CLASSES.index(row[0]) for row in rows),
        bools(row[1] for row in rows),
        bools(row[2] for row in rows),
        bools(flag for row in rows for flag in row[3]).reshape(len(rows), 3),
    )
    names = {"LSE": "LSR", "LSR": "LSR", "LS": "LS", "BE": "BE"}
    for (qos, active, own, on), group in zip(rows, found.tolist(), strict=True):
        name = names.get(qos)
        chosen = name is not None and active and not own and on[resctrl.GROUPS.index(name)]
        assert group == (resctrl.GROUPS.index(name) if chosen else resctrl.NO_GROUP)


def test_defaults_of_block_io():
    unset, some = blkio.UNSET, 7
    assert blkio.throttles(ints([unset, some, 0])).tolist() == [0, 7, 0]
    assert blkio.weights(ints([unset, some])).tolist() == [100, 7]
    latency, share = blkio.latencies(ints([unset, some]), ints([unset, some]))
    assert (latency.tolist(), share.tolist()) == ([3000, 7], [95, 7])
