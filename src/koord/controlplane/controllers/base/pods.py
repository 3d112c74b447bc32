# SPDX-License-Identifier: Apache-2.0
"""What all owners of pods ask of a pod, how they make one, and which goes first."""

from __future__ import annotations

import copy
import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from koord.api import selectors
from koord.base.documents import Document
from koord.controlplane.controllers.base.objects import (
    POD,
    controller_of,
    controller_reference,
    seconds_of,
)
from koord.controlplane.controllers.base.plans import PatchAction, patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.kinds.meta import LabelSelector, Object
    from koord.api.kinds.pod import Pod, PodCondition
    from koord.api.kinds.registry import Kind

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def is_finished(pod: Pod) -> bool:
    """Whether all containers have ended for good."""
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Whether a pod still counts as a replica."""
    return not is_finished(pod) and pod.metadata.deletion_timestamp is None


def condition_of(pod: Pod, condition_type: str) -> PodCondition | None:
    """The pod's condition of a type."""
    return next((c for c in pod.status.conditions if c.type == condition_type), None)


def is_ready(pod: Pod) -> bool:
    """Whether the pod serves."""
    found = condition_of(pod, "Ready")
    return found is not None and found.status == "True"


def ready_since(pod: Pod) -> float:
    """When the pod became ready, in wall seconds; 0 for a pod that is not."""
    found = condition_of(pod, "Ready")
    if found is None or found.status != "True":
        return 0.0
    return seconds_of(found.last_transition_time)


def available_in(pod: Pod, min_ready_seconds: int, now: float) -> float | None:
    """Seconds until the pod has been ready long enough; 0 if it has, None if it is not ready."""
    if not is_ready(pod):
        return None
    if not min_ready_seconds:
        return 0.0
    return max(0.0, ready_since(pod) + min_ready_seconds - now)


def is_available(pod: Pod, min_ready_seconds: int, now: float) -> bool:
    """Whether the pod has been ready for ``min_ready_seconds``."""
    return available_in(pod, min_ready_seconds, now) == 0.0


def soonest_available(pods: Iterable[Pod], min_ready_seconds: int, now: float) -> float | None:
    """Seconds until the next pod becomes available; None if none is on its way."""
    waits = (available_in(pod, min_ready_seconds, now) for pod in pods)
    return min((wait for wait in waits if wait), default=None)


def from_template(
    template: Document, owner: Object, kind: Kind, labels: dict[str, str] | None = None
) -> Document:
    """A pod as its owner's template describes it, named after the owner.

    Args:
        template: ``spec.template``; not changed, nor shared with the result.
        owner: whose pod it is.
        kind: the owner's.
        labels: put over those of the template.
    """
    pod = copy.deepcopy(template)
    metadata = {k: v for k, v in pod.get("metadata", {}).items() if k in ("annotations", "labels")}
    metadata["finalizers"] = list(pod.get("metadata", {}).get("finalizers", []))
    metadata["labels"] = {**metadata.get("labels", {}), **(labels or {})}
    metadata["namespace"] = owner.metadata.namespace
    metadata["generateName"] = f"{owner.metadata.name}-"
    metadata["ownerReferences"] = [controller_reference(owner, kind)]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod.get("spec", {})}


def claim(
    owner: Object,
    kind: Kind,
    selector: LabelSelector | None,
    candidates: Iterable[Any],
    of: Kind = POD,
) -> tuple[list[Any], list[PatchAction]]:
    """Which objects are the owner's, and the patches that adopt orphans and release strangers.

    An owner that is being deleted keeps what it has and adopts nothing.

    Args:
        owner: who claims.
        kind: the owner's.
        selector: the owner's.
        candidates: objects that the owner controls, and orphans of its namespace.
        of: kind of the candidates.
    """
    mine: list[Any] = []
    patches: list[PatchAction] = []
    deleting = owner.metadata.deletion_timestamp is not None
    for candidate in candidates:
        metadata = candidate.metadata
        reference = controller_of(metadata)
        fits = selectors.matches(selector, metadata.labels)
        if reference is not None and reference.uid == owner.metadata.uid:
            if fits or deleting:
                mine.append(candidate)
            else:
                gone = {"$patch": "delete", "uid": owner.metadata.uid}
                patches.append(_references(of, candidate, gone))
        elif reference is None and fits and not deleting and metadata.deletion_timestamp is None:
            mine.append(candidate)
            patches.append(_references(of, candidate, controller_reference(owner, kind)))
    return mine, patches


def _references(kind: Kind, target: Object, reference: Document) -> PatchAction:
    return patch(kind, target, {"metadata": {"ownerReferences": [reference]}}, strategic=True)


def deletion_order(pods: Sequence[Pod], related: Iterable[Pod], now: float) -> list[Pod]:
    """Pods in the order in which an owner gives them up (client-go's ``ActivePodsWithRanks``).

    Unassigned before assigned, pending before unknown before running, not ready before ready, low
    deletion cost first, more crowded nodes first, ready for a shorter time first, more restarts
    first, younger first; times count by powers of two. Last, by uid.

    Args:
        pods: to be ordered.
        related: active pods of the owner and of its siblings; they crowd nodes.
        now: wall seconds.
    """
    crowd = Counter(pod.spec.node_name for pod in related if is_active(pod))

    def rank(pod: Pod) -> tuple[Any, ...]:
        ready = is_ready(pod)
        return (
            bool(pod.spec.node_name),
            _PHASES.get(pod.status.phase, 1),
            ready,
            deletion_cost(pod),
            -crowd[pod.spec.node_name],
            _magnitude(now - ready_since(pod)) if ready else 0,
            -max((c.restart_count for c in pod.status.container_statuses), default=0),
            _magnitude(now - seconds_of(pod.metadata.creation_timestamp)),
            pod.metadata.uid,
        )

    return sorted(pods, key=rank)


def deletion_cost(pod: Pod) -> int:
    """What the owner's user says a pod is worth; 0 for nothing or no number."""
    text = pod.metadata.annotations.get(_DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _magnitude(seconds: float) -> int:
    return int(math.log2(seconds)) if seconds > 1 else 0
