# SPDX-License-Identifier: Apache-2.0
"""Formulas of burst: worked examples, a plain model, and the limiter over many rounds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from koord.agent.strategies.cpuburst import decision
from koord.agent.strategies.cpuburst.burst_limiter import BurstLimiter, BurstUse
from koord.agent.strategies.cpuburst.decision import CPUPoolState, QuotaOperation
from tests.agent.strategies.columns import bools, floats, ints
from tests.models import agent_strategies_burst as model

_USAGE = st.none() | st.floats(0, 64).map(lambda x: round(x, 3))
_CLASSES = st.sampled_from(["LSE", "LSR", "LS", "BE", "SYSTEM", ""])
_PODS = st.lists(st.tuples(_USAGE, st.integers(0, 16_000), _CLASSES), max_size=5)
_STATES = st.sampled_from(list(CPUPoolState))


@given(
    st.lists(
        st.tuples(_USAGE, st.integers(1, 64), _PODS, st.integers(1, 100)), min_size=1, max_size=4
    )
)
def test_node_state_is_the_model(nodes):
    pods = [(at, *pod) for at, row in enumerate(nodes) for pod in row[2]]
    ratio = decision.pool_ratios(
        floats(row[0] for row in nodes),
        ints(row[1] for row in nodes),
        ints(pod[0] for pod in pods),
        floats(pod[1] for pod in pods),
        ints(pod[2] for pod in pods),
        bools(pod[3] in ("LSE", "LSR") for pod in pods),
        bools(pod[3] == "BE" for pod in pods),
    )
    states = decision.node_states(ratio, ints(row[3] for row in nodes))
    assert [CPUPoolState(s).name for s in states.tolist()] == [
        model.node_state(row[0], row[1], row[2], row[3]) for row in nodes
    ]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 64_000),
            st.integers(0, 10_000),
            st.booleans(),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_bursts_are_the_model(rows):
    limit, percent, on = (
        kind(row[i] for row in rows) for i, kind in enumerate((ints, ints, bools))
    )
    burst = decision.bursts(limit, percent, on)
    assert burst.tolist() == [model.burst(*row) for row in rows]


def test_two_cores_at_a_thousand_percent():
    burst = decision.bursts(ints([2000]), ints([1000]), bools([True]))
    assert burst.tolist() == [2_000_000]


@given(
    st.lists(
        st.tuples(
            st.booleans(), st.booleans(), st.none() | st.floats(0, 1), _STATES,
            st.integers(1000, 6_400_000), st.integers(1000, 30_000_000), st.integers(0, 1000),
        ),
        min_size=1,
        max_size=6,
    )
)  # fmt: skip
def test_targets_are_the_model_and_within_base_and_ceiling(rows):
    operation = decision.operations(
        bools(row[0] for row in rows),
        bools(row[1] for row in rows),
        floats(row[2] for row in rows),
        ints(int(row[3]) for row in rows),
    )
    names = [model.operation(*row[:3], row[3].name) for row in rows]
    assert [QuotaOperation(o).name for o in operation.tolist()] == names
    base, current, percent = (ints(row[i] for row in rows) for i in (4, 5, 6))
    target = decision.quota_targets(operation, base, current, percent)
    expected = [model.target(n, *row[4:]) for n, row in zip(names, rows, strict=True)]
    assert target.tolist() == expected
    for row, name, value in zip(rows, names, target.tolist(), strict=True):
        assert row[4] <= value <= max(row[4], row[4] * row[6] // 100)
        # Rows do not mix.
        one = decision.quota_targets(
            ints([QuotaOperation[name]]), ints([row[4]]), ints([row[5]]), ints([row[6]])
        )
        assert int(one[0]) == value


def test_a_throttled_container_on_an_idle_node_gets_a_fifth_more():
    up = decision.operations(bools([True]), bools([True]), floats([0.5]), ints([CPUPoolState.IDLE]))
    assert decision.quota_targets(up, ints([200_000]), ints([200_000]), ints([300])).tolist() == [
        240_000
    ]


def test_without_quota_burst_the_quota_is_reset():
    off = decision.operations(
        bools([False]), bools([True]), floats([0.5]), ints([CPUPoolState.IDLE])
    )
    assert decision.quota_targets(off, ints([200_000]), ints([400_000]), ints([300])).tolist() == [
        200_000
    ]


@pytest.mark.parametrize(
    ("tokens", "usage", "after"), [(5000, 150, 4500), (50, 200, -950), (4500, 40, 5000)]
)
def test_token_examples(tokens, usage, after):
    capacity = decision.capacities(ints([100]), ints([150]))
    assert capacity.tolist() == [5000]
    found = decision.tokens_after(ints([tokens]), capacity, ints([usage]), ints([10]))
    assert found.tolist() == [after]


def test_uses_without_a_bucket():
    limiter = BurstLimiter()
    uses = [
        BurstUse("a", None, 300, 500), BurstUse("b", -1, 300, 500),
        BurstUse("c", 10, None, 0), BurstUse("d", 10, 99, 0)
    ]  # fmt: skip
    assert limiter.permitted(uses, 0.0) == [True, True, False, False]
    assert [limiter.tokens(use.id) for use in uses] == [None] * 4


class LimiterHistory(RuleBasedStateMachine):
    """The limiter against a bucket a container, over rounds of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.limiter = BurstLimiter()
        self.models: dict[str, model.Bucket] = {}
        self.config: dict[str, tuple[int, int]] = {}
        self.now = 0.0

    @initialize(period=st.integers(1, 50), percent=st.integers(101, 300))
    def configure(self, period, percent):
        self.config = dict.fromkeys("ab", (period, percent))

    @rule(name=st.sampled_from("ab"), period=st.integers(1, 50), percent=st.integers(101, 300))
    def change(self, name, period, percent):
        self.config[name] = (period, percent)

    @rule(
        passed=st.floats(0.0, 7.0).map(lambda x: round(x, 3)),
        usage=st.tuples(st.integers(0, 400), st.integers(0, 400)),
    )
    def use(self, passed, usage):
        self.now += passed
        uses = [BurstUse(n, *self.config[n], u) for n, u in zip("ab", usage, strict=True)]
        expected = []
        for use in uses:
            bucket = self.models.get(use.id)
            if bucket is None or bucket.capacity != use.period_seconds * (use.percent - 100):
                bucket = self.models[use.id] = model.Bucket(
                    use.period_seconds, use.percent, self.now
                )
            expected.append(bucket.allow(self.now, use.usage_percent))
        assert self.limiter.permitted(uses, self.now) == expected

    @rule(seconds=st.floats(101, 300))
    def leave(self, seconds):
        """After twice the longest period without a round, buckets are forgotten."""
        self.now += seconds
        self.limiter.permitted([], self.now)
        self.models.clear()
        assert self.limiter.tokens("a") is None

    @invariant()
    def within_capacity(self):
        for name, bucket in self.models.items():
            assert self.limiter.tokens(name) == bucket.tokens
            assert -bucket.capacity <= bucket.tokens <= bucket.capacity


TestLimiterHistory = LimiterHistory.TestCase
