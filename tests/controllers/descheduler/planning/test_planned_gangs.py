# SPDX-License-Identifier: Apache-2.0
"""Gangs in planned rounds: all of a gang are steps with a place, or none."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.quota import PodGroup
from tests.controllers.descheduler.planning.worlds import budget, load, plan
from tests.controllers.descheduler.world import node, pod

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.planning.plan import RoundPlan

OLD = {"PodLifeTime": {"maxPodLifeTimeSeconds": 100}}
BY_LOAD = {
    "LowNodeLoad": {
        "lowThresholds": {"cpu": 50, "memory": 50}, "highThresholds": {"cpu": 70, "memory": 70},
    }
}  # fmt: skip
MIGRATION = {"evictAllBarePods": True, "maxMigratingPerNode": 5}


def _plan(objects: list[Any], *args: Any, migration: Any = MIGRATION, **more: Any) -> RoundPlan:
    return plan(objects, *args, migration=migration, **more)


def _member(name: str, place: str, gang: str = "train", **more: Any) -> Pod:
    keys = {"gang.scheduling.koordinator.sh/name": gang,
            "gang.scheduling.koordinator.sh/min-available": "1"}  # fmt: skip
    spec = {"schedulerName": "koord-scheduler"}
    return pod(name, place, age=more.pop("age", 1), annotations=keys, spec=spec, **more)


def _moves(made: RoundPlan) -> list[tuple[str, str, int]]:
    return [(step.name, step.target, step.together_with) for step in made.steps]


def test_all_of_a_gang_are_steps_with_a_place() -> None:
    nodes = [node("n1", cpu="1"), node("n2", cpu="1"), node("n3", cpu="1"), node("n4", cpu="1")]
    pods = [_member("a", "n1", cpu="1", age=900), _member("b", "n2", cpu="1")]
    made = _plan([*nodes, *pods], OLD)
    assert _moves(made) == [("a", "n3", 0), ("b", "n4", 1)]
    assert [step.reason for step in made.steps][1] == "moves with default/a, of its gang"
    assert [node.leaving for node in made.nodes] == [1, 1, 0, 0]
    # One without the other is no step any more.
    assert made.remaining({2}) == made.remaining({1}) == []


def test_a_gang_of_which_one_fits_nowhere_stays_whole() -> None:
    # What the first leaves is no place for the second: both have theirs before any goes.
    nodes = [node("n1", cpu="1"), node("n2", cpu="1"), node("n3", cpu="1")]
    pods = [_member("a", "n1", cpu="1", age=900), _member("b", "n2", cpu="1")]
    pods.append(pod("single", "n1", cpu="0", age=800, spec={"schedulerName": "koord-scheduler"}))
    made = _plan([*nodes, *pods], OLD)
    # Neither holds a place: the pod that comes after has the one that a had.
    assert _moves(made) == [("single", "n3", 0)]
    (stays,) = made.staying
    assert (stays.name, stays.reason) == ("a", "FitsNowhere")
    assert stays.message.startswith("Pod default/b of its gang: ")


def test_what_mates_leave_counts_and_they_count_against_limits() -> None:
    gang = [_member("a", "n1", age=900), _member("b", "n2")]
    single = pod("c", "n2", age=800, spec={"schedulerName": "koord-scheduler"})
    nodes = [node(f"n{at}") for at in range(1, 5)]
    objects = [*nodes, *gang, single]
    assert [each[0] for each in _moves(_plan(objects, OLD))] == ["a", "b", "c"]
    for limit in ({"maxNoOfPodsToEvictTotal": 2}, {"maxNoOfPodsToEvictPerNode": 1}):
        made = _plan(objects, OLD, **limit)
        assert ([each[0] for each in _moves(made)], made.staying[-1].name) == (["a", "b"], "c")
    one = {**MIGRATION, "maxMigratingPerNode": 1}
    made = _plan(objects, OLD, migration=one)
    assert ([each[0] for each in _moves(made)], made.staying[-1].name) == (["a", "b"], "c")
    made = _plan(objects, OLD, maxNoOfPodsToEvictTotal=1)
    assert [each[0] for each in _moves(made)] == ["c"]


def test_a_limit_that_a_mate_exceeds_keeps_all_and_counts_none() -> None:
    gang = [_member("a", "n1", age=900), _member("b", "n1")]
    single = pod("c", "n1", age=800, spec={"schedulerName": "koord-scheduler"})
    nodes = [node(f"n{at}") for at in range(1, 4)]
    made = _plan([*nodes, *gang, single], OLD, migration={**MIGRATION, "maxMigratingPerNode": 1})
    assert [each[0] for each in _moves(made)] == ["c"]
    assert made.staying[0].message == (
        "Pod default/b of its gang: 1 pods of node n1 are moving, 1 may"
    )


def test_a_budget_counts_all_of_a_gang() -> None:
    labels = {"app": "train"}
    gang = [_member(name, "n1", age=900, labels=labels) for name in "abc"]
    nodes = [node(f"n{at}") for at in range(1, 4)]
    assert len(_plan([*nodes, *gang, budget("train", 3, app="train")], OLD).steps) == 3
    made = _plan([*nodes, *gang, budget("train", 2, app="train")], OLD)
    assert made.steps == []
    assert made.staying[0].message == (
        "Pod default/c of its gang: PodDisruptionBudget default/train allows 2 disruptions, "
        "2 are planned"
    )


def test_no_other_pod_leaves_a_node_that_mates_leave_below_its_threshold() -> None:
    gang = [_member("a", "n1", age=900), _member("b", "n2")]
    single = pod("c", "n2", age=800, spec={"schedulerName": "koord-scheduler"})
    use = {"n1": {"a": 1000, "other": 2000}, "n2": {"b": 1000, "c": 500, "more": 1500}}
    more = [pod("other", "n1", spec={"priority": 2_000_000_000}),
            pod("more", "n2", spec={"priority": 2_000_000_000})]  # fmt: skip
    metrics = [load(name, used) for name, used in use.items()]
    metrics += [load("n3", {}), load("n4", {})]
    nodes = [node(f"n{at}") for at in range(1, 5)]
    made = _plan([*nodes, *gang, single, *more, *metrics], {}, BY_LOAD)
    assert [each[0] for each in _moves(made)] == ["a", "b"]
    assert all(stays.reason in ("NoGain", "Limit") for stays in made.staying)


def _pod_group(name: str, *others: str) -> PodGroup:
    named = json.dumps([f"default/{each}" for each in others])
    metadata = {"name": name, "namespace": "default",
                "annotations": {"gang.scheduling.koordinator.sh/groups": named}}  # fmt: skip
    return codec.convert({"metadata": metadata, "spec": {"minMember": 1}}, PodGroup, name)


def test_gangs_that_their_podgroups_alone_make_one_group_move_together() -> None:
    def member(name: str, gang: str, age: int) -> Pod:
        labels = {"pod-group.scheduling.sigs.k8s.io": gang}
        return pod(name, "n1", age=age, labels=labels, spec={"schedulerName": "koord-scheduler"})

    pods = [member("a", "x", 900), member("b", "y", 1), member("c", "z", 1)]
    nodes = [node(f"n{at}") for at in range(1, 4)]
    # z is named and names nobody.
    groups = [_pod_group("x", "x", "y"), _pod_group("y", "x", "y", "z"), _pod_group("z")]
    made = _plan([*nodes, *pods, *groups], OLD)
    assert [(name, unit) for name, _, unit in _moves(made)] == [("a", 0), ("b", 1)]
    made = _plan([*nodes, *pods, groups[0], _pod_group("y")], OLD)
    assert [name for name, _, _ in _moves(made)] == ["a"]
