# SPDX-License-Identifier: Apache-2.0
"""Which cluster events wake pods that load kept out; reports and nodes at random: test_model."""

from __future__ import annotations

from typing import Any

from koord.controllers.scheduler.plugins.loadaware.queueing_hints import NODE_METRICS
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    Action,
    ClusterEvent,
)
from tests.controllers.scheduler.plugins.event_hints import wakes
from tests.controllers.scheduler.plugins.loadaware.reports import START, Load, amounts, metric
from tests.controllers.scheduler.plugins.loadaware.test_workload_histograms import replica
from tests.controllers.scheduler.pods import info, node, pod

ROOM = ClusterEvent("Node", Action.UPDATE_NODE_ALLOCATABLE)
NOTES = ClusterEvent("Node", Action.UPDATE_NODE_ANNOTATION)
LESS = ClusterEvent(ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)
OTHER = ClusterEvent(ASSIGNED_POD, Action.UPDATE_OTHER)


class Watched(Load):
    """A node of ten CPUs, of which 65 % may be used, and whether one pod is woken by reports."""

    def __init__(self, asking: Any = None, **arguments: Any) -> None:
        super().__init__(**{"usageThresholds": {"cpu": 65}, **arguments})
        self.put(node("a", cpu="10"), node("b", cpu="10"))
        self.asking = self.world.shapes.info(asking or pod("asks", cpu="1"))
        self.heard: list[bool] = []
        self.world.wake = self.wake  # type: ignore[method-assign]

    def wake(self, resource: str, action: int, old: Any, new: Any) -> None:
        self.heard.append(wakes(self.plugin, self.asking, ClusterEvent(resource, action), old, new))

    def reports(self, name: str, cpu_milli: int, seconds: float = 0.0) -> bool:
        """Whether a report of so much use, so late, wakes the pod."""
        self.heard.clear()
        self.put(metric(name, START + seconds, node=amounts(cpu_milli, 0)))
        (woken,) = self.heard
        return woken


def test_a_report_wakes_whom_it_lets_pass_and_nobody_else() -> None:
    load = Watched()
    assert not load.reports("a", 6000)
    assert not load.reports("a", 9000)
    assert not load.reports("b", 1000)
    assert load.reports("a", 5000)
    assert not load.reports("a", 4000)


def test_many_reports_of_busy_nodes_wake_nobody() -> None:
    load = Watched()
    for minute in range(1, 20):
        load.clock.advance(60)
        assert not load.reports("a", 7000 + 100 * (minute % 3), 60 * minute)
        assert not load.reports("b", 2000 + 100 * minute, 60 * minute)


def test_what_is_fresh_again_wakes() -> None:
    load = Watched()
    load.reports("a", 1000)
    load.clock.advance(200)
    assert load.ask(load.asking.pod)[0]["a"] == "node(s) nodeMetric expired"
    assert load.reports("a", 1000, 200)


def test_where_expired_reports_let_pods_in_any_report_wakes() -> None:
    load = Watched(enableScheduleWhenNodeMetricsExpired=True)
    assert load.reports("a", 9000)
    load.reports("b", 9000)
    load.clock.advance(200)
    assert load.ask(load.asking.pod)[0]["a"] is None
    assert load.reports("b", 9000, 200)


def test_pods_whose_estimates_are_learned_are_woken_by_any_report() -> None:
    load = Watched(replica("asks"), estimator="workloadHistogram")
    assert load.reports("a", 9000)
    assert not Watched(estimator="workloadHistogram").reports("a", 9000)


def test_a_metric_that_goes_wakes_whom_it_kept_out() -> None:
    load = Watched()
    for cpu, expected in ((9000, True), (100, False)):
        load.reports("a", cpu)
        load.heard.clear()
        load.views.view(type(metric("a"))).remove("a")
        assert load.heard == [expected]


def test_pods_that_go_wake_where_there_is_room_then() -> None:
    load = Watched()
    load.reports("a", 5000)
    there = [info(pod(name, cpu="4", nodeName="a")) for name in ("x", "y")]
    row = load.table.row("a")
    assert row is not None
    for each in there:
        load.world.accounts.add(row, each)
    assert load.ask(load.asking.pod)[0]["a"] is not None
    for each, expected in zip(there, (False, True), strict=True):
        load.world.accounts.drop(each)
        assert wakes(load.plugin, load.asking, ASSIGNED_POD_DELETE, each, None) is expected
    # On its way to a node that it does not say: it may be that one.
    on_its_way = info(pod("z", cpu="4"))
    assert wakes(load.plugin, load.asking, ASSIGNED_POD_DELETE, on_its_way, None)
    notes = {"scheduling.koordinator.sh/reserve-pod": "true"}
    reserve = info(pod("r", uid="r", cpu="4", nodeName="a", annotations=notes))
    assert not wakes(load.plugin, load.asking, ASSIGNED_POD_DELETE, reserve, None)


def test_pods_that_shrink_wake_where_there_is_room_then() -> None:
    load = Watched()
    load.reports("a", 5000)
    big, small = (load.world.shapes.info(pod("x", cpu=c, nodeName="a")) for c in ("6", "100m"))
    row = load.table.row("a")
    assert row is not None
    load.world.accounts.add(row, big)
    assert not wakes(load.plugin, load.asking, LESS, small, big)
    load.world.accounts.drop(big)
    load.world.accounts.add(row, small)
    assert load.ask(load.asking.pod)[0]["a"] is None
    assert wakes(load.plugin, load.asking, LESS, big, small)
    assert not wakes(load.plugin, load.asking, OTHER, small, small)


def test_nodes_wake_by_what_the_filter_reads_of_them() -> None:
    load = Watched()
    load.reports("a", 9000)
    plugin, asking = load.plugin, load.asking
    assert wakes(plugin, asking, NODE_ADD, None, node("new"))
    assert wakes(plugin, asking, NODE_ADD, None, node("b"))
    assert not wakes(plugin, asking, NODE_ADD, None, node("a"))
    plain = node("a", cpu="10")
    assert wakes(plugin, asking, ROOM, plain, node("a", cpu="20"))
    assert not wakes(plugin, asking, ROOM, plain, node("a", cpu="10", allocatable={"x/y": "1"}))
    for key, expected in (
        ("scheduling.koordinator.sh/usage-thresholds", True),
        ("node.koordinator.sh/raw-allocatable", True),
        ("example.com/other", False),
    ):
        noted = node("a", cpu="10", annotations={key: "{}"})
        assert wakes(plugin, asking, NOTES, plain, noted) is expected


def test_the_event_is_called_as_the_kind_is() -> None:
    assert NODE_METRICS == "nodemetrics.v1alpha1.slo.koordinator.sh"
