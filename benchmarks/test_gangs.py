# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from benchmarks.conftest import Gate
from koord.controllers.scheduler.decision.decider import Decision
from koord.controllers.scheduler.job_planning.planner import JobPlanner
from koord.controllers.scheduler.queue.queued_pod import QueuedPod
from tests.controllers.scheduler.plugins.coscheduling.gangs import GangWorld, layers, member
from tests.controllers.scheduler.pods import node

NODES, PODS = 2_000, 500
NEAR = {"gatherStrategy": [{"layer": "rack", "strategy": "PreferGather"}]}


class Held:
    """A queue that hands out the same pods again and again."""

    def __init__(self, pods: Iterable[QueuedPod]) -> None:
        self.pods = {pod.info.uid: pod for pod in pods}

    def get(self, uid: str) -> QueuedPod | None:
        return self.pods.get(uid)

    def pop_many(self, uids: Iterable[str]) -> list[QueuedPod]:
        return [self.pods[uid] for uid in uids]

    def put_back(self, pod: QueuedPod) -> None:
        """Never: nothing fails here."""


def sides(near: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """A gang planned as a whole, and the same pods decided one by one."""
    nodes = [node(f"n{i:04}", cpu="64", labels={"rack": f"r{i // 40}"}) for i in range(NODES)]
    world = GangWorld(nodes, {"aware_network_topology": True})
    world.put(layers("rack"))
    notes = {"network-topology-spec": json.dumps(NEAR)} if near else {}
    world.put(*(member(f"p{i:03}", least=PODS, cpu="8", notes=notes) for i in range(PODS)))
    queue = Held(world.scheduler.queue.waiting())
    decider = world.scheduler.deciders["koord-scheduler"]
    planner = JobPlanner(world.plugin, queue)
    infos = [pod.info for pod in queue.pods.values()]
    first = next(iter(queue.pods.values()))

    def together() -> None:
        plan = planner.plan(first, decider)
        assert len(plan.placed) == PODS
        for placed in plan.placed:
            decider.retract(placed.decision)

    def one_by_one() -> None:
        decisions: list[Decision] = []
        for info in infos:
            decision = decider.decide(info, (info,))
            assert decider.assume(decision) is None
            decisions.append(decision)
        for decision in decisions:
            decider.retract(decision)

    return together, one_by_one


def test_a_gang_costs_little_more_than_its_pods(gate: Gate) -> None:
    gate("gang: 500 pods on 2,000 nodes, beside the pods one by one", *sides(near=False), 0.5)


def test_a_gang_that_gathers(gate: Gate) -> None:
    gate("gang: the same, gathered in the network", *sides(near=True), 0.4)
