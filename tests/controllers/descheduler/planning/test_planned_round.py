# SPDX-License-Identifier: Apache-2.0
"""A planned round: what is in it, what stays and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from koord.api.codec import to_json
from koord.base.errors import KoordError
from tests.controllers.descheduler.planning.worlds import budget, load, plan
from tests.controllers.descheduler.world import node, pod

if TYPE_CHECKING:
    from pathlib import Path

    from koord.controllers.descheduler.planning.plan import RoundPlan

OLD = {"PodLifeTime": {"maxPodLifeTimeSeconds": 100}}


def _moves(made: RoundPlan) -> list[tuple[str, str]]:
    return [(step.name, step.target) for step in made.steps]


def _stays(made: RoundPlan) -> list[tuple[str, str]]:
    return [(stays.name, str(stays.reason)) for stays in made.staying]


def test_what_lands_nowhere_is_not_in_the_plan() -> None:
    nodes = [node("n1"), node("n2", cpu="2"), node("n3", unschedulable=True)]
    pods = [pod("a", cpu="2", age=900), pod("b", cpu="2", age=800), pod("new", age=1)]
    made = plan([*nodes, *pods], OLD)
    assert _moves(made) == [("a", "n2")]
    assert _stays(made) == [("b", "FitsNowhere")]
    assert "Insufficient cpu" in made.staying[0].message
    walked = plan([*nodes, *pods], OLD, one_by_one=True)
    assert _moves(walked) == [("a", ""), ("b", "")]


def test_a_pod_does_not_go_back_to_its_node() -> None:
    # The scheduler would put it on n1 again, which is emptier.
    nodes = [node("n1", cpu="40"), node("n2", cpu="4")]
    made = plan([*nodes, pod("a", age=900), pod("x", "n2", age=1)], OLD)
    assert _moves(made) == [("a", "n2")]


def test_budgets_and_limits_count_in_the_plan() -> None:
    nodes = [node("n1"), node("n2"), node("n3")]
    web = {"app": "web"}
    pods = [pod(name, labels=web, age=900 - at) for at, name in enumerate("abc")]
    pods += [pod("d", labels={"app": "db"}, age=700), pod("e", age=600), pod("f", age=500)]
    objects = [*nodes, *pods, budget("web", 2, app="web"), budget("db", 5, app="db"),
               budget("also", 5, app="db")]  # fmt: skip
    made = plan(objects, OLD, maxNoOfPodsToEvictTotal=3)
    assert [name for name, _ in _moves(made)] == ["a", "b", "e"]
    assert _stays(made) == [
        ("c", "DisruptionBudget"), ("d", "DisruptionBudget"), ("f", "Limit"),
    ]  # fmt: skip
    assert made.staying[0].message == (
        "PodDisruptionBudget default/web allows 2 disruptions, 2 are planned"
    )


def test_a_step_that_takes_room_of_another_requires_it() -> None:
    # big fits n2 only once small has left it for n3.
    nodes = [node("n1", cpu="3"), node("n2", cpu="3"), node("n3", cpu="1")]
    pods = [pod("small", "n2", cpu="1", age=900), pod("big", "n1", cpu="2500m", age=800)]
    made = plan([*nodes, *pods], OLD)
    assert _moves(made) == [("small", "n3"), ("big", "n2")]
    assert [step.requires for step in made.steps] == [[], [1]]
    assert [step.name for step in made.remaining({1})] == []
    assert [step.name for step in made.remaining({2})] == ["small"]


def test_a_zone_that_another_pod_leaves_counts_as_well() -> None:
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"}
            ]
        }
    }
    nodes = [
        node("n1", labels={"zone": "a"}), node("n2", labels={"zone": "b"}),
        node("n3", labels={"zone": "b"}), node("n4", labels={"zone": "c"}),
    ]  # fmt: skip
    tied = {"spec": {"affinity": apart}}
    leaves: dict[str, Any] = {"spec": {"nodeSelector": {"zone": "c"}}}
    pods = [
        pod("leaves", "n2", labels={"app": "x"}, age=900, **leaves),
        pod("follows", "n1", labels={"app": "y"}, age=800, **tied),
    ]
    made = plan([*nodes, *pods], OLD)
    assert [name for name, _ in _moves(made)] == ["leaves", "follows"]
    assert dict(_moves(made))["follows"] in ("n2", "n3")
    assert made.steps[1].requires == [1]


def test_without_the_schedulers_configuration_nothing_is_planned(tmp_path: Path) -> None:
    nodes = [node("n1"), node("n2")]
    file = tmp_path / "absent.yaml"
    with pytest.raises(KoordError, match=r"absent\.yaml"):
        plan([*nodes, pod("a", age=900)], OLD, scheduler_file=file)


def test_schedulers_that_the_file_does_not_name_are_not_planned_for(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.yaml"
    file.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles: [{schedulerName: koord-scheduler}]\n"
    )
    pods = [pod("a", age=900), pod("b", age=800, spec={"schedulerName": "koord-scheduler"})]
    made = plan([node("n1"), node("n2"), *pods], OLD, scheduler_file=file)
    assert _moves(made) == [("b", "n2")]
    assert _stays(made) == [("a", "OtherScheduler")]


def test_load_moves_only_where_it_gains() -> None:
    args = {
        "LowNodeLoad": {
            "lowThresholds": {"cpu": 50, "memory": 50},
            "highThresholds": {"cpu": 70, "memory": 70},
        }
    }
    used = {"a": 1000, "b": 1000, "c": 1600}
    pods = [pod(name, age=900) for name in used]
    metrics = [load("n1", used), load("n2", {})]
    made = plan([node("n1"), node("n2"), *pods, *metrics], {}, args)
    # 3600 of 4000 are 90 %: 20 points too many; one pod of 1000 takes 25.
    assert made.overload_before == pytest.approx(20.0)
    assert made.overload_after == pytest.approx(0.0)
    (step,) = made.steps
    assert step.target == "n2"
    assert step.gain == pytest.approx(20.0)
    (n1, n2) = made.nodes
    assert (n1.before["cpu"], n1.leaving, n2.arriving) == (90.0, 1, 1)


def test_a_pod_that_is_wanted_twice_moves_once() -> None:
    taint = [{"key": "bad", "effect": "NoSchedule"}]
    nodes = [node("n1", taints=taint), node("n2")]
    both = {**OLD, "RemovePodsViolatingNodeTaints": {}}
    made = plan([*nodes, pod("a", age=900)], both)
    assert _moves(made) == [("a", "n2")]
    assert _stays(made) == [("a", "AlreadyMoves")]


def test_the_same_snapshot_gives_the_same_plan_in_any_order() -> None:
    nodes = [node(f"n{at}") for at in range(4)]
    pods = [pod(f"p{at}", f"n{at % 3}", age=900, cpu="700m") for at in range(9)]
    first = plan([*nodes, *pods], OLD)
    assert len(first.steps) == 9
    assert to_json(first) == to_json(plan([*pods[::-1], *nodes[::-1]], OLD))
