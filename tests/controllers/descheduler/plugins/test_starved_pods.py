# SPDX-License-Identifier: Apache-2.0
"""StarvedPods: for how long, who, where to, and whom it leaves to the agent."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import codec
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.controllers.descheduler.plugins.starvedpods.report_history import (
    Report,
    ReportHistory,
)
from koord.controllers.descheduler.plugins.starvedpods.starved_pods import StarvedPodsArgs
from koord.controllers.scheduler.config.field_path import FieldPath
from tests.controllers.descheduler.world import NOW, RecordedEvictions, cluster, make, pod
from tests.outcomes import refusal

BATCH = "kubernetes.io/batch-cpu"
MINUTE = 60.0


def machine(name: str, batch: int = 6000) -> Node:
    """A node of 10 CPUs that offers batch CPU."""
    return codec.convert(
        {
            "metadata": {"name": name},
            "status": {
                "capacity": {"cpu": "10"},
                "allocatable": {"cpu": "10", "memory": "8Gi", "pods": "20", BATCH: str(batch)},
            },
        },
        Node, name, "",
    )  # fmt: skip


def batch_pod(name: str, milli: int, node_name: str = "n1", **more: Any) -> Pod:
    asked = {"requests": {BATCH: str(milli)}}
    labels = {"koordinator.sh/qosClass": "BE"}
    spec = {"containers": [{"name": "c", "image": "i", "resources": asked}], "priority": 5500}
    return pod(name, node_name, labels=labels, spec=spec, **more)


def report(name: str, cpu_milli: int, usage: dict[str, int], time: float) -> NodeMetric:
    document = {
        "metadata": {"name": name},
        "status": {
            "nodeMetric": {"nodeUsage": {"resources": {"cpu": f"{cpu_milli}m"}}},
            "podsMetric": [
                {"namespace": "default", "name": key,
                 "podUsage": {"resources": {"cpu": f"{milli}m"}}}
                for key, milli in usage.items()
            ],
        },
    }  # fmt: skip
    metric = codec.convert(document, NodeMetric, name, "")
    metric.status.update_time = datetime.fromtimestamp(time, UTC)
    return metric


def slo(**strategy: Any) -> NodeSLO:
    threshold = {"enable": True, "cpuSuppressThresholdPercent": 65, **strategy}
    return codec.convert({"spec": {"resourceUsedThresholdWithBE": threshold}}, NodeSLO, "a slo", "")


class Rounds:
    """Rounds of the plugin, a minute apart, over nodes n1 (busy) and n2 (free).

    Attributes:
        used: CPU in use by node, in milli-cores.
        usage: CPU in use by pod.
    """

    def __init__(self, pods: list[Pod], args: dict[str, Any] | None = None, **more: Any) -> None:
        self.pods = pods
        self.used = {"n1": 7000, "n2": 1000}
        self.usage: dict[str, int] = {}
        self.slos = {"n1": more.pop("slo", slo()), "n2": slo()}
        self.nodes = more.pop("nodes", [machine("n1"), machine("n2")])
        self.clock = VirtualClock(NOW)
        self.evictions = RecordedEvictions(more.pop("refuses", ()))
        self.descheduling = make(
            "balance", "StarvedPods", args, self.evictions, clock=self.clock, **more
        )

    def minute(self) -> list[str]:
        """The pods that are evicted a minute later, upon a new report."""
        self.clock.advance(MINUTE)
        now = self.clock.wall_seconds()
        metrics = {
            name: report(name, used, self.usage if name == "n1" else {}, now)
            for name, used in self.used.items()
        }
        view = cluster(self.nodes, self.pods, node_metrics=metrics, node_slos=self.slos)
        self.evictions.names.clear()
        assert asyncio.run(self.descheduling.run(view)).errors == []
        return list(self.evictions.names)

    def minutes(self, count: int) -> list[list[str]]:
        return [self.minute() for _ in range(count)]


def starving(args: dict[str, Any] | None = None, **more: Any) -> Rounds:
    """Three pods that get a third of what they ask for."""
    pods = [batch_pod("a", 1000), batch_pod("b", 2000), batch_pod("c", 3000)]
    rounds = Rounds(more.pop("pods", pods), args, **more)
    rounds.usage = {"a": 300, "b": 600, "c": 900}
    return rounds


def test_those_that_gain_most_go_after_ten_minutes() -> None:
    rounds = starving()
    assert rounds.minutes(10) == [[]] * 10
    # 3000 - 900 before 2000 - 600; two a node and round.
    assert rounds.minute() == ["c", "b"]
    assert rounds.evictions.reasons[0] == "best-effort pods of node n1 get 30% of the CPU"


def test_two_thirds_of_the_reports_are_enough() -> None:
    for good, moved in ((3, True), (4, False)):
        rounds = starving()
        for number in range(11):
            # While services use little, nothing is suppressed.
            fine = 3 <= number < 3 + good
            rounds.used["n1"] = 6400 if fine else 7000
            share = 1000 if fine else 300
            rounds.usage = {"a": share, "b": 2 * share, "c": 3 * share}
            last = rounds.minute()
        assert bool(last) == moved


@pytest.mark.parametrize(
    "change",
    [
        {"used": 6499}, {"usage": {"a": 600, "b": 1200, "c": 1800}},
        {"slo": slo(enable=False)}, {"slo": slo(cpuSuppressThresholdPercent=71)},
    ],
)  # fmt: skip
def test_what_is_no_starving(change: dict[str, Any]) -> None:
    rounds = starving(slo=change.get("slo", slo()))
    rounds.used["n1"] = change.get("used", 7000)
    rounds.usage = change.get("usage", rounds.usage)
    assert rounds.minutes(12) == [[]] * 12


def test_the_thresholds_are_included_as_they_say() -> None:
    rounds = starving()
    rounds.used["n1"] = 6500  # at the suppress threshold of 65 %
    rounds.usage = {"a": 599, "b": 1200, "c": 1800}  # just below 60 % of what is asked for
    assert any(rounds.minutes(11))


def test_a_pod_that_uses_little_by_itself_is_not_starved() -> None:
    rounds = starving()
    # While nothing holds them down they use no more than later on.
    rounds.used["n1"] = 3000
    rounds.minutes(2)
    rounds.used["n1"] = 7000
    assert rounds.minutes(12) == [[]] * 12


def test_a_silence_begins_anew() -> None:
    rounds = starving()
    rounds.minutes(9)
    rounds.clock.advance(200)
    assert rounds.minutes(10) == [[]] * 10
    assert rounds.minute() != []


def test_a_report_counts_once() -> None:
    history = ReportHistory(600, 180)
    history.add(Report(100.0, True))
    assert not history.is_new(100.0)
    assert history.is_new(160.0)


def test_nobody_goes_where_it_would_be_held_down_again() -> None:
    rounds = starving()
    # 65 % of 10 CPUs: with c's 3 it would be over, with b's 2 just at it, with a's 1 below.
    rounds.used["n2"] = 4500
    assert rounds.minutes(11)[-1] == ["a"]
    # 1 CPU is in use there: b's 2 make 30 %, which is not below 30.
    assert starving({"highThresholdPercent": 30}).minutes(11)[-1] == ["a"]
    assert starving({"highThresholdPercent": 31}).minutes(11)[-1] == ["b"]
    rounds = starving(nodes=[machine("n1"), machine("n2", batch=2500)])
    assert rounds.minutes(11)[-1] == ["b"]


def test_moves_of_one_round_are_counted() -> None:
    # Batch CPU for one of the two.
    rounds = starving(nodes=[machine("n1"), machine("n2", batch=4000)])
    assert rounds.minutes(11)[-1] == ["c", "a"]


def test_the_next_ones_go_in_the_next_round_and_a_moved_one_stays() -> None:
    rounds = starving({"maxPodsPerNode": 1})
    assert rounds.minutes(11)[-1] == ["c"]
    moved = rounds.clock.wall_seconds()
    # c comes back, made anew by its owner, and is held down as before.
    made = batch_pod("c", 3000, age=NOW - moved - 1)
    rounds.pods = [*rounds.pods[:2], made]
    assert rounds.minute() == ["b"]
    rounds.pods = [rounds.pods[0], made]
    assert rounds.minute() == ["a"]
    rounds.pods = [made]
    assert rounds.minutes(57) == [[]] * 57
    assert rounds.minutes(2)[-1] == ["c"]


def test_where_the_agent_would_act_sooner_nothing_is_done() -> None:
    bounds = {"cpuEvictBESatisfactionLowerPercent": 40, "cpuEvictBESatisfactionUpperPercent": 60,
              "cpuEvictTimeWindowSeconds": 60}  # fmt: skip
    assert not any(starving(slo=slo(**bounds)).minutes(12))
    # It is satisfied with less, it waits for longer, or its bounds are none.
    for change in (
        {"cpuEvictBESatisfactionLowerPercent": 29}, {"cpuEvictTimeWindowSeconds": 600},
        {"cpuEvictBESatisfactionUpperPercent": 39},
    ):  # fmt: skip
        assert any(starving(slo=slo(**{**bounds, **change})).minutes(12))


def test_what_keeps_pods() -> None:
    for args in (
        {"paused": True}, {"dryRun": True}, {"evictableNamespaces": {"exclude": ["default"]}},
        {"nodeSelector": {"matchLabels": {"pool": "x"}}}, {"satisfactionThresholdPercent": 30},
        {"podSelectors": [{"selector": {"matchLabels": {"app": "x"}}}]}, {"window": "20m"},
    ):  # fmt: skip
        assert not any(starving(args).minutes(12))
    # A service is none of its pods, and one that cannot go makes the next one go.
    assert starving(refuses={"c"}).minutes(11)[-1] == ["b", "a"]
    services = [pod("a", cpu="1"), pod("b", cpu="2"), pod("c", cpu="3")]
    assert not any(starving(pods=services).minutes(12))


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"satisfactionThresholdPercent": 0}, "args.satisfactionThresholdPercent: got 0"),
        ({"highThresholdPercent": 101}, "args.highThresholdPercent: got 101"),
        ({"maxPodsPerNode": 0}, "args.maxPodsPerNode: got 0"),
        ({"window": "0s"}, "args.window: got '0s', expected a duration above 0"),
        ({"cooldown": "-1s"}, "args.cooldown"),
        ({"nodeMetricExpirationSeconds": 0}, "args.nodeMetricExpirationSeconds: got 0"),
    ],
)
def test_wrong_arguments_name_their_place(args: dict[str, Any], message: str) -> None:
    assert message in refusal(StarvedPodsArgs.read, args, FieldPath("f", "args"))


@given(st.lists(st.tuples(st.integers(1, 200), st.booleans()), max_size=30))
def test_histories_agree_with_a_model_that_keeps_everything(steps: list[tuple[int, bool]]) -> None:
    history, time = ReportHistory(600, 180), 1000.0
    all_reports: list[tuple[float, bool]] = []
    for seconds, starved in steps:
        time += seconds
        history.add(Report(time, starved))
        all_reports.append((time, starved))
        run = all_reports[-1:]
        for each in reversed(all_reports[:-1]):
            if run[0][0] - each[0] > 180:
                break
            run.insert(0, each)
        recent = [each for each in run if each[0] > time - 600]
        covered = run[0][0] <= time - 600
        enough = 3 * sum(each[1] for each in recent) >= 2 * len(recent)
        assert history.is_starved(time) == (covered and enough and starved)
