# SPDX-License-Identifier: Apache-2.0
"""The small rules: which zone is which, what is written, what a strategy leaves open, expiry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import convert
from koord.api.kinds.pod import Pod
from koord.api.kinds.topology import NodeResourceTopology
from koord.controllers.manager.overcommit.amounts import MOST, share
from koord.controllers.manager.overcommit.explain.breakdown import account
from koord.controllers.manager.overcommit.formulas import threshold
from koord.controllers.manager.overcommit.formulas.zones import numbers
from koord.controllers.manager.overcommit.objects import node_report, pod_terms, strategy_columns
from koord.controllers.manager.overcommit.objects.node_columns import DegradeReason
from koord.controllers.manager.overcommit.objects.pod_term_cache import PodTermCache
from koord.controllers.manager.overcommit.objects.strategy_columns import UNSET, CalculatePolicy
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.controllers.manager.overcommit import cases, objects
from tests.controllers.manager.overcommit.test_examples import NODE
from tests.models import overcommit as model


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["node-0", "node-1"], [0, 1]),
        (["node-0", "node-1", "node-10", "node-2"], [0, 1, 10, 2]),
        (["numa3", "numa1"], [3, 1]),
        (["left", "right"], [0, 1]),
        (["node-0", "right"], [0, 1]),
        (["a-1", "b-1"], [0, 1]),
        (["node-64", "node-1"], [0, 1]),
        ([], []),
    ],
)
def test_zones_by_number(names: list[str], expected: list[int]) -> None:
    assert numbers(names) == expected


def test_zones_without_cpu_and_memory_are_none() -> None:
    found = {"zones": [{"name": "node-0", "type": "Node", "resources": [{"name": "gpu"}]}]}
    assert node_report.zone_capacity(convert(found, NodeResourceTopology, "test")) == {}


@given(
    old=st.integers(-1, 10**13),
    new=st.integers(-1, 10**13),
    fraction=st.sampled_from([0.1, 0.07, 1]),
)
def test_what_is_due(old: int, new: int, fraction: float) -> None:
    """In one and not the other, or further than the fraction of the old, strictly.

    Rule: docs/reference/node-resources.md#threshold.
    """
    if old == -1 or new == -1:
        expected = old != new
    else:
        expected = abs(float(new * 1000) - float(old * 1000)) > float(old * 1000) * fraction
    before, after = (np.array([[5, 5], [each, 5]]) for each in (old, new))
    found = threshold.due(before, after, np.array([fraction, fraction]))
    assert found.tolist() == [expected, False]


@pytest.mark.parametrize(("old", "new", "due"), [(0, 1, True), (100, 110, False), (100, 111, True)])
def test_equality_is_not_due(old: int, new: int, due: bool) -> None:
    found = threshold.due(np.array([[old], [7]]), np.array([[new], [7]]), np.array([0.1]))
    assert found.tolist() == [due]


@given(amount=st.integers(0, MOST), percent=st.integers(-200, 200))
def test_shares_are_cut_toward_zero_in_doubles(amount: int, percent: int) -> None:
    assert share(np.array([[amount]]), np.array([[percent]]))[0, 0] == int(amount * (percent / 100))


@given(given=cases.strategies)
def test_what_a_strategy_leaves_open_is_at_its_default(given: dict[str, Any]) -> None:
    found = strategy_columns.of(objects.strategy(given))
    node = replace(NODE, strategy=given)
    says = {key: node.says(key) for key in model.DEFAULTS}
    assert found.enable == says["enable"]
    assert found.reclaim_percent == (
        says["cpuReclaimThresholdPercent"], says["memoryReclaimThresholdPercent"],
    )  # fmt: skip
    cap = (says["batchCPUThresholdPercent"], says["batchMemoryThresholdPercent"])
    assert found.batch_cap_percent == tuple(UNSET if each is None else each for each in cap)
    assert found.degrade_seconds == says["degradeTimeMinutes"] * 60
    assert found.mid_static == (says["midReclaimMode"] == "static")
    assert (found.policy[0] is CalculatePolicy.REQUEST) is False


@pytest.mark.parametrize("absurd", [10**15, -(10**15)])
def test_an_annotation_that_nobody_means(absurd: int) -> None:
    """Whatever a caller says, nothing impossible is offered."""
    percents = [key for key in model.DEFAULTS if key.endswith("Percent")]
    for policy in ("usage", "requestRatio"):
        given: dict[str, Any] = dict.fromkeys(percents, absurd)
        given |= {"enable": True, "cpuCalculatePolicy": policy, "memoryCalculatePolicy": policy}
        case = replace(NODE, strategy=given, zones=[model.Zone(0, NODE.capacity)])
        ledger = objects.ledger(case)
        for kind in ("batch", "mid"):
            found = objects.offered(ledger, kind)
            assert found is not None
            assert min(found) >= 0
        if policy == "requestRatio":
            assert objects.offered(ledger, "batch") <= NODE.capacity  # type: ignore[operator]


def test_no_strategy_offers_nothing() -> None:
    assert strategy_columns.of(None).enable is False


def test_expiry_instants() -> None:
    ledger = objects.ledger(NODE)
    objects.put(ledger, replace(NODE, strategy={}), "off")
    objects.put(ledger, replace(NODE, age_seconds=None), "silent")
    ledger.recompute(objects.NOW)
    assert ledger.expiry().tolist() == [objects.NOW + 15 * 60, np.inf, np.inf]
    assert ledger.recompute(objects.NOW + 15 * 60).tolist() == []
    assert ledger.recompute(objects.NOW + 15 * 60 + 1).tolist() == [0]
    assert DegradeReason(int(ledger.batch.degraded[0])) is DegradeReason.EXPIRED
    assert ledger.expiry()[0] == np.inf


@given(case=cases.nodes(), shown=st.tuples(st.integers(0), st.integers(0)))
def test_without_a_strategy_a_node_keeps_what_its_report_speaks_for(
    case: model.Node, shown: tuple[int, int]
) -> None:
    ledger = objects.ledger(replace(case, strategy={}))
    ledger.recompute(objects.NOW, known=False)
    reason = DegradeReason(int(ledger.batch.degraded[0]))
    assert (reason is DegradeReason.UNREAD) == (model.kept(shown, case) == shown)
    assert reason not in (DegradeReason.NO, DegradeReason.DISABLED)
    assert np.isfinite(ledger.expiry()[0]) == (reason is DegradeReason.UNREAD)
    told = account(ledger, 0)
    assert told.message
    assert told.batch is told.mid is None
    assert not ledger.zone_amounts.any()
    ledger.put_node(objects.node(case), objects.strategy(case.strategy))
    ledger.recompute(objects.NOW)
    assert objects.offered(ledger, "batch") == model.batch(case)


def test_rows_of_names_that_went_are_used_again() -> None:
    ledger = OvercommitCache()
    for number in range(100):
        objects.put(ledger, replace(NODE, pods=[]), f"node-{number}")
        ledger.recompute(objects.NOW)
        ledger.drop_node(f"node-{number}")
        ledger.drop_metric(f"node-{number}")
        ledger.recompute(objects.NOW)
    assert len(ledger) == 1


def test_our_own_writes_change_nothing() -> None:
    ledger = objects.ledger(NODE)
    written = objects.node(NODE)
    for amounts in (written.status.capacity, written.status.allocatable):
        amounts["kubernetes.io/batch-cpu"] = amounts["cpu"]
    ledger.put_node(written, objects.strategy(NODE.strategy))
    assert ledger.recompute(objects.NOW).tolist() == []


@given(drawn=st.lists(cases.pods, max_size=6))
def test_pods_that_share_parts_have_the_rows_they_would_have_alone(drawn: list[model.Pod]) -> None:
    cache = PodTermCache(limit=4)
    shared: dict[Any, Pod] = {}
    for at, each in enumerate(drawn):
        pod = objects.pod(replace(each, name=f"p{at}"))
        first = shared.setdefault((each.request, each.mid_request), pod)
        pod.spec.containers = first.spec.containers
        assert cache.of(pod) == pod_terms.term(pod) == cache.of(pod)


def test_amounts_beyond_any_machine() -> None:
    huge = model.Pod("huge", qos_label="LS", request=(10**17, 10**17))
    case = replace(NODE, pods=[replace(huge, name=f"huge-{at}") for at in range(100)], metrics={})
    case = replace(case, zones=[model.Zone(0, NODE.capacity)])
    ledger = objects.ledger(case)
    assert objects.offered(ledger, "batch") == (0, 0)
    assert not ledger.zone_amounts.any()


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (pod_terms.PodFlag.HIGH, (4, 5, 4, 5, 4, 5)),
        (pod_terms.PodFlag.HIGH | pod_terms.PodFlag.MEASURED, (4, 5, 3, 6, 4, 6)),
        (
            pod_terms.PodFlag.HIGH | pod_terms.PodFlag.MEASURED | pod_terms.PodFlag.LSE,
            (4, 5, 4, 6, 4, 6),
        ),
        (pod_terms.PodFlag.MEASURED, (0, 0, 0, 0, 0, 0)),
    ],
)
def test_what_one_row_takes(flags: pod_terms.PodFlag, expected: tuple[int, ...]) -> None:
    term = pod_terms.PodTerm(int(flags), (4, 5), (3, 6), 0)
    assert pod_terms.claimed(term) == expected
    found = pod_terms.claims(pod_terms.columns([(0, term)]))
    columns = np.concatenate([found.request, found.used, found.larger])[:, 0]
    assert tuple(columns.tolist()) == expected
