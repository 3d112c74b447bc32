# SPDX-License-Identifier: Apache-2.0
"""ReplicaSet: as many pods as asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.base.documents import Document
from koord.controlplane.controllers.base import conditions, pods
from koord.controlplane.controllers.base.objects import POD, REPLICA_SET, selector_of
from koord.controlplane.controllers.base.plans import Create, Plan, delete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.pod import Pod
    from koord.controlplane.controllers.base.objects import Owner

# Creates and deletes of one round, so that one owner does not starve the others.
BURST = 500


def plan(
    owner: Owner, candidates: Sequence[Pod], related: Sequence[Pod], now: float, failure: str = ""
) -> Plan:
    """What a ReplicaSet needs.

    Args:
        owner: the ReplicaSet.
        candidates: pods it controls, and pods of its namespace that nobody does.
        related: pods of its siblings, the ReplicaSets of the same Deployment.
        now: wall seconds.
        failure: why the last round's writes failed; empty if they did not.
    """
    selector = selector_of(owner.spec.get("selector"))
    mine, patches = pods.claim(owner, REPLICA_SET, selector, candidates)
    active = [pod for pod in mine if pods.is_active(pod)]
    result = Plan(list(patches))
    surplus = len(active) - owner.spec.get("replicas", 1)
    if owner.metadata.deletion_timestamp is None:
        if surplus < 0:
            pod = pods.from_template(owner.spec["template"], owner, REPLICA_SET)
            result.actions += [Create(POD, pod)] * min(-surplus, BURST)
        elif surplus > 0:
            order = pods.deletion_order(active, [*active, *related], now)
            result.actions += [delete(POD, pod) for pod in order[: min(surplus, BURST)]]
    result.status = _status(owner, mine, active, now, failure)
    result.again(pods.soonest_available(active, owner.spec.get("minReadySeconds", 0), now))
    return result


def _status(
    owner: Owner, mine: Sequence[Pod], active: Sequence[Pod], now: float, failure: str
) -> Document:
    template_labels = owner.spec["template"].get("metadata", {}).get("labels", {})
    minimum = owner.spec.get("minReadySeconds", 0)
    labelled = sum(template_labels.items() <= pod.metadata.labels.items() for pod in active)
    status: Document = {
        "replicas": len(active),
        "fullyLabeledReplicas": labelled,
        "readyReplicas": sum(pods.is_ready(pod) for pod in active),
        "availableReplicas": sum(pods.is_available(pod, minimum, now) for pod in active),
        "terminatingReplicas": sum(
            pod.metadata.deletion_timestamp is not None and not pods.is_finished(pod)
            for pod in mine
        ),
        "observedGeneration": owner.metadata.generation,
    }
    known = owner.status.get("conditions", [])
    if failure:
        reason = "FailedCreate" if len(active) < owner.spec.get("replicas", 1) else "FailedDelete"
        failed = conditions.condition("ReplicaFailure", True, reason, failure)
        known = conditions.put(known, failed, now)
    else:
        known = conditions.without(known, "ReplicaFailure")
    if known:
        status["conditions"] = known
    return status


def selects(owner: Owner, pod: Pod) -> bool:
    """Whether an owner's selector matches a pod."""
    return selectors.matches(selector_of(owner.spec.get("selector")), pod.metadata.labels)
