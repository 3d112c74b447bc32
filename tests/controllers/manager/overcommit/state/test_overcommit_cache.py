# SPDX-License-Identifier: Apache-2.0
"""Random histories: deltas give what the plain model says of the state, however they are summed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache
from tests.controllers.manager.overcommit import objects
from tests.controllers.manager.overcommit.cases import GIB
from tests.models import overcommit as model

NAMES = ["a", "b", "c"]
KEYS = ["p0", "p1", "p2", "p3"]
names, keys = st.sampled_from(NAMES), st.sampled_from(KEYS)
PODS = [
    model.Pod("", qos_label="LS", request=(9_000, 7 * GIB)),
    model.Pod("", qos_label="LSE", request=(8_000, GIB), numa=[1]),
    model.Pod("", class_label="koord-mid", qos_label="LS", mid_request=(5_000, 3 * GIB)),
    model.Pod("", class_label="koord-batch", qos_label="BE", request=(0, 0)),
    model.Pod("", qos_label="LSR", request=(2_000, GIB), phase="Pending", numa=[0, 2]),
    model.Pod("", qos_label="LS", request=(4_000, GIB), phase="Succeeded"),
]
STRATEGIES: list[dict[str, Any]] = [
    {},
    {"enable": True},
    {"enable": True, "cpuCalculatePolicy": "maxUsageRequest", "memoryCalculatePolicy": "request"},
    {"enable": True, "degradeTimeMinutes": 1, "batchCPUThresholdPercent": 40},
    {"enable": True, "cpuCalculatePolicy": "requestRatio", "midUnallocatedPercent": 30},
]
amounts = st.sampled_from([(0, 0), (1_000, GIB), (3_500, 5 * GIB), (12_000, 9 * GIB)])
metrics = st.dictionaries(
    keys,
    st.builds(
        model.Metric, used=amounts, priority=st.sampled_from(["", "koord-prod", "koord-batch"])
    ),
)
NOTHING = model.Node((0, 0), (0, 0), {}, age_seconds=None)


@dataclass
class Row:
    """What is known under one name."""

    machine: model.Node | None = None
    report: model.Node | None = None
    at: float = 0
    speaks_of: dict[str, str] = field(default_factory=dict)
    low: set[str] = field(default_factory=set)
    zones: list[model.Zone] = field(default_factory=list)


class Histories(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.now = float(objects.NOW)
        self.both = [OvercommitCache(few=0), OvercommitCache(few=10**9)]
        self.rows: dict[str, Row] = defaultdict(Row)
        self.pods: dict[str, tuple[str, str, model.Pod]] = {}
        self.shown: dict[str, Any] = {}

    def counted(self, name: str) -> dict[str, tuple[str, model.Pod]]:
        return {
            key: (uid, pod)
            for key, (where, uid, pod) in self.pods.items()
            if where == name and pod.phase in ("Running", "Pending")
        }

    @rule(name=names, capacity=st.sampled_from([40_000, 64_000]), given=st.sampled_from(STRATEGIES))
    def put_node(self, name: str, capacity: int, given: dict[str, Any]) -> None:
        case = model.Node((capacity, 64 * GIB), (capacity - 500, 63 * GIB), given)
        self.rows[name].machine = case
        for ledger in self.both:
            ledger.put_node(objects.node(case, name), objects.strategy(given))

    @rule(name=names)
    def drop_node(self, name: str) -> None:
        self.rows[name].machine = None
        for ledger in self.both:
            ledger.drop_node(name)

    @rule(given=st.sampled_from(STRATEGIES), also=st.sampled_from(STRATEGIES))
    def set_strategies(self, given: dict[str, Any], also: dict[str, Any]) -> None:
        for name, row in self.rows.items():
            if row.machine is not None:
                row.machine = replace(row.machine, strategy=given if name == "a" else also)
        for ledger in self.both:
            ledger.set_strategies(
                lambda node: objects.strategy(given if node.metadata.name == "a" else also)
            )

    @rule(name=names, key=keys, uid=st.sampled_from(["", "2"]), what=st.sampled_from(PODS))
    def put_pod(self, name: str, key: str, uid: str, what: model.Pod) -> None:
        self.forget(key)
        pod = replace(what, name=key)
        self.pods[key] = (name, key + uid, pod)
        row = self.rows[name]
        if key in self.counted(name) and row.report is not None and key in row.report.metrics:
            row.speaks_of.setdefault(key, key + uid)
        for ledger in self.both:
            ledger.put_pod(objects.pod(pod, name, key + uid))

    @rule(key=keys, uid=st.sampled_from(["", "2"]))
    def drop_pod(self, key: str, uid: str) -> None:
        known = self.pods.get(key)
        name, pod = (known[0], known[2]) if known else ("a", replace(PODS[0], name=key))
        if known is not None and known[1] == key + uid:
            self.forget(key)
        for ledger in self.both:
            ledger.drop_pod(objects.pod(pod, name, key + uid))

    def forget(self, key: str) -> None:
        known = self.pods.pop(key, None)
        if known is None or known[2].phase == "Succeeded":
            return
        name, uid, pod = known
        row = self.rows[name]
        if row.report is not None and key in row.report.metrics and row.speaks_of.get(key) == uid:
            (row.low.discard if pod.high else row.low.add)(key)

    @rule(name=names, system=amounts, found=metrics, body=st.sampled_from([True, True, False]),
          told=st.booleans())  # fmt: skip
    def put_metric(
        self, name: str, system: model.Pair, found: dict[str, model.Metric], body: bool, told: bool
    ) -> None:
        row = self.rows[name]
        zones = [replace(zone, system=(700, GIB) if told else None) for zone in row.zones]
        case = replace(
            NOTHING, system=system, body=body, metrics=found, age_seconds=0, zones=zones,
            used=(9_000, 9 * GIB), reclaimable=(4_000, GIB),
        )  # fmt: skip
        again = row.report is not None and row.at == self.now
        if again and row.report is not None and replace(row.report, risen=(0, 0)) == case:
            case = row.report
        else:
            before = row.report.system if row.report is not None and row.report.body else system
            if body:
                cpu, memory = (max(0, b - a) for a, b in zip(before, system, strict=True))
                case = replace(case, risen=(cpu, memory))
            row.report, row.at, row.zones = case, self.now, zones
            row.speaks_of = {k: uid for k, (uid, _) in self.counted(name).items() if k in found}
            row.low &= found.keys()
        for ledger in self.both:
            ledger.put_metric(objects.metric(case, name, self.now))

    @rule(name=names)
    def drop_metric(self, name: str) -> None:
        row = self.rows[name]
        row.report, row.speaks_of, row.low = None, {}, set()
        row.zones = [replace(zone, system=None) for zone in row.zones]
        for ledger in self.both:
            ledger.drop_metric(name)

    @rule(name=names, numbers=st.sampled_from([[0, 1], [2, 0, 10], [1]]))
    def put_topology(self, name: str, numbers: list[int]) -> None:
        row = self.rows[name]
        told = {zone.number: zone.system for zone in row.report.zones} if row.report else {}
        row.zones = [model.Zone(n, (20_000, 30 * GIB), told.get(n)) for n in numbers]
        for ledger in self.both:
            ledger.put_topology(objects.topology(replace(NOTHING, zones=row.zones), name))

    @rule(name=names)
    def drop_topology(self, name: str) -> None:
        self.rows[name].zones = []
        for ledger in self.both:
            ledger.drop_topology(name)

    @rule(seconds=st.sampled_from([0, 1, 61]))
    def recompute(self, seconds: int) -> None:
        self.now += seconds
        changed = [ledger.recompute(self.now) for ledger in self.both]
        assert np.array_equal(changed[0], changed[1])
        shown = {name: self.check(name) for name in self.rows if self.both[0].row(name) is not None}
        told = {self.both[0].name(row) for row in changed[0].tolist()}
        moved = {name for name, what in shown.items() if what != self.shown.get(name, NOT_THERE)}
        assert told - {""} == moved
        self.shown = shown

    def check(self, name: str) -> Any:
        row = self.rows[name]
        case = self.case(name, row)
        found = []
        for ledger in self.both:
            at = ledger.row(name)
            assert at is not None
            zones = {
                n: tuple(ledger.zone_amounts[:, n, at].tolist())
                for n in np.flatnonzero(ledger.zone_amounts[..., at].any(axis=0)).tolist()
            }
            reason = int(ledger.batch.degraded[at])
            offers = [objects.offered(ledger, kind, name) for kind in ("batch", "mid")]
            found.append((offers[0], offers[1], zones, reason))
        assert found[0] == found[1]
        batch, mid, zones, reason = found[0]
        assert batch == model.batch(case)
        assert mid == model.mid(case)
        expected = {n: (c, m * 1000) for n, (c, m) in model.zone_batch(case).items()}
        assert zones == {n: pair for n, pair in expected.items() if any(pair)}
        return batch, mid, zones, reason

    def case(self, name: str, row: Row) -> model.Node:
        machine = row.machine or NOTHING
        report = row.report or replace(NOTHING, age_seconds=None)
        here = self.counted(name)
        measured, dangling = {}, []
        for key, metric in report.metrics.items():
            if key in here and row.speaks_of.get(key) == here[key][0]:
                measured[key] = metric
            elif metric.priority or key not in row.low:
                dangling.append(metric)
        age = None if report.age_seconds is None else int(self.now - row.at)
        return replace(
            machine, pods=[pod for _, pod in here.values()], metrics=measured, dangling=dangling,
            age_seconds=age, body=report.body, system=report.system, risen=report.risen,
            used=report.used, reclaimable=report.reclaimable, zones=row.zones,
        )  # fmt: skip


NOT_THERE: tuple[Any, ...] = (None, None, {}, 1)

Histories.TestCase.settings = settings(
    suppress_health_check=[HealthCheck.too_slow], stateful_step_count=30
)
TestHistories = Histories.TestCase
