# SPDX-License-Identifier: Apache-2.0
"""A round of the descheduler against itself on fewer pods, and placement against the plain loop."""

from __future__ import annotations

import asyncio
from functools import cache
from typing import Any

import pytest

from benchmarks import migration_jobs
from benchmarks.conftest import Record
from benchmarks.descheduler_round import (
    Evictions,
    again,
    descheduling,
    plan_seconds,
    planned_rounds,
    round_seconds,
    snapshot,
)
from benchmarks.informer_memory import synced
from benchmarks.manager import cpu_seconds
from benchmarks.ratio import Ratio
from koord.api.codec import to_json
from koord.api.kinds.pod import Pod
from koord.controllers.descheduler.planning.library.moved_pods import MovedPods
from koord.controllers.descheduler.plugins.loadaware.measured_nodes import Load, MeasuredNode
from koord.controllers.descheduler.plugins.loadaware.target_loads import TargetLoads
from koord.controllers.descheduler.pod_projection import DeschedulerPod
from koord.controllers.descheduler.predicates.node_fit import NodeFit
from koord.controllers.descheduler.snapshot import ClusterSnapshot
from tests.controllers.descheduler.world import node, pod

FEW, MANY = 3_000, 12_000
PLANNED = 4_000
JOBS, JOB_SECONDS = 200, 10
PODS_A_NODE = 20
TARGETS, PLACED = 1_000, 40


def _seconds_a_pod(pods: int) -> float:
    """The least CPU seconds of some rounds, by pod."""
    informer, _ = asyncio.run(synced(pods, 7, True, DeschedulerPod))
    view = snapshot([each for _, each in informer.items()], pods // PODS_A_NODE)
    rounds = descheduling(Evictions())
    return min(round_seconds(rounds, again(view)) for _ in range(3)) / pods


def test_a_round_costs_as_much_for_each_of_many_pods(record: Record) -> None:
    ratio = Ratio(_seconds_a_pod(MANY), _seconds_a_pod(FEW))
    record(f"descheduler: a round over {MANY} pods, by pod, against {FEW}", ratio, 0.6)


def _every_move(self: MovedPods, pod: Pod) -> set[int]:
    """The plain rule: each earlier move may be one that a step needs."""
    return set(range(len(self._pods)))


def test_a_plan_asks_about_few_moves(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    informer, _ = asyncio.run(synced(PLANNED, 7, True, DeschedulerPod))
    view = snapshot([each for _, each in informer.items()], PLANNED // PODS_A_NODE)
    rounds = planned_rounds(view)
    plan_seconds(rounds, again(view))
    ours = min(plan_seconds(rounds, again(view))[0] for _ in range(2))
    plan = rounds.last
    monkeypatch.setattr(MovedPods, "minded_by", _every_move)
    plain = plan_seconds(rounds, again(view))[0]
    assert to_json(plan) == to_json(rounds.last)
    steps = len(plan.steps)
    record(f"descheduler: a plan of {steps} steps over {PLANNED} pods", Ratio(ours, plain), 2)


def test_running_jobs_cost_little_beside_the_changes_around_them(record: Record) -> None:
    def seconds(jobs: int) -> float:
        return min(migration_jobs.cpu_seconds(jobs, JOB_SECONDS, FEW) for _ in range(2))

    ratio = Ratio(seconds(JOBS), seconds(0))
    record(f"descheduler: changes of a cluster with {JOBS} running jobs", ratio, 0.2)


def _targets() -> list[MeasuredNode]:
    """Nodes of which all but the last are as full as they may be."""
    made = []
    for number in range(TARGETS):
        high = 5_000 if number == TARGETS - 1 else 0
        load = Load({"cpu": 0}, high={"cpu": high})
        made.append(MeasuredNode(_nodes()[number], {}, (), (), {}, load, Load({})))
    return made


@cache
def _nodes() -> list[Any]:
    return [node(f"n{number:04}", cpu="64") for number in range(TARGETS)]


def _plain(targets: list[MeasuredNode], fit: NodeFit, pods: list[Any]) -> int:
    """Pods placed one by one on one target after the other."""
    placed = 0
    for each in pods:
        for target in targets:
            load = target.whole
            fits = fit.fits_by_requests(each, target.node)
            if fits and load.usage["cpu"] + 100 <= load.high["cpu"]:
                load.usage["cpu"] += 100
                placed += 1
                break
    return placed


def test_pods_are_placed_on_all_targets_at_once(record: Record) -> None:
    pods = [pod(f"p{number}", "other") for number in range(PLACED)]
    fit = NodeFit(ClusterSnapshot(_nodes()))

    def ours() -> None:
        loads = TargetLoads(_targets(), fit, prod=False)
        assert all(loads.place(each, {"cpu": 100}) for each in pods)

    def plain() -> None:
        assert _plain(_targets(), fit, pods) == PLACED

    plain()
    ratio = Ratio(
        min(cpu_seconds(ours) for _ in range(3)), min(cpu_seconds(plain) for _ in range(3))
    )
    record(f"descheduler: {PLACED} pods on {TARGETS} targets", ratio, 12)
