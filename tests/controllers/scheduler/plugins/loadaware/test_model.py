# SPDX-License-Identifier: Apache-2.0
"""The plugin against the plain model, while metrics, pods and nodes come and go in any order.

After every step the kept answers, answers asked anew and the model's must agree: so what is moved
by deltas is what a start from nothing would give. And whoever was refused by a node that lets it
pass now has been woken by what happened; by a report, nobody else.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.protocol.priority import class_with_default
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.plugins.loadaware.cache import most_within
from koord.controllers.scheduler.plugins.loadaware.queueing_hints import NODE_METRICS
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    ClusterEvent,
    node_events,
)
from tests.controllers.scheduler.plugins.loadaware.reports import START, Load, condition, metric
from tests.controllers.scheduler.pods import node, pod
from tests.models import load_aware as model
from tests.profiles import examples

NODES = ("a", "b", "c")
PODS = tuple(f"p{i}" for i in range(6))
CLASSES = ("koord-prod", "koord-batch", "koord-mid", "koord-free", "")
GPU = "example.com/gpu"
NAMES = ["cpu", GPU, "memory"]
FACTORS = {"cpu": 85, "memory": 70, GPU: 100}


def percents(least: int) -> st.SearchStrategy[model.Amounts]:
    named = st.sampled_from(["cpu", "memory", GPU])
    return st.dictionaries(named, st.sampled_from([0, 30, 65]), min_size=least, max_size=3)


vectors = st.fixed_dictionaries(
    {},
    optional={"cpu": st.integers(0, 9000), "memory": st.integers(0, 9000), GPU: st.integers(0, 9)},
)
keys = st.one_of(
    st.none(), st.tuples(st.sampled_from(["avg", "p95"]), st.sampled_from([0, 300, 600]))
)
times = st.integers(-400, 400)


def wire(amounts: model.Amounts) -> dict[str, str]:
    return {k: f"{v}m" if k == "cpu" else str(v) for k, v in amounts.items()}


@st.composite
def arguments(draw: st.DrawFn) -> tuple[dict[str, Any], model.Args]:
    plain, prod = draw(percents(0)), draw(percents(0))
    aggregate, scored = draw(keys), draw(keys)
    of_aggregate = draw(percents(1)) if aggregate else {}
    weights = draw(st.sampled_from([{"cpu": 1, "memory": 1}, {"cpu": 3}, {"memory": 2}]))
    flags = [draw(st.booleans()) for _ in range(4)]
    args = model.Args(
        plain or {"cpu": 65, "memory": 95}, prod, of_aggregate, aggregate, scored, weights,
        draw(st.sampled_from([0, 2])), flags[0], flags[1], 180, flags[2], flags[3],
    )  # fmt: skip
    document: dict[str, Any] = {
        "usageThresholds": plain,
        "prodUsageThresholds": prod,
        "resourceWeights": weights,
        "dominantResourceWeight": args.dominant,
        "filterExpiredNodeMetrics": flags[0],
        "enableScheduleWhenNodeMetricsExpired": flags[1],
        "prodUsageIncludeSys": flags[2],
        "scoreAccordingProdUsage": flags[3],
        "supportedResources": [GPU],
        "estimatedScalingFactors": {GPU: 100},
        "aggregated": {
            "usageThresholds": of_aggregate,
            "usageAggregationType": aggregate[0] if aggregate else "",
            "usageAggregatedDuration": f"{aggregate[1] if aggregate else 0}s",
            "scoreAggregationType": scored[0] if scored else "",
            "scoreAggregatedDuration": f"{scored[1] if scored else 0}s",
        },
    }
    return document, args


class Machine(RuleBasedStateMachine):
    @initialize(given=arguments())
    def begin(self, given: tuple[dict[str, Any], model.Args]) -> None:
        document, args = given
        self.load = Load(**document)
        self.model = model.Model(args, NAMES)
        self.nodes: dict[str, model.Node] = {}
        self.metrics: dict[str, model.Metric] = {}
        self.where: dict[str, tuple[str, PodInfo]] = {}
        self.asking = [self.a_pod("asks", {"cpu": 900, "memory": 500}, c) for c in CLASSES]
        self.lenient = args.filter_expired and args.schedule_expired
        self.refused: list[set[str]] = [set() for _ in self.asking]
        self.woken: set[int] = set()
        self.reported = self.waited = False
        self.load.world.wake = self.wake  # type: ignore[method-assign]

    def wake(self, resource: str, action: int, old: Any, new: Any) -> None:
        self.reported |= resource == NODE_METRICS
        self.happened(ClusterEvent(resource, action), old, new)

    def happened(self, event: ClusterEvent, old: Any, new: Any) -> None:
        waiting = [self.load.world.shapes.info(each) for each in self.asking]
        for hinted in self.load.plugin.events():
            if hinted.event.matches(event):
                hint = hinted.hint
                assert hint is not None
                self.woken |= {i for i, each in enumerate(waiting) if hint(each, old, new)}

    def a_pod(self, name: str, asks: model.Amounts, priority_class: str, **more: Any) -> Pod:
        renamed = {model.NAMES[priority_class].get(k, k): v for k, v in asks.items()}
        resources = {k: f"{v}m" if k == "cpu" else str(v) for k, v in renamed.items()}
        labels = {"koordinator.sh/priority-class": priority_class} if priority_class else {}
        return pod(name, requests=resources, labels=labels, **more)

    def estimate(self, each: Pod, asks: model.Amounts) -> model.Amounts:
        found = str(class_with_default(each))
        renamed = {model.NAMES[found].get(k, k): v for k, v in asks.items()}
        return model.estimate(renamed, {}, found, FACTORS)

    @rule(
        name=st.sampled_from(NODES),
        capacity=vectors,
        own=st.one_of(st.none(), percents(1), st.just("{")),
    )
    def put_node(self, name: str, capacity: model.Amounts, own: Any) -> None:
        key = "scheduling.koordinator.sh/usage-thresholds"
        text = own if own == "{" else str({"usageThresholds": own}).replace("'", '"')
        annotations = {key: text} if own else {}
        made = node(name, cpu="0", memory="0", allocatable=wire(capacity), annotations=annotations)
        known = self.load.views.view(Node).get(name)
        self.load.put(made)
        for event in [NODE_ADD] if known is None else node_events(known, made):
            self.happened(event, known, made)
        before = self.nodes.get(name)
        self.nodes[name] = model.Node(
            capacity,
            self.metrics.get(name),
            before.pods if before else {},
            own if isinstance(own, dict) else None,
        )

    @precondition(lambda self: self.nodes)
    @rule(data=st.data())
    def remove_node(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.nodes)))
        del self.nodes[name]
        self.load.forget(name)
        self.where = {k: v for k, v in self.where.items() if v[0] != name}

    @rule(
        name=st.sampled_from(NODES),
        updated=st.one_of(st.none(), times),
        usages=st.tuples(vectors, vectors),
        pods=st.dictionaries(
            st.sampled_from(PODS), st.tuples(vectors, st.sampled_from(["koord-prod", ""]))
        ),
        aggregates=st.dictionaries(
            st.tuples(st.sampled_from(["avg", "p95"]), st.sampled_from([300, 600])), vectors
        ),
        interval=st.sampled_from([None, 30]),
        reported=st.booleans(),
    )
    def put_metric(
        self, name: str, updated: int | None, usages: tuple[model.Amounts, model.Amounts],
        pods: dict[str, tuple[model.Amounts, str]],
        aggregates: dict[tuple[str, int], model.Amounts], interval: int | None, reported: bool,
    ) -> None:  # fmt: skip
        moment = None if updated is None else START + updated
        usage, system = usages
        self.load.put(
            metric(
                name, moment, wire(usage), {f"default/{k}": (wire(u), c) for k, (u, c) in
                pods.items()}, [(s, f"{d}s", wire(u)) for (s, d), u in aggregates.items()],
                wire(system), interval, reported,
            )
        )  # fmt: skip
        found = model.Metric(
            moment, interval or 60, reported,
            (usage or None) if reported else None,
            (system or None) if reported else None,
            {k: u for k, u in aggregates.items() if u} if reported else {},
            {f"default/{k}": (u, bool(c)) for k, (u, c) in pods.items() if u},
        )  # fmt: skip
        self.metrics[name] = found
        if name in self.nodes:
            self.nodes[name].metric = found

    @precondition(lambda self: self.metrics)
    @rule(data=st.data())
    def remove_metric(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.metrics)))
        del self.metrics[name]
        self.load.views.view(NodeMetric).remove(name)
        if name in self.nodes:
            self.nodes[name].metric = None

    @precondition(lambda self: self.nodes)
    @rule(
        data=st.data(),
        name=st.sampled_from(PODS),
        asks=vectors,
        kind=st.sampled_from(CLASSES),
        since=st.one_of(st.none(), times),
    )
    def add_pod(
        self, data: st.DataObject, name: str, asks: model.Amounts, kind: str, since: int | None
    ) -> None:
        if name in self.where:
            return
        place = data.draw(st.sampled_from(sorted(self.nodes)))
        conditions = [condition("PodScheduled", START + since)] if since is not None else []
        each = self.a_pod(name, asks, kind, status={"conditions": conditions}, nodeName=place)
        self.load.put(each)
        info = self.load.world.shapes.info(each)
        row = self.load.table.row(place)
        assert row is not None
        self.load.world.accounts.add(row, info)
        self.where[name] = (place, info)
        moment = self.load.clock.wall_seconds() if since is None else START + since
        assigned = self.load.plugin.cache.pod(row, info.uid)
        assert assigned is not None
        self.nodes[place].pods[name] = model.Assigned(
            info.key,
            self.estimate(each, asks),
            class_with_default(each) == "koord-prod",
            moment,
        )

    @precondition(lambda self: self.where)
    @rule(data=st.data(), since=times)
    def schedule_pod(self, data: st.DataObject, since: int) -> None:
        name = data.draw(st.sampled_from(sorted(self.where)))
        place, info = self.where[name]
        document = condition("PodScheduled", START + since)
        fresh = pod(
            name, labels=info.pod.metadata.labels, status={"conditions": [document]}, nodeName=place
        )
        info.pod = fresh
        self.load.put(fresh)
        self.nodes[place].pods[name].since = START + since

    @precondition(lambda self: self.where)
    @rule(data=st.data())
    def remove_pod(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.where)))
        place, info = self.where.pop(name)
        self.load.world.accounts.drop(info)
        self.load.views.view(Pod).remove(f"default/{name}")
        del self.nodes[place].pods[name]
        self.happened(ASSIGNED_POD_DELETE, info, None)

    @precondition(lambda self: self.where)
    @rule(data=st.data())
    def imagine(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.where)))
        accounts = self.load.world.accounts
        with accounts.what_if():
            accounts.drop(self.where[name][1])
            self.load.ask(self.asking[0])

    @rule(seconds=st.sampled_from([1, 60, 179, 300]))
    def wait(self, seconds: int) -> None:
        self.load.clock.advance(seconds)
        self.waited = True

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "load"):
            return
        now = self.load.clock.wall_seconds()
        helped = set()
        for number, each in enumerate(self.asking):
            asks = self.estimate(each, {"cpu": 900, "memory": 500})
            prod = class_with_default(each) == "koord-prod"
            reasons, scores = self.load.ask(each)
            refusals = {
                name: self.model.refusal(n, asks, prod, False, now)
                for name, n in self.nodes.items()
            }
            assert reasons == refusals
            assert scores == {
                name: self.model.score(n, asks, prod, now) for name, n in self.nodes.items()
            }
            passing = {name for name, reason in reasons.items() if reason is None}
            helped |= {number} if self.refused[number] & passing else set()
            self.refused[number] = reasons.keys() - passing
        # That a NodeMetric expires no event says; where that lets pods in, every report wakes.
        assert self.waited or helped <= self.woken
        assert self.lenient or not self.reported or helped == self.woken
        self.woken.clear()
        self.reported = self.waited = False


Machine.TestCase.settings = settings(
    max_examples=examples(0.4), stateful_step_count=15, deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
TestMachine = Machine.TestCase


@pytest.mark.parametrize("percent", [-5, 1, 30, 65, 99, 100, 250, 10**30])
@pytest.mark.parametrize("capacity", [1, 3, 7, 200, 96_000, 2**39 + 1, 2**53])
def test_the_bound_is_the_last_amount_within(percent: int, capacity: int) -> None:
    bound = most_within(percent, capacity)
    assert bound < 0 or model.round_half_up(bound / capacity * 100) <= percent
    assert percent > 250 or model.round_half_up((bound + 1) / capacity * 100) > percent
