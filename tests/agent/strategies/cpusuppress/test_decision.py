# SPDX-License-Identifier: Apache-2.0
"""Formulas of suppression: worked examples, a plain model, and rows that do not mix."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.strategies.cpusuppress import decision
from koord.agent.strategies.cpusuppress.cpu_selection import CPULocation, pick
from tests.agent.strategies.columns import bools, floats, ints
from tests.models import agent_strategies_suppress as model

_CORES = st.floats(0, 200, allow_nan=False).map(lambda x: round(x, 4))
_PODS = st.lists(st.tuples(_CORES, st.booleans()), max_size=6)
_PERCENT = st.integers(0, 100)
_NODES = st.lists(
    st.tuples(
        _CORES, _PODS, _PODS, st.integers(1, 256_000), st.integers(0, 8000), _PERCENT,
        st.none() | _PERCENT,
    ),
    min_size=1,
    max_size=5,
)  # fmt: skip
_MILLI = st.integers(-20_000, 300_000)


def _usage(nodes):
    pods = [(at, *pod) for at, row in enumerate(nodes) for pod in row[1]]
    hosts = [(at, *app) for at, row in enumerate(nodes) for app in row[2]]
    return decision.UsageColumns(
        floats(row[0] for row in nodes),
        *(kind(p[i] for p in pods) for i, kind in enumerate((ints, floats, bools))),
        *(kind(h[i] for h in hosts) for i, kind in enumerate((ints, floats, bools))),
    )


def _bounds(nodes):
    least = [decision.UNSET if row[6] is None else row[6] for row in nodes]
    columns = [ints(row[i] for row in nodes) for i in (3, 4, 5)]
    return decision.SuppressBounds(*columns, ints(least))


@given(_NODES)
def test_allowed_is_the_formula_and_rows_do_not_mix(nodes):
    found = decision.allowed(_usage(nodes), _bounds(nodes))
    assert found.milli.tolist() == [model.allowed(*row) for row in nodes]
    single = [decision.allowed(_usage([row]), _bounds([row])).milli[0] for row in nodes]
    assert found.milli.tolist() == single


def test_twenty_cores_at_seventy_percent_leave_four():
    row = (10.0, [(8.0, False)], [], 20_000, 0, 70, None)
    assert decision.allowed(_usage([row]), _bounds([row])).milli.tolist() == [4000]


def test_reserved_cpu_counts_where_the_system_uses_less():
    row = (10.0, [(8.0, False)], [], 20_000, 3000, 70, None)
    assert decision.allowed(_usage([row]), _bounds([row])).milli.tolist() == [3000]


@given(st.lists(st.tuples(_MILLI, st.none() | _MILLI), min_size=1, max_size=5))
def test_smoothing_is_the_model(rows):
    before = ints(decision.UNKNOWN if b is None else b for _, b in rows)
    found = decision.smoothed(ints(now for now, _ in rows), before)
    assert found.tolist() == [model.smoothed(now, b) for now, b in rows]


@given(st.lists(_MILLI, min_size=2, max_size=30))
def test_what_lasts_two_rounds_is_obeyed_and_a_fall_at_least_half_way(figures):
    before = decision.UNKNOWN
    for at, now in enumerate(figures):
        acted = int(decision.smoothed(ints([now]), ints([before]))[0])
        if at and figures[at - 1] == now:
            assert acted == now
        if at and now < figures[at - 1]:
            assert now <= acted <= (now + max(figures[at - 1], now)) // 2
        if at and now >= figures[at - 1] and now > 0:
            assert acted == figures[at - 1]
        before = now


@pytest.mark.parametrize(
    ("current", "milli", "expected"),
    [
        (1_000_000, 20_000, 1_800_000),
        (1_900_000, 20_000, 2_000_000),
        (2_400_000, 20_000, 2_000_000),
        (1_980_000, 20_000, None),
        (-1, 20_000, 2_000_000),
        (1_000_000, 1, 2000),
        (2000, -500, 2000),
        (-1, 300, 30_000),
    ],
)
def test_quota_examples_on_eighty_cores(current, milli, expected):
    target, write = decision.quotas(ints([milli]), ints([current]), ints([80_000]))
    assert (int(target[0]) if write[0] else None) == expected


@given(
    st.lists(
        st.tuples(_MILLI, st.just(-1) | st.integers(1000, 30_000_000), st.integers(1, 256_000)),
        min_size=1,
        max_size=6,
    )
)
def test_quota_is_the_model(rows):
    columns = [ints(row[i] for row in rows) for i in range(3)]
    target, write = decision.quotas(*columns)
    for at, row in enumerate(rows):
        expected, writes = model.quota(*row)
        assert bool(write[at]) == writes
        assert not writes or int(target[at]) == expected
        assert target[at] >= min(decision.LEAST_QUOTA_US, int(target[at]) if not writes else 2000)


@given(
    st.lists(
        st.tuples(
            _MILLI, st.integers(0, 64), st.integers(1, 64), st.integers(0, 32), st.integers(0, 32)
        ),
        min_size=1,
        max_size=6,
    )
)
def test_cpu_counts_are_the_model_and_never_more_than_there_are(rows):
    lsr, shared = decision.cpu_counts(*(ints(row[i] for row in rows) for i in range(5)))
    for at, row in enumerate(rows):
        assert (int(lsr[at]), int(shared[at])) == model.counts(*row)
        assert lsr[at] <= row[3]
        assert shared[at] <= row[4]
        assert lsr[at] + shared[at] >= 2 or row[3] + row[4] < 2


@st.composite
def _machines(draw):
    sockets, nodes = draw(st.integers(1, 2)), draw(st.integers(1, 2))
    cores, threads = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    places, cpu = [], 0
    for socket in range(sockets):
        for node in range(nodes):
            for core in range(cores):
                for _ in range(threads):
                    at = socket * nodes + node
                    places.append((cpu, at * cores + core, socket, at))
                    cpu += 1
    kept = draw(st.sets(st.sampled_from(places), min_size=1))
    renamed = draw(st.permutations(range(cpu)))
    return [(renamed[c], *rest) for c, *rest in sorted(kept)]


@given(_machines(), st.integers(0, 20))
def test_picking_is_the_model(cpus, count):
    picked = pick([CPULocation(*cpu) for cpu in cpus], count)
    assert picked == model.pick(cpus, count)
    assert len(set(picked)) == len(picked) == (count if count <= len(cpus) else 0)


def test_a_single_cpu_comes_from_the_bucket_after_the_last_pair():
    cpus = [CPULocation(c, c // 2, c // 4, c // 4) for c in range(8)]
    assert pick(cpus, 3) == [0, 1, 4]
    assert pick(cpus, 1) == [0]
    assert pick(cpus, 4) == [0, 1, 4, 5]
    assert pick(cpus, 9) == []
