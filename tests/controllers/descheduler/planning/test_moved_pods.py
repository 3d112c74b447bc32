# SPDX-License-Identifier: Apache-2.0
"""Which earlier moves a step asks about: plans are those of asking about all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koord.api.codec import to_json
from koord.controllers.descheduler.planning.library.moved_pods import MovedPods
from tests.controllers.descheduler.planning.worlds import plan
from tests.controllers.descheduler.world import node, pod
from tests.profiles import examples

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.planning.plan import RoundPlan

OLD = {"PodLifeTime": {"maxPodLifeTimeSeconds": 100}}
NAMES = ("a", "b", "c")


def _all_others(self: MovedPods, pod: Pod) -> set[int]:
    """The plain rule: all moves are put back, whoever moved."""
    return set(range(len(self._pods)))


@st.composite
def selectors(draw: st.DrawFn) -> dict[str, Any]:
    name = draw(st.sampled_from(NAMES))
    operator = draw(st.sampled_from(["", "In", "NotIn", "Exists"]))
    if not operator:
        return {"matchLabels": {"app": name}}
    values = [] if operator == "Exists" else [name]
    return {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}


@st.composite
def pod_specs(draw: st.DrawFn) -> dict[str, Any]:
    """Terms and constraints over zones, or none."""
    kind = draw(st.sampled_from(["", "", "podAffinity", "podAntiAffinity", "spread", "soft"]))
    selector = draw(selectors())
    if not kind:
        return {}
    if kind in ("spread", "soft"):
        when = "DoNotSchedule" if kind == "spread" else "ScheduleAnyway"
        return {"topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": when,
             "labelSelector": selector},
        ]}  # fmt: skip
    term = {"labelSelector": selector, "topologyKey": "zone"}
    return {"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


@st.composite
def clusters(draw: st.DrawFn) -> list[Any]:
    """Nodes in zones, most with room for two or three pods."""
    objects: list[Any] = [
        node(f"n{at}", cpu=str(draw(st.integers(2, 4))), labels={"zone": f"z{at % 3}"})
        for at in range(draw(st.integers(3, 6)))
    ]
    for at in range(draw(st.integers(2, 9))):
        place = draw(st.sampled_from(objects[: len(objects) // 2 + 1])).metadata.name
        objects.append(
            pod(f"p{at}", place if place.startswith("n") else "n0", cpu="1", age=900 - at,
                labels={"app": draw(st.sampled_from(NAMES))}, spec=draw(pod_specs()))
        )  # fmt: skip
    return objects


def _plain(objects: list[Any]) -> RoundPlan:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MovedPods, "minded_by", _all_others)
        return plan(objects, OLD)


@settings(max_examples=examples(0.2))
@given(clusters())
def test_plans_are_those_of_asking_about_every_move(objects: list[Any]) -> None:
    assert to_json(plan(objects, OLD)) == to_json(_plain(objects))


def test_only_moves_that_may_matter_are_asked_about() -> None:
    moved = MovedPods()
    repel = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "y"}}, "topologyKey": "zone"},
    ]}}  # fmt: skip
    claim = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    gang = {"gang.scheduling.koordinator.sh/name": "g"}
    for row, each in enumerate([
        pod("labels", labels={"app": "x"}), pod("repels", spec={"affinity": repel}),
        pod("claims", spec=claim), pod("gang", annotations=gang), pod("none"),
    ]):  # fmt: skip
        moved.push(row, each)
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
        {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "zone"},
    ]}}  # fmt: skip
    assert moved.minded_by(pod("p", spec={"affinity": near})) == {0}
    assert moved.minded_by(pod("p", labels={"app": "y"})) == {1}
    assert moved.minded_by(pod("p", spec=claim)) == {2}
    assert moved.minded_by(pod("p", annotations=gang)) == {3}
    assert moved.minded_by(pod("p", namespace="other", annotations=gang)) == set()
    assert moved.of_row(4) == {4}
    for _ in range(5):
        moved.pop()
    assert moved.minded_by(pod("p", labels={"app": "y"}, spec={"affinity": near})) == set()
    assert moved.of_row(4) == set()
