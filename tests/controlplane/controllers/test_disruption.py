# SPDX-License-Identifier: Apache-2.0
"""Disruption budgets against a plain model of their arithmetic."""

from __future__ import annotations

from math import ceil
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import codec
from koord.api.kinds.pod import Pod
from koord.controlplane.controllers.base.objects import Owner, timestamp
from koord.controlplane.controllers.base.plans import ObjectEvent
from koord.controlplane.controllers.workload import disruption
from tests.controlplane.controllers.small_cluster import START


def budget(spec: dict[str, Any], status: dict[str, Any] | None = None) -> Owner:
    metadata = {"name": "b", "namespace": "default", "generation": 3}
    return codec.convert({"metadata": metadata, "spec": spec, "status": status or {}}, Owner, "b")


def pod(name: str, owner: str = "", ready: bool = True, deleting: bool = False) -> Pod:
    metadata: dict[str, Any] = {"name": name, "namespace": "default"}
    if owner:
        metadata["ownerReferences"] = [{"uid": owner, "kind": "ReplicaSet", "controller": True}]
    if deleting:
        metadata["deletionTimestamp"] = timestamp(START)
    conditions = [{"type": "Ready", "status": str(ready)}]
    status = {"phase": "Running", "conditions": conditions}
    return codec.convert({"metadata": metadata, "status": status}, Pod, name)


def model(spec: dict[str, Any], states: list[tuple[bool, bool]], total: int) -> tuple[int, ...]:
    """Healthy, desired, expected, allowed; as the Kubernetes documentation words it."""
    healthy = sum(ready and not deleting for ready, deleting in states)
    ((field, value),) = spec.items()
    expected = len(states) if (field, type(value)) == ("minAvailable", int) else total
    number = value if isinstance(value, int) else ceil(int(value[:-1]) * expected / 100)
    desired = number if field == "minAvailable" else max(0, expected - number)
    allowed = max(0, healthy - desired) if expected else 0
    return healthy, desired, expected, allowed


specs = st.builds(
    lambda field, value: {field: value},
    st.sampled_from(["minAvailable", "maxUnavailable"]),
    st.one_of(st.integers(0, 12), st.integers(0, 100).map(lambda n: f"{n}%")),
)


@given(specs, st.lists(st.tuples(st.booleans(), st.booleans()), max_size=10), st.integers(0, 12))
def test_a_budget_counts_as_the_model_does(
    spec: dict[str, Any], states: list[tuple[bool, bool]], size: int
) -> None:
    selected = [pod(f"p{n}", "rs", *state) for n, state in enumerate(states)]
    scales = {"rs": ("top", size)}
    plan = disruption.plan(budget(spec), selected, scales, START)
    status = plan.status or {}
    found = [status[name] for name in ("currentHealthy", "desiredHealthy", "expectedPods",
                                       "disruptionsAllowed")]  # fmt: skip
    assert tuple(found) == model(spec, states, size if states else 0)
    condition = status["conditions"][0]
    assert condition["status"] == str(status["disruptionsAllowed"] > 0)
    assert condition["observedGeneration"] == status["observedGeneration"] == 3


def test_workloads_count_once_however_many_pods_they_own() -> None:
    selected = [pod("a", "rs1"), pod("b", "rs2"), pod("c", "other"), pod("d")]
    scales = {"rs1": ("web", 4), "rs2": ("web", 4), "other": ("other", 2)}
    plan = disruption.plan(budget({"maxUnavailable": "50%"}), selected, scales, START)
    assert plan.status is not None
    assert plan.status["expectedPods"] == 6


def test_a_pod_that_was_evicted_does_not_count_until_the_word_is_too_old() -> None:
    told = {"a": timestamp(START - 60), "gone": timestamp(START), "old": timestamp(START - 121)}
    selected = [pod("a", "rs"), pod("old", "rs"), pod("c", "rs")]
    before = budget({"maxUnavailable": 1}, {"disruptedPods": told})
    plan = disruption.plan(before, selected, {"rs": ("web", 3)}, START)
    assert plan.status is not None
    assert plan.status["currentHealthy"] == 2
    assert plan.status["disruptionsAllowed"] == 0
    assert plan.status["disruptedPods"] == {"a": timestamp(START - 60)}
    assert plan.again_seconds == 60


def test_nothing_is_allowed_while_a_size_is_unknown() -> None:
    before = budget({"maxUnavailable": 1}, {"disruptionsAllowed": 2, "currentHealthy": 3})
    plan = disruption.plan(before, [pod("a", "strange")], {}, START)
    assert plan.status is not None
    assert plan.status["disruptionsAllowed"] == 0
    assert plan.status["conditions"][0]["reason"] == "SyncFailed"
    assert [type(action) for action in plan.actions] == [ObjectEvent]


@pytest.mark.parametrize("stamp_kept", [True, False])
def test_the_transition_time_moves_with_the_status_alone(stamp_kept: bool) -> None:
    old = {
        "type": "DisruptionAllowed",
        "status": "True" if stamp_kept else "False",
        "reason": "x",
        "observedGeneration": 1,
        "lastTransitionTime": timestamp(START - 500),
    }
    before = budget({"maxUnavailable": 1}, {"conditions": [old]})
    plan = disruption.plan(before, [pod("a", "rs")], {"rs": ("web", 1)}, START)
    assert plan.status is not None
    new = plan.status["conditions"][0]
    assert (new["lastTransitionTime"] == old["lastTransitionTime"]) is stamp_kept
    assert new["reason"] == "SufficientPods"
