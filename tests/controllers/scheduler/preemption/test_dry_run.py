# SPDX-License-Identifier: Apache-2.0
"""Preemption against what the stock filters say: pods that spread, and pods that keep apart."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from koord.controllers.scheduler.decision.decider import Decider
from koord.controllers.scheduler.plugins.kubernetes.default_preemption import DefaultPreemption
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.preemption.world import Promised
from tests.controllers.scheduler.stock import Stock

HOST = "kubernetes.io/hostname"
SAME: dict[str, Any] = {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": HOST}
APART = {
    "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [SAME]}}
}
EVEN: dict[str, Any] = {
    "topologySpreadConstraints": [SAME | {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]
}


class Scene:
    """Two nodes of four CPUs under all stock filters, and promises."""

    def __init__(self) -> None:
        self.stock = Stock()
        self.stock.add(*(node(name, cpu="4", labels={HOST: name}) for name in "ab"))
        given = SimpleNamespace(min_candidate_nodes_percentage=10, min_candidate_nodes_absolute=100)
        self.plugin = DefaultPreemption(given, self.stock.world)
        self.promised = Promised()
        made = self.stock.decider
        self.decider = Decider(made.table, made.accounts, made.plugins, self.promised)

    def put(self, name: str, where: str, priority: int = 0, **more: Any) -> None:
        cpu = more.pop("cpu", "1")
        self.stock.put(pod(name, cpu=cpu, priority=priority, **more), where)

    def preempt(self, **more: Any) -> tuple[str, list[str]]:
        waits = pod("p", cpu="1", priority=10, labels={"app": "x"}, **more)
        decision = self.decider.decide(self.stock.world.shapes.info(waits))
        assert decision.diagnosis is not None, "it fits"
        result = self.plugin.post_filter(decision.cycle, decision.diagnosis)
        return result.node, [victim.pod.metadata.name for victim in result.victims]


def test_a_pod_that_keeps_apart_takes_the_place_of_lesser_ones() -> None:
    scene = Scene()
    scene.put("x-a", "a", labels={"app": "x"}, priority=20)
    scene.put("x-b", "b", labels={"app": "x"})
    scene.put("y-b", "b")
    assert scene.preempt(**APART) == ("b", ["x-b"])


def test_pods_that_keep_others_out_go() -> None:
    scene = Scene()
    scene.put("away-a", "a", priority=5, **APART)
    scene.put("away-b", "b", priority=4, **APART)
    assert scene.preempt() == ("b", ["away-b"])


def test_a_pod_that_spreads_takes_the_place_of_lesser_ones() -> None:
    scene = Scene()
    scene.put("x-a", "a", labels={"app": "x"})
    scene.put("full", "b", cpu="4", priority=20)
    assert scene.preempt(**EVEN) == ("a", ["x-a"])


@pytest.mark.parametrize("apart", [False, True])
def test_what_is_promised_is_left_free(apart: bool) -> None:
    """On the columns; and in a what-if where the promised pod keeps others out."""
    scene = Scene()
    info, decide = scene.stock.world.shapes.info, scene.decider.decide
    more: dict[str, Any] = APART if apart else {}
    promised = pod("promised", cpu="3", priority=10, **more)
    scene.promised.by_row[0] = [info(promised)]
    waits = info(pod("p", cpu="2", priority=10, labels={"app": "x"}))
    small = info(pod("q", cpu="1", priority=10, labels={"app": "x"}))
    assert decide(waits).row == 1
    scene.put("full", "b", cpu="4", priority=20)
    diagnosis = decide(waits).diagnosis
    assert diagnosis is not None
    assert diagnosis.message() == "0/2 nodes are available: 2 Insufficient cpu."
    assert decide(small).row == (-1 if apart else 0)
