# SPDX-License-Identifier: Apache-2.0
"""Conditions of pods: set only where they differ, and dated by when their status turned."""

from __future__ import annotations

from msgspec.structs import replace

from koord.api.kinds.pod import PodCondition
from koord.controllers.scheduler import pod_conditions
from tests.controllers.scheduler.pods import pod


def test_a_condition_is_set_once_and_dated_when_its_status_turns() -> None:
    bare = pod("p")
    said = pod_conditions.change(bare, "PodScheduled", "False", "Unschedulable", "no room", 60.0)
    assert said is not None
    assert said["lastTransitionTime"] == "1970-01-01T00:01:00Z"
    known = PodCondition("PodScheduled", "False", "Unschedulable", "no room")
    told = replace(bare, status=replace(bare.status, conditions=[known]))
    assert pod_conditions.find(told, "PodScheduled") is known
    assert pod_conditions.find(told, "Ready") is None
    assert (
        pod_conditions.change(told, "PodScheduled", "False", known.reason, "no room", 90.0) is None
    )
    other = pod_conditions.change(told, "PodScheduled", "False", known.reason, "less room", 90.0)
    assert other is not None
    assert "lastTransitionTime" not in other, "it was False before"
    assert pod_conditions.became_true(told, "PodScheduled") is None
