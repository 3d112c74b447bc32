# SPDX-License-Identifier: Apache-2.0
"""Nodes that fall silent, taints, evictions, and pods whose node has gone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.api import codec
from koord.api.kinds.constraints import Taint
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controlplane.controllers.base.objects import timestamp
from koord.controlplane.controllers.base.plans import Delete, PatchAction, Plan
from koord.controlplane.controllers.node import node_lifecycle as lifecycle
from koord.controlplane.controllers.node import pod_gc
from tests.controlplane.controllers.small_cluster import START

READY = {"type": "Ready", "status": "True", "lastHeartbeatTime": timestamp(START)}


def node(ready: str = "True", **spec: Any) -> Node:
    condition = {**READY, "status": ready}
    metadata = {"name": "n", "uid": "u", "creationTimestamp": timestamp(START)}
    status = {"conditions": [condition]}
    return codec.convert({"metadata": metadata, "spec": spec, "status": status}, Node, "n")


def pod(name: str = "p", **parts: Any) -> Pod:
    metadata = {"name": name, "namespace": "default", "uid": name, **parts.pop("metadata", {})}
    return codec.convert({"metadata": metadata, **parts}, Pod, name)


def taints_of(plan: Plan) -> set[tuple[str, str]] | None:
    for action in plan.actions:
        if isinstance(action, PatchAction) and "spec" in action.body:
            return {(t["key"], t["effect"]) for t in action.body["spec"]["taints"] or []}
    return None


def test_a_silent_node_is_unknown_after_the_grace_and_not_before() -> None:
    subject = node()
    alive = lifecycle.sign(subject, "r1", None, START)
    early = lifecycle.plan(subject, [], alive, START + 49)
    assert (early.actions, early.again_seconds) == ([], 1)
    late = lifecycle.plan(subject, [], alive, START + 50)
    patch = next(
        a for a in late.actions if isinstance(a, PatchAction) and a.subresource == "status"
    )
    told = {c["type"]: c["status"] for c in patch.body["status"]["conditions"]}
    assert told == dict.fromkeys(
        ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"), "Unknown"
    )
    unreachable = "node.kubernetes.io/unreachable"
    assert taints_of(late) == {(unreachable, "NoSchedule"), (unreachable, "NoExecute")}


def test_only_what_changes_is_a_sign_of_life() -> None:
    subject = node()
    first = lifecycle.sign(subject, "r1", None, START)
    assert lifecycle.sign(subject, "r1", first, START + 30) is first
    renewed = lifecycle.sign(subject, "r2", first, START + 30)
    assert renewed.seen == START + 30


def test_taints_follow_conditions_and_leave_others_alone() -> None:
    alive = lifecycle.Heartbeat(("", ""), START)
    mine = {"key": "mine", "effect": "NoSchedule"}
    stale = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    assert taints_of(lifecycle.plan(node(taints=[mine, stale]), [], alive, START)) == {
        ("mine", "NoSchedule")
    }
    not_ready = "node.kubernetes.io/not-ready"
    assert taints_of(lifecycle.plan(node("False", taints=[mine]), [], alive, START)) == {
        ("mine", "NoSchedule"), (not_ready, "NoSchedule"), (not_ready, "NoExecute")
    }  # fmt: skip
    cordoned = lifecycle.plan(node(unschedulable=True), [], alive, START)
    assert taints_of(cordoned) == {("node.kubernetes.io/unschedulable", "NoSchedule")}
    assert taints_of(lifecycle.plan(node(), [], alive, START)) is None


def test_pods_of_a_node_that_is_not_ready_do_not_serve() -> None:
    alive = lifecycle.Heartbeat(("", ""), START)
    serving = pod(status={"conditions": [{"type": "Ready", "status": "True"}]})
    plan = lifecycle.plan(node("False"), [serving, pod("q")], alive, START)
    patched = [a.name for a in plan.actions if isinstance(a, PatchAction) and a.kind.name == "Pod"]
    assert patched == ["p"]


EVICT = Taint(key="k", effect="NoExecute")


@pytest.mark.parametrize(
    ("tolerations", "wait"),
    [
        ([], 0.0),
        ([{"key": "k", "operator": "Exists"}], None),
        ([{"key": "k", "operator": "Exists", "tolerationSeconds": 300}], 200.0),
        ([{"key": "k", "operator": "Exists", "tolerationSeconds": 60}], 0.0),
        ([{"key": "k", "operator": "Exists", "effect": "NoSchedule"}], 0.0),
    ],
)
def test_a_pod_leaves_when_its_toleration_ends(
    tolerations: list[dict[str, Any]], wait: float | None
) -> None:
    taint = codec.convert(
        {"key": "k", "effect": "NoExecute", "timeAdded": timestamp(START - 100)}, Taint, "t"
    )
    subject = pod(spec={"tolerations": tolerations})
    assert lifecycle.eviction_in(subject, [taint], START) == wait
    tainted = node(taints=[codec.to_document(taint)])
    plan = lifecycle.evict(tainted, [subject], START)
    assert any(isinstance(action, Delete) for action in plan.actions) is (wait == 0)
    assert plan.again_seconds == (wait or None)


def test_pods_of_vanished_nodes_and_pods_that_end_unscheduled_go_at_once() -> None:
    pods = [
        pod("lost", spec={"nodeName": "gone"}, status={"phase": "Running"}),
        pod("fine", spec={"nodeName": "n"}, status={"phase": "Running"}),
        pod("ending", metadata={"deletionTimestamp": timestamp(START)}),
    ]
    actions = pod_gc.plan(pods, {"gone"}, START)
    removed = {a.name: a.grace_period_seconds for a in actions if isinstance(a, Delete)}
    assert removed == {"lost": 0, "ending": 0}
    phases = {a.name: a.body["status"]["phase"] for a in actions if isinstance(a, PatchAction)}
    assert phases == {"lost": "Failed", "ending": "Failed"}


@given(st.lists(st.booleans(), max_size=12), st.integers(1, 12))
def test_the_oldest_finished_pods_go_first_evicted_ones_before_all(
    evicted: list[bool], limit: int
) -> None:
    pods = [
        pod(
            f"p{number:02}",
            metadata={"creationTimestamp": timestamp(START + number)},
            status={"phase": "Failed", "reason": "Evicted" if gone else ""},
        )
        for number, gone in enumerate(evicted)
    ]
    removed = [a.name for a in pod_gc.plan(pods, set(), START, limit) if isinstance(a, Delete)]
    ranked = sorted(pods, key=lambda p: (p.status.reason != "Evicted", p.metadata.name))
    assert removed == [p.metadata.name for p in ranked[: max(0, len(pods) - limit)]]
