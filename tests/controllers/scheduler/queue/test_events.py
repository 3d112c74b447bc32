# SPDX-License-Identifier: Apache-2.0
"""Cluster events: who hears what, what an update is, what metrics call it."""

from __future__ import annotations

import pytest

from koord.api.kinds.constraints import SchedulingGate, Taint, Toleration
from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.node import Node, NodeCondition, NodeSpec, NodeStatus
from koord.api.kinds.pod import Pod, PodSpec
from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.queue.events import Action, ClusterEvent, node_events, pod_events
from koord.kernels.quantity import Quantity

DEVICES = "devices.v1alpha1.scheduling.koordinator.sh"


@pytest.mark.parametrize(
    ("registered", "incoming", "heard"),
    [
        (ClusterEvent(ev.POD, Action.DELETE), ev.ASSIGNED_POD_DELETE, True),
        (ClusterEvent(ev.POD, Action.ADD), ev.ASSIGNED_POD_DELETE, False),
        (ClusterEvent(ev.POD, Action.UPDATE), ev.UNSCHEDULED_POD_UPDATE, True),
        (ClusterEvent(ev.ASSIGNED_POD, Action.ALL), ev.UNSCHEDULED_POD_ADD, False),
        (ClusterEvent(ev.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), ev.NODE_ADD, True),
        (ClusterEvent(ev.NODE, Action.UPDATE_NODE_TAINT),
         ClusterEvent(ev.NODE, Action.UPDATE_OTHER), False),
        (ClusterEvent(DEVICES, Action.ALL), ClusterEvent(DEVICES, Action.UPDATE_OTHER), True),
        (ClusterEvent(ev.WILDCARD, Action.ALL), ev.NODE_ADD, True),
        (ClusterEvent(ev.WILDCARD, Action.ADD), ev.NODE_ADD, True),
        (ClusterEvent(ev.WILDCARD, Action.ADD), ev.NODE_DELETE, False),
        (ClusterEvent(ev.NODE, Action.ALL), ev.UNSCHEDULABLE_TIMEOUT, False),
    ],
)  # fmt: skip
def test_who_hears_what(registered: ClusterEvent, incoming: ClusterEvent, heard: bool) -> None:
    assert registered.matches(incoming) is heard


def test_every_update_is_one_of_update() -> None:
    updates = [action for action in Action if action.name and action.name.startswith("UPDATE")]
    assert all(action in Action.UPDATE for action in updates)
    assert Action.ALL == Action.ADD | Action.DELETE | Action.UPDATE


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (ev.ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (ClusterEvent(ev.NODE, Action.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ClusterEvent(ev.POD, Action.UPDATE), "PodUpdate"),
        (ClusterEvent(ev.CSI_NODE, Action.ALL), "storage.k8s.io/CSINodeAll"),
        (ClusterEvent(ev.NODE, Action.ADD | Action.DELETE), "NodeAdd|Delete"),
        (ev.FORCE_ACTIVATE, "ForceActivate"),
    ],
)
def test_labels(event: ClusterEvent, label: str) -> None:
    assert event.label == label


def pod(**spec: object) -> Pod:
    labels = spec.pop("labels", {})
    metadata = ObjectMeta(name="p", labels=labels)  # type: ignore[arg-type]
    return Pod(metadata=metadata, spec=PodSpec(**spec))  # type: ignore[arg-type]


GATE, TOLERATION = [SchedulingGate("example.com/wait")], [Toleration(key="gpu")]


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        (pod(), pod(labels={"app": "web"}), Action.UPDATE_POD_LABEL),
        (pod(scheduling_gates=GATE), pod(), Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
        (pod(scheduling_gates=GATE * 2), pod(scheduling_gates=GATE), Action.UPDATE_OTHER),
        (pod(), pod(tolerations=TOLERATION), Action.UPDATE_POD_TOLERATION),
        (pod(labels={"a": "b"}), pod(tolerations=TOLERATION),
         Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION),
        (pod(), pod(), Action.UPDATE_OTHER),
    ],
)  # fmt: skip
def test_updates_of_pods(old: Pod, new: Pod, actions: Action) -> None:
    found = pod_events(old, new, {}, {})
    assert {event.action for event in found} == set(actions)
    assert {event.resource for event in found} == {ev.UNSCHEDULED_POD}


def test_asking_for_less_is_seen_and_assigned_pods_are_told_apart() -> None:
    on_node = pod(node_name="node-1")
    less = pod_events(on_node, on_node, {"cpu": 1000, "memory": 5}, {"cpu": 1000})
    more = pod_events(on_node, on_node, {"cpu": 1000}, {"cpu": 2000, "memory": 5})
    assert less == [ClusterEvent(ev.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN)]
    assert more == [ClusterEvent(ev.ASSIGNED_POD, Action.UPDATE_OTHER)]


def node(*, labels: dict[str, str] | None = None, cpu: str = "1", ready: str = "True",
         annotations: dict[str, str] | None = None, **spec: object) -> Node:  # fmt: skip
    status = NodeStatus(
        allocatable={"cpu": Quantity.parse(cpu)}, conditions=[NodeCondition("Ready", ready)]
    )
    metadata = ObjectMeta(name="n", labels=labels or {}, annotations=annotations or {})
    return Node(metadata=metadata, spec=NodeSpec(**spec), status=status)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        (node(), node(), Action.NONE),
        (node(), node(cpu="2"), Action.UPDATE_NODE_ALLOCATABLE),
        (node(cpu="1"), node(cpu="1000m"), Action.NONE),
        (node(), node(labels={"zone": "a"}), Action.UPDATE_NODE_LABEL),
        (node(), node(annotations={"a": "b"}), Action.UPDATE_NODE_ANNOTATION),
        (node(), node(ready="False"), Action.UPDATE_NODE_CONDITION),
        (node(), node(taints=[Taint(key="gpu")]), Action.UPDATE_NODE_TAINT),
        (node(unschedulable=True), node(), Action.UPDATE_NODE_TAINT),
        (node(), node(unschedulable=True), Action.NONE),
    ],
)
def test_updates_of_nodes(old: Node, new: Node, actions: Action) -> None:
    assert {event.action for event in node_events(old, new)} == set(actions)
