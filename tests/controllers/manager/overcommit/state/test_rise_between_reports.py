# SPDX-License-Identifier: Apache-2.0
"""Pods that come and go between reports: no cliff that is not there, and never too much offered."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.manager.overcommit.explain.breakdown import account
from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.controllers.manager.overcommit import objects
from tests.controllers.manager.overcommit.cases import nodes, pairs
from tests.controllers.manager.overcommit.objects import offered
from tests.controllers.manager.overcommit.test_examples import NODE, cores
from tests.models import overcommit as model

NEW = model.Pod("new", qos_label="LS", request=cores(10, 10))


def told(ledger: OvercommitCache, case: model.Node, later: int) -> model.Pair | None:
    ledger.put_metric(objects.metric(case, now=objects.NOW + later))
    return now(ledger)


def now(ledger: OvercommitCache) -> model.Pair | None:
    ledger.recompute(objects.NOW + 60)
    return offered(ledger, "batch")


def test_a_pod_that_runs_before_it_is_told_from_the_system_counts_once() -> None:
    ledger = objects.ledger(NODE)
    ledger.put_pod(objects.pod(NEW))
    assert now(ledger) == cores(25 - 10, 33 - 10)
    # It uses four cores already, which no report tells from the system's.
    seen = replace(NODE, system=cores(11, 12))
    assert told(ledger, seen, 10) == cores(25 - 10, 33 - 10)
    lines = account(ledger, 0).batch.cpu.lines  # type: ignore[union-attr]
    assert [line.amount for line in lines if line.what == "waitingInSystem"] == [4_000]
    measured = replace(NODE, metrics={**NODE.metrics, "new": model.Metric(cores(4, 1))})
    assert told(ledger, measured, 20) == cores(25 - 4, 33 - 1)


def test_no_more_of_a_rise_than_pods_ask_for_is_theirs() -> None:
    ledger = objects.ledger(NODE)
    ledger.put_pod(objects.pod(NEW))
    assert told(ledger, replace(NODE, system=cores(21, 12)), 10) == cores(25 - 14, 33 - 10)


def test_what_the_system_takes_by_itself_is_not_taken_for_a_pod_for_long() -> None:
    ledger = objects.ledger(NODE)
    ledger.put_pod(objects.pod(NEW))
    seen = replace(NODE, system=cores(11, 12))
    told(ledger, seen, 10)
    assert told(ledger, seen, 20) == cores(25 - 10 - 4, 33 - 10)


def test_the_same_report_told_again_changes_nothing() -> None:
    ledger = objects.ledger(NODE)
    ledger.put_pod(objects.pod(NEW))
    seen = replace(NODE, system=cores(11, 12))
    before = told(ledger, seen, 10)
    assert told(ledger, seen, 10) == before
    assert ledger.recompute(objects.NOW + 60).tolist() == []


def test_a_pod_that_went_is_there_until_the_report_says_otherwise() -> None:
    ledger = objects.ledger(NODE)
    a = objects.pod(NODE.pods[0])
    ledger.drop_pod(a)
    assert now(ledger) == cores(25, 33)
    gone = {key: metric for key, metric in NODE.metrics.items() if key != "a"}
    assert told(ledger, replace(NODE, metrics=gone), 10) == cores(25 + 11, 33 + 11)


def test_a_batch_pod_that_went_is_known_for_one() -> None:
    """Agents that do not report classes made it count as high: a cliff (issue 1427)."""
    ledger = objects.ledger(NODE)
    ledger.drop_pod(objects.pod(NODE.pods[1]))
    assert now(ledger) == cores(25, 33)
    assert told(ledger, NODE, 10) == cores(25, 33)
    # A metric that nobody knows counts, for what it may be.
    assert offered(objects.ledger(replace(NODE, pods=NODE.pods[:1] + NODE.pods[2:])), "batch") == (
        cores(25 - 10, 33 - 10)
    )


def test_a_pod_that_takes_anothers_name_is_not_measured_yet() -> None:
    ledger = objects.ledger(NODE)
    ledger.drop_pod(objects.pod(NODE.pods[0]))
    ledger.put_pod(objects.pod(NODE.pods[0], uid="a-again"))
    assert now(ledger) == cores(25 - 20, 33 - 20)
    told_by = account(ledger, 0).batch.cpu.pods  # type: ignore[union-attr]
    assert [(share.pod, share.by) for share in told_by] == [
        ("default/a", "notMeasured"), ("default/c", "usage"), ("default/a", "gone"),
    ]  # fmt: skip
    assert told(ledger, NODE, 10) == cores(25, 33)


@given(case=nodes(), system=pairs, new=st.lists(pairs, max_size=2))
def test_never_more_than_what_is_measured_leaves(
    case: model.Node, system: model.Pair, new: list[model.Pair]
) -> None:
    """Whatever pods wait, and however the system rose meanwhile."""
    given = {"enable": True, "cpuCalculatePolicy": "usage", "memoryCalculatePolicy": "usage"}
    case = replace(case, strategy=given, age_seconds=0, body=True)
    ledger = objects.ledger(case)
    for at, request in enumerate(new):
        ledger.put_pod(objects.pod(model.Pod(f"new-{at}", qos_label="LS", request=request)))
    later = replace(case, system=system)
    found = told(ledger, later, 30)
    assert found is not None
    high = [pod for pod in model.counted(case) if pod.high and pod.name in case.metrics]
    for r in (0, 1):
        measured = system[r] + model.hosts(case, r, ("koord-prod", "koord-mid"))
        measured += sum(case.metrics[pod.name].used[r] for pod in high)
        measured += sum(m.used[r] for m in case.dangling if m.priority not in model.LOW)
        lse = [p for p in high if p.qos == "LSE" and r == 0]
        measured -= sum(max(0, case.metrics[p.name].used[0] - p.asked[0]) for p in lse)
        assert found[r] <= max(0, case.capacity[r] - measured)
        waits = [p.asked[r] for p in model.counted(case) if p.high and p.name not in case.metrics]
        assert found[r] <= max(0, case.capacity[r] - sum(waits) - sum(pair[r] for pair in new))


def test_what_a_name_was_is_forgotten_once_a_report_does_not_have_it() -> None:
    ledger = objects.ledger(NODE)
    ledger.drop_pod(objects.pod(NODE.pods[1]))
    without = {key: metric for key, metric in NODE.metrics.items() if key != "b"}
    assert told(ledger, replace(NODE, metrics=without), 10) == cores(25, 33)
    assert told(ledger, NODE, 20) == cores(25 - 10, 33 - 10), "of a pod nobody has seen"
