# SPDX-License-Identifier: Apache-2.0
"""What is told adds up to what is offered."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from koord.api.codec import to_json
from koord.controllers.manager.overcommit.explain.breakdown import OfferBreakdown, OfferSum, account
from koord.controllers.manager.overcommit.explain.breakdown_lines import GROUPS
from tests.controllers.manager.overcommit import objects
from tests.controllers.manager.overcommit.cases import nodes, pairs
from tests.controllers.manager.overcommit.test_examples import NODE, cores, saying
from tests.models import overcommit as model


def adds_up(found: OfferSum) -> bool:
    return sum(line.amount for line in found.lines) == found.offered


def sums(told: OfferBreakdown) -> list[OfferSum]:
    found = [s for pair in (told.batch, told.mid) if pair for s in (pair.cpu, pair.memory)]
    return found + [s for zone in told.zones for s in (zone.cpu, zone.memory)]


@given(case=nodes(), system=pairs)
def test_lines_add_up(case: model.Node, system: model.Pair) -> None:
    ledger = objects.ledger(case)
    later = replace(case, system=system, age_seconds=None if case.age_seconds is None else 1)
    ledger.put_metric(objects.metric(later))
    ledger.recompute(objects.NOW)
    told = account(ledger, 0)
    assert (told.batch is None) == bool(ledger.batch.degraded[0]) == bool(told.reason)
    assert all(adds_up(found) for found in sums(told))
    assert not any(line.what == "sinceThen" for found in sums(told) for line in found.lines)
    if told.batch is None or told.mid is None:
        return
    for at, found in enumerate((told.batch.cpu, told.batch.memory)):
        assert found.offered == ledger.batch.amounts[at, 0]
        for group in GROUPS:
            of_pods = sum(share.amount for share in found.pods if share.group == group)
            assert -of_pods == sum(line.amount for line in found.lines if line.what == group)
    assert [told.mid.cpu.offered, told.mid.memory.offered] == ledger.mid.amounts[:, 0].tolist()
    for zone in told.zones:
        offered = ledger.zone_amounts[:, zone.number, 0].tolist()
        assert [zone.cpu.offered, zone.memory.offered] == offered


@given(case=nodes(), more=st.integers(1, 9))
def test_what_changed_since_the_last_recompute_stands_apart(case: model.Node, more: int) -> None:
    ledger = objects.ledger(case)
    before = ledger.batch.amounts[:, 0].tolist()
    ledger.put_pod(objects.pod(model.Pod("late", qos_label="LS", request=(more, more))))
    told = account(ledger, 0)
    assert all(adds_up(found) for found in sums(told))
    if told.batch is not None:
        assert [told.batch.cpu.offered, told.batch.memory.offered] == before


def test_every_term_of_the_worked_example() -> None:
    late = model.Pod("new", qos_label="LSE", request=cores(2, 1))
    still = model.Pod("lse", qos_label="LSE", request=cores(3, 1))
    case = replace(
        NODE,
        pods=[*NODE.pods, late, still],
        metrics={**NODE.metrics, "lse": model.Metric(cores(1, 1))},
        dangling=[
            model.Metric(cores(1, 2), "koord-prod"),
            model.Metric(cores(9, 9), "koord-batch"),
        ],
        hosts=[("koord-prod", cores(1, 1)), ("koord-batch", cores(5, 5))],
        reserved=cores(9, 0),
        strategy=saying(batchCPUThresholdPercent=15, memoryCalculatePolicy="request"),
    )
    told = account(objects.ledger(case), 0)
    assert told.batch is not None
    assert told.batch.cpu.policy == "usage"
    assert [(line.what, line.amount) for line in told.batch.cpu.lines] == [
        ("capacity", 100_000),
        ("margin", -35_000),
        ("system", -7_000),
        ("hostApplications", -1_000),
        ("reserved", -1_000),
        ("prodPods", -38_000),
        ("gonePods", -1_000),
        ("cap", -2_000),
    ]
    assert [(share.pod, share.by, share.amount) for share in told.batch.cpu.pods] == [
        ("default/a", "usage", 11_000),
        ("default/c", "usage", 22_000),
        ("default/lse", "notLent", 3_000),
        ("default/new", "notMeasured", 2_000),
        ("default/gone-0", "gone", 1_000),
    ]
    assert told.batch.memory.policy == "request"
    assert {share.by for share in told.batch.memory.pods} == {"request"}
    assert b'"hostApplications"' in to_json(told)


def test_why_nothing_is_offered() -> None:
    for case, reason in (
        (replace(NODE, strategy={}), "disabled"),
        (replace(NODE, age_seconds=None), "noTime"),
        (replace(NODE, body=False), "noBody"),
        (replace(NODE, age_seconds=15 * 60 + 1), "expired"),
    ):
        told = account(objects.ledger(case), 0)
        assert told.reason == reason
        assert told.message
        assert told.batch is told.mid is None
    ledger = objects.ledger(NODE)
    ledger.drop_metric("n")
    ledger.recompute(objects.NOW)
    assert account(ledger, 0).reason == "noMetric"
