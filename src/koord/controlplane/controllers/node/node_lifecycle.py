# SPDX-License-Identifier: Apache-2.0
"""Nodes that fall silent: conditions, taints, and the pods that must leave."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.api import codec
from koord.api.kinds.constraints import Taint
from koord.api.tolerations import covers
from koord.controlplane.controllers.base import constraints, pods
from koord.controlplane.controllers.base.objects import NODE, POD, seconds_of, timestamp
from koord.controlplane.controllers.base.plans import ObjectEvent, Plan, delete, patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.kinds.node import Node, NodeCondition
    from koord.api.kinds.pod import Pod
    from koord.base.documents import Document
    from koord.controlplane.controllers.base.plans import Action

# Defaults of kube-controller-manager 1.35.
GRACE_SECONDS = 50.0
STARTUP_GRACE_SECONDS = 60.0

_PREFIX = "node.kubernetes.io/"
NOT_READY, UNREACHABLE = _PREFIX + "not-ready", _PREFIX + "unreachable"
# Condition type to the taint that its being True calls for.
_PRESSURES = {
    "MemoryPressure": _PREFIX + "memory-pressure",
    "DiskPressure": _PREFIX + "disk-pressure",
    "PIDPressure": _PREFIX + "pid-pressure",
    "NetworkUnavailable": _PREFIX + "network-unavailable",
}
_REPORTED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_OURS = frozenset({NOT_READY, UNREACHABLE, constraints.UNSCHEDULABLE, *_PRESSURES.values()})


@dataclass(frozen=True)
class Heartbeat:
    """The last sign of life of a node.

    Attributes:
        of: lease renewal and heartbeat that were seen; compared only.
        seen: when they were first seen, by our own clock.
    """

    of: tuple[str, str]
    seen: float


def sign(node: Node, renewed: str, last: Heartbeat | None, now: float) -> Heartbeat:
    """The node's sign of life as of now: the last one, unless it has renewed something.

    Args:
        node: the node.
        renewed: ``spec.renewTime`` of its lease; empty for none.
        last: what this function gave before.
        now: wall seconds of the caller, whose clock alone counts.
    """
    ready = condition_of(node, "Ready")
    heartbeat = str(ready.last_heartbeat_time or "") if ready else ""
    seen = (renewed, heartbeat)
    return last if last is not None and last.of == seen else Heartbeat(seen, now)


def plan(node: Node, on_node: Iterable[Pod], alive: Heartbeat, now: float) -> Plan:
    """What a node and its pods need.

    Args:
        node: the node.
        on_node: its pods.
        alive: its last sign of life.
        now: wall seconds.
    """
    result = Plan()
    ready = condition_of(node, "Ready")
    grace = GRACE_SECONDS if ready else STARTUP_GRACE_SECONDS
    left = alive.seen + grace - now
    if left > 0:
        result.again(left)
    else:
        result.actions += _silent(node, now)
    # A node that has said nothing yet is left alone, as by kube-controller-manager.
    status = ready.status if ready else "True"
    if left <= 0:
        status = "Unknown"
    result.actions += _tainted(node, status, now)
    if status != "True" and ready:
        result.actions += [action for pod in on_node for action in _not_ready(pod, now)]
    return result


def condition_of(node: Node, condition_type: str) -> NodeCondition | None:
    """The node's condition of a type."""
    return next((c for c in node.status.conditions if c.type == condition_type), None)


def _silent(node: Node, now: float) -> list[Action]:
    changed: list[Document] = []
    for name in _REPORTED:
        known = condition_of(node, name)
        if known and known.status == "Unknown":
            continue
        created = node.metadata.creation_timestamp
        heartbeat = known.last_heartbeat_time if known else created
        changed.append(
            {
                "type": name,
                "status": "Unknown",
                "reason": "NodeStatusUnknown" if known else "NodeStatusNeverUpdated",
                "message": "Kubelet stopped posting node status."
                if known
                else "Kubelet never posted node status.",
                "lastHeartbeatTime": timestamp(seconds_of(heartbeat)),
                "lastTransitionTime": timestamp(now),
            }
        )
    if not changed:
        return []
    name = node.metadata.name
    body = {"status": {"conditions": changed}}
    told = ObjectEvent("NodeNotReady", f"Node {name} status is now: NodeNotReady")
    return [patch(NODE, node, body, subresource="status", strategic=True), told]


def _tainted(node: Node, ready: str, now: float) -> list[Action]:
    """Brings the taints that speak of conditions in line; others stay."""
    wanted: list[tuple[str, str]] = []
    if ready != "True":
        key = NOT_READY if ready == "False" else UNREACHABLE
        wanted += [(key, constraints.NO_SCHEDULE), (key, constraints.NO_EXECUTE)]
    for name, key in _PRESSURES.items():
        found = condition_of(node, name)
        if found and found.status == "True":
            wanted.append((key, constraints.NO_SCHEDULE))
    if node.spec.unschedulable:
        wanted.append((constraints.UNSCHEDULABLE, constraints.NO_SCHEDULE))
    kept = [
        taint
        for taint in node.spec.taints
        if taint.key not in _OURS or (taint.key, taint.effect) in wanted
    ]
    known = {(taint.key, taint.effect) for taint in kept}
    documents = [codec.to_document(taint) for taint in kept]
    added = [
        {"key": key, "effect": effect, "timeAdded": timestamp(now)}
        for key, effect in wanted
        if (key, effect) not in known
    ]
    if not added and len(kept) == len(node.spec.taints):
        return []
    version = {"resourceVersion": node.metadata.resource_version}
    body = {"metadata": version, "spec": {"taints": [*documents, *added] or None}}
    return [patch(NODE, node, body)]


def _not_ready(pod: Pod, now: float) -> list[Action]:
    if not pods.is_ready(pod):
        return []
    changed = {"type": "Ready", "status": "False", "lastTransitionTime": timestamp(now)}
    body = {"status": {"conditions": [changed]}}
    return [patch(POD, pod, body, subresource="status", strategic=True)]


def eviction_in(pod: Pod, taints: Sequence[Taint], now: float) -> float | None:
    """Seconds until a pod must leave its node for its NoExecute taints; None for never.

    Args:
        pod: a pod on the node.
        taints: of the node.
        now: wall seconds.
    """
    waits = []
    for taint in taints:
        if taint.effect != constraints.NO_EXECUTE:
            continue
        matching = [t for t in pod.spec.tolerations if covers(t, taint)]
        if not matching:
            return 0.0
        if matching[0].toleration_seconds is not None:
            since = seconds_of(taint.time_added) if taint.time_added else now
            waits.append(max(0.0, since + matching[0].toleration_seconds - now))
    return min(waits, default=None)


def evict(node: Node, on_node: Iterable[Pod], now: float) -> Plan:
    """Deletes the pods whose time on a tainted node is over."""
    result = Plan()
    for pod in on_node:
        if pod.metadata.deletion_timestamp is not None:
            continue
        wait = eviction_in(pod, node.spec.taints, now)
        if wait == 0:
            said = "Taint manager: deleting due to NoExecute taint"
            result.actions += [
                disrupted(pod, "DeletionByTaintManager", said, now), delete(POD, pod)
            ]  # fmt: skip
        else:
            result.again(wait)
    return result


def disrupted(pod: Pod, reason: str, message: str, now: float, **status: str) -> Action:
    """Writes down why a pod is about to be deleted."""
    target = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": timestamp(now),
    }
    body = {"status": {"conditions": [target], **status}}
    return patch(POD, pod, body, subresource="status", strategic=True)
