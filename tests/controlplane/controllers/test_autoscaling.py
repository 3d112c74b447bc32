# SPDX-License-Identifier: Apache-2.0
"""HorizontalPodAutoscalers: figures to replicas, windows and rates, and a day in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.base.documents import Document
from koord.controlplane.controllers.autoscaling import decision
from koord.controlplane.controllers.autoscaling.rate_limits import ScaleHistory, pace
from koord.controlplane.controllers.autoscaling.replica_calculator import (
    MetricError,
    MetricTarget,
    PodUsage,
    Tolerances,
    proposal,
)
from koord.controlplane.controllers.base.objects import Owner, timestamp
from koord.kube.client import Client
from tests.controlplane.scene import Scene, play

NOW = 1_900_000_000.0
CPU = MetricTarget("cpu", 50)


def pod(name: str, request: str = "1", *, ready: bool = True, phase: str = "Running",
        started: float = NOW - 3600) -> Pod:  # fmt: skip
    moved = {"lastTransitionTime": timestamp(started + 10)}
    document = {
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": request}}}]},
        "status": {"phase": phase, "startTime": timestamp(started),
                   "conditions": [{"type": "Ready", "status": str(ready), **moved}]},
    }  # fmt: skip
    return codec.convert(document, Pod, name)


def usage(**milli: int) -> dict[str, PodUsage]:
    return {name: PodUsage(amount, NOW - 20, 30) for name, amount in milli.items()}


def wanted(
    current: int, found: Sequence[Pod], used: dict[str, PodUsage], target: MetricTarget = CPU
) -> int:
    return proposal(current, target, found, used, Tolerances(), NOW).replicas


def test_use_is_compared_with_what_is_aimed_at() -> None:
    three = [pod("a"), pod("b"), pod("c")]
    # 75 % of the requests where 50 % are aimed at: half as many again.
    result = proposal(3, CPU, three, usage(a=500, b=750, c=1000), Tolerances(), NOW)
    assert (result.replicas, result.percent, result.milli) == (5, 75, 750)
    assert wanted(3, three, usage(a=100, b=100, c=100)) == 1
    # Within a tenth nothing is to be done: 45 to 55 %.
    for percent, replicas in ((45, 3), (55, 3), (44, 3), (56, 4)):
        amount = percent * 10
        assert wanted(3, three, usage(a=amount, b=amount, c=amount)) == replicas
    assert wanted(3, three, usage(a=300, b=300, c=300)) == 2
    amount = MetricTarget("memory", 0, 200_000)
    assert wanted(3, three, usage(a=300_000, b=300_000, c=300_000), amount) == 5


def test_pods_that_tell_nothing_hold_back() -> None:
    fresh = pod("d", started=NOW - 20)
    three = [pod("a"), pod("b"), pod("c")]
    # A pod that has just started counts as using nothing: 3 x 90 % over four are 67 %.
    assert wanted(4, [*three, fresh], usage(a=900, b=900, c=900, d=1000)) == 6
    # A pod without figures counts as using nothing on the way up, all of its request down.
    assert wanted(4, [*three, pod("d")], usage(a=900, b=900, c=900)) == 6
    assert wanted(4, [*three, pod("d")], usage(a=100, b=100, c=100)) == 3
    assert wanted(4, [*three, pod("d")], usage(a=300, b=300, c=300)) == 4
    # One that fails is ignored.
    assert wanted(4, [*three, pod("d", phase="Failed")], usage(a=900, b=900, c=900)) == 6
    for found, used, why in (
        ([], {}, "no pods returned by selector while calculating replica count"),
        ([fresh], usage(d=1), "did not receive metrics for targeted pods (pods might be unready)"),
        ([codec.convert({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c"}]},
                         "status": {"phase": "Running"}}, Pod, "a"), *three],
         usage(b=1), "missing request for cpu in container c of Pod a"),
    ):  # fmt: skip
        with pytest.raises(MetricError) as error:
            wanted(1, found, used)
        assert str(error.value) == why


def test_down_waits_five_minutes_and_up_does_not() -> None:
    history = ScaleHistory()
    history.recommended.append((NOW, 8))
    for seconds, recommended, replicas, reason in (
        (0, 8, 8, "ReadyForNewScale"),
        (15, 2, 8, "ScaleDownStabilized"),
        (300, 2, 8, "ScaleDownStabilized"),
        (301, 2, 2, "ReadyForNewScale"),
    ):
        result = pace(8, recommended, 1, 20, None, history, NOW + seconds)
        assert (result.replicas, result.able[0]) == (replicas, reason), seconds
    up = pace(2, 20, 1, 20, None, history, NOW + 316)
    assert (up.replicas, up.limited, up.why[0]) == (4, True, "ScaleUpLimit")
    over = pace(12, 30, 1, 20, None, history, NOW + 331)
    assert (over.replicas, over.why[0]) == (20, "TooManyReplicas")
    under = pace(1, 0, 1, 20, None, ScaleHistory(), NOW)
    assert (under.replicas, under.why[0]) == (1, "TooFewReplicas")


def rules(window: int, select: str = "Max", **policy: int) -> Document:
    policies = [
        {"type": kind, "value": value, "periodSeconds": 60} for kind, value in policy.items()
    ]
    return {"stabilizationWindowSeconds": window, "selectPolicy": select, "policies": policies}


def test_rates_of_a_scaler_of_its_own() -> None:
    behavior = {"scaleUp": rules(0, "Min", Pods=3, Percent=100), "scaleDown": rules(0, Pods=1)}
    history = ScaleHistory()
    first = pace(4, 20, 1, 20, behavior, history, NOW)
    assert (first.replicas, first.why[0]) == (7, "ScaleUpLimit")
    history.changes.append((NOW, 3))
    # Within the same minute no more than three in all.
    assert pace(7, 20, 1, 20, behavior, history, NOW + 15).replicas == 7
    assert pace(7, 20, 1, 20, behavior, history, NOW + 61).replicas == 10
    down = pace(7, 1, 1, 20, behavior, ScaleHistory(), NOW)
    assert (down.replicas, down.why[0]) == (6, "ScaleDownLimit")
    stopped = {**behavior, "scaleDown": rules(0, "Disabled", Pods=1)}
    assert pace(7, 1, 1, 20, stopped, ScaleHistory(), NOW).replicas == 7
    slow = {**behavior, "scaleUp": rules(120, Pods=9)}
    held = ScaleHistory()
    assert pace(2, 2, 1, 20, slow, held, NOW).replicas == 2
    late = pace(2, 8, 1, 20, slow, held, NOW + 60)
    assert (late.replicas, late.able[0]) == (2, "ScaleUpStabilized")
    assert pace(2, 8, 1, 20, slow, held, NOW + 121).replicas == 8


def test_a_history_is_bounded() -> None:
    history = ScaleHistory()
    for step in range(5_000):
        pace(3, 3, 1, 9, None, history, NOW + step)
        history.changes.append((NOW + step, 1))
    assert (len(history.recommended), len(history.changes)) == (1000, 1001)


def owner(*metrics: Document, **spec: Any) -> Owner:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    whole = {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": 9, **spec}
    listed = metrics or (
        {"type": "Resource", "resource": {"name": "cpu", "target": {
            "type": "Utilization", "averageUtilization": 50}}},
    )  # fmt: skip
    document = {"metadata": {"name": "h", "namespace": "ns"},
                "spec": {**whole, "metrics": list(listed)}}  # fmt: skip
    return codec.convert(document, Owner, "h")


def test_a_status_says_what_was_found() -> None:
    found = [pod("a"), pod("b")]
    scale = decision.WorkloadScale(2, found, {("cpu", ""): usage(a=750, b=1250)})
    history = ScaleHistory()
    outcome = decision.decide(owner(), scale, history, NOW)
    assert outcome.replicas == 4
    decision.scaled(outcome, 2, history, NOW)
    said = [(note.reason, note.message) for note in outcome.notes]
    assert said == [
        ("SuccessfulRescale", "New size: 4; reason: cpu resource utilization (percentage of "
         "request) above target")
    ]  # fmt: skip
    status = outcome.status
    assert [(c["type"], c["status"], c["reason"]) for c in status.pop("conditions")] == [
        ("AbleToScale", "True", "SucceededRescale"),
        ("ScalingActive", "True", "ValidMetricFound"),
        ("ScalingLimited", "False", "DesiredWithinRange"),
    ]
    assert status == {
        "currentReplicas": 2,
        "desiredReplicas": 4,
        "lastScaleTime": timestamp(NOW),
        "currentMetrics": [
            {
                "type": "Resource",
                "resource": {
                    "name": "cpu",
                    "current": {"averageValue": "1", "averageUtilization": 100},
                },
            }
        ],
    }


def test_amounts_beyond_64_bits_are_as_much_as_fits() -> None:
    memory = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "9E"}}
    behavior = {way: {**rules(0, Pods=1), "tolerance": "1e30"} for way in ("scaleUp", "scaleDown")}
    scaler = owner({"type": "Resource", "resource": memory}, behavior=behavior)
    scale = decision.WorkloadScale(2, [pod("a"), pod("b")], {("memory", ""): usage(a=1000, b=1000)})
    assert decision.decide(scaler, scale, ScaleHistory(), NOW).replicas is None
    # The requests of this one are more than anybody uses.
    huge = [pod("a", "9E"), pod("b", "9E")]
    assert wanted(2, huge, usage(a=500, b=500)) == 0  # and bounds keep one


def test_the_largest_wish_wins_and_nothing_shrinks_by_half_the_figures() -> None:
    cpu = {"name": "cpu", "target": {"type": "AverageValue", "averageValue": "1"}}
    hits = {"metric": {"name": "hits"}, "target": {"type": "AverageValue", "averageValue": "1"}}
    metrics = ({"type": "Resource", "resource": cpu}, {"type": "Pods", "pods": hits})
    for milli, replicas in ((3000, 4), (100, None)):
        scale = decision.WorkloadScale(
            2, [pod("a"), pod("b")], {("cpu", ""): usage(a=milli, b=milli)}
        )
        outcome = decision.decide(owner(*metrics), scale, ScaleHistory(), NOW)
        assert outcome.replicas == replicas
        assert outcome.notes[0].message == (
            "unable to get metric hits: there is no custom metrics API here"
        )
    active = next(c for c in outcome.status["conditions"] if c["type"] == "ScalingActive")
    assert (active["status"], active["reason"]) == ("False", "FailedGetPodsMetric")


def test_those_that_look_at_the_same_time_all_find_their_targets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    discover = Client.discover

    async def slowly(self: Client, **options: Any) -> Any:
        await asyncio.sleep(0.1)
        return await discover(self, **options)

    async def story(scene: Scene) -> None:
        template = {"metadata": {"labels": {"a": "b"}},
                    "spec": {"containers": [{"name": "c", "image": "i"}]}}  # fmt: skip
        spec = {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": template}
        for number in range(4):
            metadata = {"name": f"w-{number}", "namespace": "default"}
            head = {"apiVersion": "apps/v1", "kind": "Deployment"}
            await scene.client.create({**head, "metadata": metadata, "spec": spec})
            target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"w-{number}"}
            whole = {"scaleTargetRef": target, "maxReplicas": 3}
            await scene.client.create({"metadata": metadata, "spec": whole}, kind=decision.SCALER)
        await scene.stop()
        scene.events.clear()
        monkeypatch.setattr(Client, "discover", slowly)
        await scene.start()
        await asyncio.sleep(5)
        for number in range(4):
            found = await scene.client.get(decision.SCALER, f"w-{number}", "default")
            reasons = {each["type"]: each["reason"] for each in found["status"]["conditions"]}
            assert reasons["AbleToScale"] == "SucceededGetScale"
        assert not [event for event in scene.events if event[1] == "FailedGetScale"]

    play(story)


def test_targets_that_nobody_serves_are_looked_for_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = 0
    discover = Client.discover

    async def counted(self: Client, **options: Any) -> Any:
        nonlocal looks
        looks += 1
        return await discover(self, **options)

    async def story(scene: Scene) -> None:
        target = {"apiVersion": "example.com/v1", "kind": "Robot", "name": "r"}
        monkeypatch.setattr(Client, "discover", counted)
        for number in range(30):
            metadata = {"name": f"h-{number}", "namespace": "default"}
            spec = {"scaleTargetRef": target, "maxReplicas": 3}
            await scene.client.create({"metadata": metadata, "spec": spec}, kind=decision.SCALER)
        await asyncio.sleep(40)
        found = await scene.client.get(decision.SCALER, "h-29", "default")
        conditions = [(c["reason"], c["message"]) for c in found["status"]["conditions"]]
        said = 'no matches for kind "Robot" in group "example.com"'
        assert conditions == [
            ("FailedGetScale",
             f"the HPA controller was unable to get the target's current scale: {said}"),
        ]  # fmt: skip
        assert looks < 15

    play(story)
