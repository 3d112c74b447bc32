# SPDX-License-Identifier: Apache-2.0
"""Cluster events: what changed, in the words that plugins register for.

Names are kube-scheduler's, for they are labels of its metrics; see
docs/reference/scheduling.md#events-and-hints.
"""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod

POD = "Pod"  # registers for both kinds of pods; nothing happens to it
ASSIGNED_POD = "AssignedPod"
UNSCHEDULED_POD = "UnscheduledPod"
NODE = "Node"
PERSISTENT_VOLUME = "PersistentVolume"
PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
STORAGE_CLASS = "storage.k8s.io/StorageClass"
CSI_NODE = "storage.k8s.io/CSINode"
CSI_DRIVER = "storage.k8s.io/CSIDriver"
CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
WILDCARD = "*"


class Action(IntFlag):
    """What happened to a resource. Updates of pods and nodes say which part of them changed."""

    NONE = 0
    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16  # and spec.unschedulable, when it is cleared
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_POD_LABEL = 128
    UPDATE_POD_SCALE_DOWN = 256
    UPDATE_POD_TOLERATION = 512
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1024
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 2048
    UPDATE_OTHER = 4096  # nothing of the above: wakes only who registered for every update
    UPDATE = 8188
    ALL = 8191


class ClusterEvent(NamedTuple):
    """Something that happened, or that a plugin wants to hear of.

    Args:
        resource: one of the names above, or ``plural.version.group`` of a custom resource.
        action: one or several :class:`Action`.
        named: what :attr:`label` says instead of resource and action.
    """

    resource: str
    action: int
    named: str = ""

    @property
    def label(self) -> str:
        """The event in metrics and log lines, such as ``AssignedPodDelete``."""
        return self.named or self.resource + _action_text(self.action)

    @property
    def is_wildcard(self) -> bool:
        """Whether it is about everything."""
        return self.resource == WILDCARD and self.action == Action.ALL

    def matches(self, incoming: ClusterEvent) -> bool:
        """Whether this, a registration, is for an event that came in."""
        if self.is_wildcard:
            return True
        if not self.action & incoming.action:
            return False
        if self.resource == POD:
            return incoming.resource in (POD, ASSIGNED_POD, UNSCHEDULED_POD)
        return self.resource in (WILDCARD, incoming.resource)


class HintedEvent(NamedTuple):
    """A registration of a plugin: the event, and who says whether it can help a pod.

    Args:
        event: what to hear of.
        hint: ``hint(pod info, old object, new object)``: False leaves the pod where it is. Without
            one, and where it raises, the pod is tried again.
        per_shape: the hint's answer is the same for pods of one shape, so it is asked once a shape.
    """

    event: ClusterEvent
    hint: Callable[[Any, Any, Any], bool] | None = None
    per_shape: bool = False


ASSIGNED_POD_ADD = ClusterEvent(ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_DELETE = ClusterEvent(ASSIGNED_POD, Action.DELETE)
UNSCHEDULED_POD_ADD = ClusterEvent(UNSCHEDULED_POD, Action.ADD)
UNSCHEDULED_POD_UPDATE = ClusterEvent(UNSCHEDULED_POD, Action.UPDATE)
NODE_ADD = ClusterEvent(NODE, Action.ADD)
NODE_DELETE = ClusterEvent(NODE, Action.DELETE)
UNSCHEDULABLE_TIMEOUT = ClusterEvent(WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE = ClusterEvent(WILDCARD, Action.ALL, "ForceActivate")

# Labels of moves that no cluster event made.
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
RESTORED = "Restored"
SLOW_ATTEMPT = "SlowAttempt"


def pod_events(
    old: Pod, new: Pod, old_request: Mapping[str, int], new_request: Mapping[str, int]
) -> list[ClusterEvent]:
    """What an update of a pod changed for scheduling; at least one event.

    Args:
        old: the pod before.
        new: the pod now; assigned if it has a node.
        old_request: what it asked for, by resource, in any unit.
        new_request: what it asks for, in the same units.
    """
    resource = ASSIGNED_POD if new.spec.node_name else UNSCHEDULED_POD
    less = any(new_request.get(name, 0) < amount for name, amount in old_request.items())
    changed = {
        Action.UPDATE_POD_LABEL: old.metadata.labels != new.metadata.labels,
        Action.UPDATE_POD_SCALE_DOWN: less,
        Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED: bool(old.spec.scheduling_gates)
        and not new.spec.scheduling_gates,
        # The API server lets tolerations only be added.
        Action.UPDATE_POD_TOLERATION: len(old.spec.tolerations) != len(new.spec.tolerations),
    }
    actions = [action for action, is_so in changed.items() if is_so]
    return [ClusterEvent(resource, action) for action in actions or [Action.UPDATE_OTHER]]


OWN = "the pod itself"
"""In place of a plugin among those that rejected a pod: something is written on it that nobody can
read, and only another state of it will help."""


def own_events() -> tuple[HintedEvent, ...]:
    """What wakes pods that :data:`OWN` rejected: that they say something else now."""
    changes = Action.UPDATE & ~(Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_LABEL)
    return (HintedEvent(ClusterEvent(UNSCHEDULED_POD, changes), _says_else),)


def _says_else(pod: Any, old: Any, new: Any) -> bool:
    if new is None or new.uid != pod.uid:
        return False
    return old is None or old.shape is not new.shape


def node_events(old: Node, new: Node) -> list[ClusterEvent]:
    """What an update of a node changed for scheduling; often nothing."""
    before, now = old.spec, new.spec
    made_schedulable = before.unschedulable and not now.unschedulable
    changed = {
        Action.UPDATE_NODE_TAINT: made_schedulable or before.taints != now.taints,
        Action.UPDATE_NODE_ALLOCATABLE: old.status.allocatable != new.status.allocatable,
        Action.UPDATE_NODE_LABEL: old.metadata.labels != new.metadata.labels,
        Action.UPDATE_NODE_CONDITION: _conditions(old) != _conditions(new),
        Action.UPDATE_NODE_ANNOTATION: old.metadata.annotations != new.metadata.annotations,
    }
    return [ClusterEvent(NODE, action) for action, is_so in changed.items() if is_so]


def _conditions(node: Node) -> dict[str, str]:
    """Conditions without their heartbeats."""
    return {condition.type: condition.status for condition in node.status.conditions}


def _action_text(action: int) -> str:
    """``UpdateNodeTaint`` of UPDATE_NODE_TAINT; of several, their names joined."""
    known = Action(action)
    if known.name is not None and "|" not in known.name:
        return "".join(word.capitalize() for word in known.name.split("_"))
    return "|".join(_action_text(single) for single in known)
