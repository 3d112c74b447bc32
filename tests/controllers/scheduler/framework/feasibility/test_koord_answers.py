# SPDX-License-Identifier: Apache-2.0
"""Answers for pods that bind CPUs, share GPUs and use reservations, after random histories.

What columns and kernels say, against the plugins asked about one node after the other.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.api.kinds.topology import NodeResourceTopology
from koord.base.clock import VirtualClock
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import shipped
from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.plugins.reservation.evaluation.cycle_state import state_of
from koord.controllers.scheduler.plugins.reservation.matched_reservation import PLUGIN
from koord.controllers.scheduler.plugins.reservation.objects.reservation_affinity import (
    ReservationRequest,
)
from koord.controllers.scheduler.plugins.reservation.state.reservation_index import (
    ReservationIndex,
    owns,
)
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from tests.controllers.scheduler.plugins.deviceshare.clusters import device, gpu
from tests.controllers.scheduler.plugins.loadaware.reports import amounts, metric
from tests.controllers.scheduler.plugins.nodenumaresource.cluster import SPEC, cpus, topology
from tests.controllers.scheduler.plugins.reservation.bench import available
from tests.controllers.scheduler.pods import node, pod

NODES = 70  # more than rows that are looked at one by one
APPS = ("x", "y", "z")
QOS, POLICY = "koordinator.sh/qosClass", "node.koordinator.sh/numa-topology-policy"
CORE, RATIO = "koordinator.sh/gpu-core", "koordinator.sh/gpu-memory-ratio"
SCORED = ("NodeResourcesFit", "NodeResourcesBalancedAllocation", "NodeNUMAResource", "DeviceShare",
          "Reservation", "LoadAwareScheduling")  # fmt: skip
AFFINITY = {"scheduling.koordinator.sh/reservation-affinity": "{}"}
THRESHOLDS = "scheduling.koordinator.sh/usage-thresholds"
INSISTING = (12, 21)  # kinds of pods that must have a reservation
BINDS = (None, "FullPCPUs", "SpreadByPCPUs")


class Cluster:
    """The shipped profile over nodes of a few kinds."""

    def __init__(self) -> None:
        registry = Registry(outside=[])
        self.views = LocalViews()
        self.clock = VirtualClock(1_700_000_000.0)
        self.world = ClusterState(self.views, self.clock)
        profiles = shipped(registry, "koord-scheduler").profiles
        self.scheduler = Scheduler(self.world, profiles, registry)
        (self.decider,) = self.scheduler.loop.parts.deciders.values()
        self.placed: list[PodInfo] = []
        self._numbers = itertools.count()
        self._last: dict[int, int] = {}
        for index in range(NODES):
            self.describe(index)

    def describe(self, index: int, sick: bool = False, **more: Any) -> None:
        """A node: every third without GPUs, every fifth without a CPU topology; some have cores
        with unequal threads, some hardly more CPU than a reservation holds."""
        name = f"n{index:02}"
        if index % 3:
            cards = [gpu(0, health=not sick), gpu(1)]
            self.views.view(Device).put(device(name, *cards))
            gpus = {CORE: "200", RATIO: "200", "koordinator.sh/gpu": "200"}
            more["allocatable"] = gpus
        if index % 5:
            shape = cpus(1, 2, 2, 2) if index % 2 else cpus(1, 2, 4, 1)
            if index % 7 == 1:
                shape = [each for each in shape if each["id"] != 3]
            self.views.view(NodeResourceTopology).put(topology(name, shape, memory="16Gi"))
        cpu = "3500m" if index % 4 == 1 else "8"
        self.views.view(Node).put(node(name, cpu=cpu, memory="32Gi", **more))

    def reserve(self, index: int, app: str, **more: Any) -> None:
        owners = [{"labelSelector": {"matchLabels": {"app": app}}}]
        held = available(f"r{index}", f"n{index:02}", "3", "4Gi", owners=owners, **more)
        self.views.view(Reservation).put(held)

    def pod(self, kind: int, again: bool = False) -> PodInfo:
        """Like no other, of one of a few kinds; or like the last one of its kind."""
        name = next(self._numbers)
        number = self._last.get(kind, name) if again else name
        self._last[kind] = number
        labels, more, requests = {"app": APPS[kind % 4]} if kind % 4 < 3 else {}, {}, {}
        cpu = f"{100 + number}m"
        if kind % 3 == 1:
            labels[QOS], more["priority"], cpu = "LSR", 9500, str(1 + number // 2 % 3)
            bind = BINDS[number // 5 % 3]
            if bind is not None:
                more["annotations"] = {SPEC: json.dumps({"requiredCPUBindPolicy": bind})}
        elif kind % 3 == 2:
            requests = dict.fromkeys((CORE, RATIO), str(10 + 20 * (number % 5)))
        if kind in INSISTING:
            more["annotations"] = AFFINITY
        made: Pod = pod(f"p{name}", cpu=cpu, memory=f"{64 + number}Mi", labels=labels,
                        requests=requests, **more)  # fmt: skip
        return self.world.shapes.info(made)

    def do(self, what: str, which: int) -> None:
        index = which % NODES
        if what == "gone" and self.placed:
            self.world.accounts.drop(self.placed.pop(which % len(self.placed)))
        elif what == "reserve":
            spare = {"allocateOnce": which % 2 == 0, "unschedulable": which % 7 == 0}
            order = {"scheduling.koordinator.sh/reservation-order": "5"} if which % 4 == 0 else {}
            for each in range(index % 5, NODES, 1 + which % 3):
                self.reserve(each, APPS[which % 3], labels=order, **spare)
        elif what == "unreserve":
            view = self.views.view(Reservation)
            for key in [key for key, _ in view.items()][index::2]:
                view.remove(key)
        elif what == "cordon":
            self.describe(index, spec={"unschedulable": True})
        elif what == "sick":
            self.describe(index, sick=True)
        elif what == "constrain":
            self.describe(index, labels={POLICY: "SingleNUMANode"} if which % 2 else {})
        elif what == "report":
            for each in range(index % 4, NODES, 1 + which % 3):
                self.report(each, which)
        elif what == "unreport":
            self.views.view(NodeMetric).remove(f"n{index:02}")
        elif what == "strict":
            limits = json.dumps({"usageThresholds": {"cpu": 20 + which % 60}})
            self.describe(index, annotations={THRESHOLDS: limits})
        elif what == "later":
            # Reports are good for three minutes.
            self.clock.advance(float(which))

    def report(self, index: int, which: int) -> None:
        """What a node uses, and at times who of its pods; some reports are old already."""
        name, used = f"n{index:02}", 300 * ((7 * index + which) % 26)
        found = [info for info in self.placed if self.world.table.name(info.row) == name]
        pods = {info.key: (amounts(100, 64 << 20), "koord-prod") for info in found[: which % 3]}
        at = self.clock.wall_seconds() - 170 * (index % 9 == 0)
        load = amounts(used, (index % 32) << 30)
        self.views.view(NodeMetric).put(metric(name, at, load, pods))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["pod", "again"]), st.sampled_from([*range(12), *INSISTING])),
        st.tuples(
            st.sampled_from(
                [
                    "gone",
                    "reserve",
                    "unreserve",
                    "cordon",
                    "sick",
                    "constrain",
                    "report",
                    "unreport",
                    "strict",
                    "later",
                ]
            ),
            st.integers(0, 99),
        ),
    ),
    min_size=4,
    max_size=14,
)


def _matching(cluster: Cluster, info: PodInfo) -> dict[int, set[str]]:
    """By row, the reservations that the pod may use, by asking each of them."""
    book, request = ReservationIndex.of(cluster.world.table), ReservationRequest(info.pod)
    found: dict[int, set[str]] = {}
    for uid, record in book.ledger.records.items():
        if not record.matchable or not owns(record, info.pod, personal=False):
            continue
        if request.mismatch(record, info.shape.request, {}) is None:
            found.setdefault(record.row, set()).add(uid)
    return found


def _one_by_one(decider: Decider, info: PodInfo) -> Iterator[int]:
    for row in range(NODES):
        if decider.try_row(Cycle(info, decider.table), row).row >= 0:
            yield row


def _compare(cluster: Cluster, info: PodInfo) -> int:
    """What is kept for a pod beside what plugins say of single nodes; the node that was chosen."""
    decider = cluster.decider
    decision = decider.decide(info)
    cycle = Cycle(info, decider.table)
    feasible, _ = decider.survey(cycle)
    assert feasible.tolist() == list(_one_by_one(decider, info))
    rows = state_of(cycle).attempt.matches.by_row if PLUGIN in cycle.state else {}
    offered = {row: {each.uid for each in records} for row, records in rows.items()}
    assert offered == _matching(cluster, info)
    entry = decider.evaluator.entry(cycle)
    for number, (plugin, _) in enumerate(decider.plugins.score):
        raw = entry.raw(number)
        if plugin.name in SCORED and raw is not None:
            each = [plugin.score(cycle, np.array([row], np.intp))[0] for row in feasible.tolist()]
            assert raw[feasible].tolist() == each, plugin.name
    again = Decider(decider.table, cluster.world.accounts, decider.plugins, together=False)
    assert decision.row == again.decide(info).row
    if decision.row >= 0 and decider.assume(decision) is None:
        cluster.placed.append(info)
    return decision.row


@settings(max_examples=12)
@given(steps=STEPS)
def test_columns_and_kernels_say_what_plugins_say_of_single_nodes(
    steps: list[tuple[str, int]],
) -> None:
    cluster = Cluster()
    for what, which in steps:
        if what in ("pod", "again"):
            _compare(cluster, cluster.pod(which, what == "again"))
        else:
            cluster.do(what, which)


def test_a_history_with_all_kinds_of_pods() -> None:
    cluster, chosen = Cluster(), []
    steps: list[tuple[str, int]] = [("reserve", 3), ("reserve", 4), ("sick", 7), ("reserve", 49)]
    for what, which in (("pod", 0), *steps, ("unreserve", 1)):
        if what != "pod":
            cluster.do(what, which)
        for again, kind in itertools.product((True, False), range(12)):
            chosen.append(_compare(cluster, cluster.pod(kind, again)))
    assert min(chosen) >= 0
    reserved = [info for info in cluster.placed if PLUGIN in info.allocations]
    bound = [info for info in cluster.placed if "NodeNUMAResource" in info.allocations]
    shared = [info for info in cluster.placed if "DeviceShare" in info.allocations]
    assert min(len(reserved), len(bound), len(shared)) >= 8


def test_a_history_of_reports() -> None:
    cluster, chosen = Cluster(), []
    steps = [("report", 1), ("report", 3), ("strict", 9), ("later", 99), ("report", 5)]
    for what, which in (*steps, ("unreport", 20), ("reserve", 3), ("later", 90), ("report", 8)):
        cluster.do(what, which)
        for again, kind in itertools.product((True, False), (0, 1, 2, 3, 12)):
            chosen.append(_compare(cluster, cluster.pod(kind, again)))
    assert len(set(chosen)) > 10


def test_a_report_alone_changes_the_choice() -> None:
    cluster = Cluster()
    view = cluster.views.view(NodeMetric)
    at, busy, idle = cluster.clock.wall_seconds(), amounts(4000, 16 << 30), amounts(0, 0)
    for index in range(NODES):
        view.put(metric(f"n{index:02}", at, busy))
    for index in (40, 68, 3):
        before = cluster.decider.decide(cluster.pod(3))
        assert before.cycle.board is None
        view.put(metric(f"n{index:02}", at, idle))
        assert _compare(cluster, cluster.pod(3)) == index != before.row
        view.put(metric(f"n{index:02}", at, busy))


def test_answers_are_kept_for_pods_that_are_alike_where_nodes_report_their_load() -> None:
    cluster = Cluster()
    for index in range(NODES):
        cluster.report(index, 4)
    boards = []
    for number in range(40):
        decision = cluster.decider.decide(cluster.pod(3, again=number > 0))
        assert cluster.decider.assume(decision) is None
        boards.append(decision.cycle.board)
    # Once searches have cost what an entry does, which lags behind by one pod alone.
    assert len({id(board) for board in boards[20:]}) == 1
    assert boards[-1] is not None


def test_pods_of_reservations_and_shares_of_cards_are_searched_for_without_boards() -> None:
    cluster = Cluster()
    cluster.do("reserve", 3)
    for kind in (0, 2, 12, 0, 2):
        info = cluster.pod(kind)
        decision = cluster.decider.decide(info)
        assert decision.cycle.board is None
        assert (PLUGIN in decision.cycle.state) == (kind != 2)
        assert cluster.decider.assume(decision) is None
        cluster.placed.append(info)
    reserved = [info.allocations.get(PLUGIN) is not None for info in cluster.placed]
    assert reserved == [True, False, True, True, False]
    # One that has an order may be the first choice, which a look at single rows does not tell.
    cluster.do("reserve", 24)
    ordered = cluster.decider.decide(cluster.pod(0))
    assert ordered.cycle.board is not None
    assert _compare(cluster, cluster.pod(0)) >= 0
