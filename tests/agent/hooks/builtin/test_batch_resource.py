# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.agent.executor.composition.value_resolver import scaled_quota_us
from koord.agent.hooks.builtin.batch_resource import BatchResource, BatchResourceRule, pod_values
from koord.agent.hooks.builtin.cpu_normalization import CPUNormalization
from koord.agent.hooks.hook import ExtendedResources, HookResponse
from koord.agent.hooks.pod_contexts import container_context
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity
from tests.agent.hooks.build import (
    BATCH_CPU,
    BATCH_MEMORY,
    STATUS,
    container,
    context,
    inner,
    options,
    pod,
    snapshot,
)

RATIO = "node.koordinator.sh/cpu-normalization-ratio"
EXTENDED = "node.koordinator.sh/extended-resource-spec"
ONE = container(
    "a", {BATCH_CPU: "500", BATCH_MEMORY: "2Gi"}, {BATCH_CPU: "500", BATCH_MEMORY: "2Gi"}
)
TWO = container("b", {}, {BATCH_CPU: "1000", BATCH_MEMORY: "2Gi"})
NO_LIMITS = container("b", {BATCH_CPU: "100"})
SHARES, QUOTA, MEMORY = "cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes"
GI = 1 << 30


def hook(slo: dict[str, Any] | None = None, node: dict[str, str] | None = None) -> BatchResource:
    made = BatchResource(options())
    made.learn(snapshot(slo=slo, node=node))
    return made


def numbers(answer: HookResponse | None) -> list[object]:
    assert answer is not None
    quota: Any = answer.values[QUOTA]
    if answer.quota_ratio is not None:
        quota = scaled_quota_us(quota, answer.quota_ratio)
    return [answer.values[SHARES], quota, answer.values[MEMORY]]


@pytest.mark.parametrize(
    ("ratio", "containers", "expected"),
    [
        (None, [ONE], [512, 50000, 2 * GI]),
        ("1.2", [ONE], [512, 41667, 2 * GI]),
        ("0.8", [ONE], [512, 50000, 2 * GI]),
        (None, [ONE, TWO], [512, 150000, 4 * GI]),
        (None, [ONE, NO_LIMITS], [614, -1, -1]),
    ],
)
def test_examples_of_pods(ratio: str | None, containers: list[Any], expected: list[int]) -> None:
    made = hook(node={RATIO: ratio} if ratio else {})
    assert numbers(made.pod(context(pod("BE", "BestEffort", containers)))) == expected


def test_examples_of_containers() -> None:
    state = pod("BE", "BestEffort", [ONE, TWO])
    assert numbers(hook().container(inner(state, 0))) == [512, 50000, 2 * GI]
    assert numbers(hook().container(inner(state, 1))) == [2, 100000, 2 * GI]
    state = pod("BE", "BestEffort", [ONE, NO_LIMITS])
    assert numbers(hook().container(inner(state, 1))) == [102, -1, -1]


def test_only_be_pods_with_batch_resources() -> None:
    assert hook().pod(context(pod("LS", "Burstable", [ONE]))) is None
    assert hook().pod(context(pod("", "BestEffort", [ONE]))) is None
    assert hook().pod(context(pod("BE", "BestEffort"))) is None
    assert hook().container(inner(pod("BE", "BestEffort"))) is None


def test_the_annotation_stands_in_for_the_spec() -> None:
    told = {"containers": {"main": {"limits": {BATCH_CPU: "1000"}, "requests": {}}}}
    state = pod("BE", "BestEffort", annotations={EXTENDED: told})
    assert numbers(hook().pod(context(state))) == [2, 100000, -1]
    empty = pod("BE", "BestEffort", annotations={EXTENDED: {}})
    assert hook().pod(context(empty)) is None
    assert hook().container(inner(empty)) is None
    bad = pod("BE", "BestEffort", annotations={EXTENDED: "{"})
    with pytest.raises(KoordError):
        hook().pod(context(bad))


def test_containers_without_batch_resources_are_left_alone() -> None:
    batch = {BATCH_CPU: "500", BATCH_MEMORY: "1Gi"}
    proxy = container("proxy", {"cpu": "100m"}, {"cpu": "200m", "memory": "64Mi"})
    state = pod("BE", "Burstable", [container("main", batch, batch), proxy])
    # The pod has what its one container with batch resources has.
    assert numbers(hook().pod(context(state))) == [512, 50000, GI]
    found = context(state)
    main, beside = (container_context(found, each) for each in state.containers)
    assert numbers(hook().container(main)) == [512, 50000, GI]
    assert hook().container(beside) is None


def test_suppression_by_quota_takes_the_quota_off() -> None:
    threshold = {"enable": True, "cpuSuppressPolicy": "cfsQuota"}
    made = hook({"resourceUsedThresholdWithBE": threshold})
    assert numbers(made.pod(context(pod("BE", "BestEffort", [ONE])))) == [512, -1, 2 * GI]
    for other in ({"enable": False, "cpuSuppressPolicy": "cfsQuota"}, {"enable": True}):
        made = hook({"resourceUsedThresholdWithBE": other})
        assert numbers(made.pod(context(pod("BE", "BestEffort", [ONE]))))[1] == 50000


@pytest.mark.parametrize("make", [BatchResource, CPUNormalization])
def test_a_ratio_is_new_from_a_hundredth_on(make: Any) -> None:
    made = make(options())
    assert made.learn(snapshot(node={RATIO: "1.20"}))
    assert not made.learn(snapshot(node={RATIO: "1.205"}))
    assert made.learn(snapshot(node={RATIO: "1.22"}))
    for bad in ("fast", "0", "-1", "nan", "5.01", "1e9"):
        with pytest.raises(KoordError):
            made.learn(snapshot(node={RATIO: bad}))
    assert not made.learn(snapshot(node={RATIO: "1.22"}))
    assert made.learn(snapshot(node={}))


rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 4000)), st.one_of(st.none(), st.integers(0, 4000))
    )
)


@given(rows)
def test_sums_of_containers(amounts: list[tuple[int | None, int | None]]) -> None:
    made = [
        ExtendedResources(
            {} if r is None else {BATCH_CPU: Quantity.from_value(r)},
            {} if limit is None else {BATCH_CPU: Quantity.from_value(limit)},
        )
        for r, limit in amounts
    ]
    values = pod_values(made, BatchResourceRule())
    requested = sum(r or 0 for r, _ in amounts)
    assert values[SHARES] == min(max(requested * 1024 // 1000, 2), 262144)
    unlimited = any(not limit for _, limit in amounts) or not amounts
    total = sum(limit or 0 for _, limit in amounts)
    assert values[QUOTA] == (-1 if unlimited else max(total * 100, 1000))
    assert values[MEMORY] == (0 if not amounts else -1)


def normalizer(ratio: str | None = "1.2") -> CPUNormalization:
    made = CPUNormalization(options())
    made.learn(snapshot(node={RATIO: ratio} if ratio else {}))
    return made


LIMITED = container("main", {"cpu": "500m"}, {"cpu": "1"})


def test_normalization_divides_limits_of_ls_and_of_no_class() -> None:
    for qos in ("LS", ""):
        state = pod(qos, "Burstable", [LIMITED])
        for answer in (normalizer().pod(context(state)), normalizer().container(inner(state))):
            assert answer is not None
            assert answer.quota_ratio is not None
            assert scaled_quota_us(int(answer.values[QUOTA]), answer.quota_ratio) == 83334


def test_normalization_leaves_everything_else_alone() -> None:
    for qos in ("LSE", "LSR", "BE", "SYSTEM"):
        assert normalizer().pod(context(pod(qos, "Burstable", [LIMITED]))) is None
    bound = pod("", "Guaranteed", [LIMITED], {STATUS: {"cpuset": "1"}})
    assert normalizer().pod(context(bound)) is None
    assert normalizer(None).pod(context(pod("LS", "Burstable", [LIMITED]))) is None
    assert normalizer().pod(context(pod("LS", "Burstable"))) is None
    # One container without a limit: the pod has none.
    both = pod("LS", "Burstable", [LIMITED, container("side")])
    assert normalizer().pod(context(both)) is None
    assert normalizer().container(inner(both, 0)) is not None
    assert normalizer().container(inner(both, 1)) is None


@given(st.integers(-1, 10**9), st.floats(0.01, 10))
def test_scaling(quota: int, ratio: float) -> None:
    expected = math.ceil(quota / ratio) if quota > 0 and ratio > 1 else quota
    assert scaled_quota_us(quota, ratio) == expected


@pytest.mark.parametrize(
    ("quota", "ratio", "expected"),
    [(100000, 1.2, 83334), (50000, 1.2, 41667), (-1, 1.2, -1), (0, 1.2, 0), (100000, 1.0, 100000)],
)
def test_examples_of_scaling(quota: int, ratio: float, expected: int) -> None:
    assert scaled_quota_us(quota, ratio) == expected
