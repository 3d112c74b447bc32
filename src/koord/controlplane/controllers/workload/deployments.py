# SPDX-License-Identifier: Apache-2.0
"""Deployment: one ReplicaSet a template, and the way from one to the next."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.objects import (
    DEPLOYMENT,
    REPLICA_SET,
    Owner,
    controller_of,
    controller_reference,
    oldest_first,
    seconds_of,
    selector_of,
)
from koord.controlplane.controllers.base.plans import (
    Action,
    Create,
    ObjectEvent,
    Plan,
    delete,
    patch,
)
from koord.controlplane.controllers.workload import deployment_status, templates
from koord.controlplane.controllers.workload.rollout import (
    ReplicaSetSize,
    RolloutBounds,
    grown,
    proportional,
    shrunk,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.pod import Pod

REVISION = "deployment.kubernetes.io/revision"
_HISTORY = "deployment.kubernetes.io/revision-history"
_DESIRED = "deployment.kubernetes.io/desired-replicas"
_MAXIMUM = "deployment.kubernetes.io/max-replicas"
_OWN = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        _HISTORY,
        _DESIRED,
        _MAXIMUM,
    }
)
_HISTORY_CHARACTERS = 2000
_LONGEST_NAME = 253


@dataclass
class _Rollout:
    """A Deployment and its ReplicaSets, sorted out."""

    owner: Owner
    bounds: RolloutBounds
    new: Owner | None
    old: list[Owner]

    @property
    def all(self) -> list[Owner]:
        return [*self.old, self.new] if self.new else list(self.old)


def plan(owner: Owner, candidates: Sequence[Owner], running: Sequence[Pod], now: float) -> Plan:
    """What a Deployment needs.

    Args:
        owner: the Deployment.
        candidates: ReplicaSets it controls, and those of its namespace that nobody does.
        running: pods of its ReplicaSets (Recreate waits for them to end).
        now: wall seconds.
    """
    selector = selector_of(owner.spec.get("selector"))
    mine, patches = pods.claim(owner, DEPLOYMENT, selector, candidates, REPLICA_SET)
    rollout = _sorted_out(owner, mine)
    result = Plan(list(patches))
    if owner.metadata.deletion_timestamp is None:
        result.actions += _steps(rollout, running)
        if owner.spec.get("paused") or _is_complete(rollout):
            result.actions += _history(rollout)
    deployment_status.put(result, owner, rollout.new, rollout.all, rollout.bounds, now)
    return result


def _sorted_out(owner: Owner, replica_sets: Sequence[Owner]) -> _Rollout:
    ordered = oldest_first(replica_sets)
    template = owner.spec["template"]
    new = next((rs for rs in ordered if templates.same(rs.spec["template"], template)), None)
    old = [rs for rs in ordered if rs is not new]
    return _Rollout(owner, RolloutBounds.of(owner.spec), new, old)


def _steps(rollout: _Rollout, running: Sequence[Pod]) -> list[Action]:
    owner = rollout.owner
    actions = _revised(rollout)
    active = [rs for rs in rollout.all if rs.spec.get("replicas", 1) > 0]
    resized = any(
        int(rs.metadata.annotations.get(_DESIRED, rollout.bounds.replicas))
        != rollout.bounds.replicas
        for rs in active
    )
    if owner.spec.get("paused") or resized:
        return actions + _rescaled(rollout)
    if (owner.spec.get("strategy") or {}).get("type") == "Recreate":
        return actions + _recreated(rollout, running)
    return actions + _rolled(rollout)


def _rolled(rollout: _Rollout) -> list[Action]:
    if rollout.new is None:
        return _created(rollout)
    total = sum(rs.spec.get("replicas", 1) for rs in rollout.all)
    size = grown(rollout.new.spec.get("replicas", 1), total, rollout.bounds)
    actions = _sized(rollout, rollout.new, size)
    if actions:
        return actions
    sizes = shrunk([_size(rs) for rs in rollout.old], _size(rollout.new), rollout.bounds)
    for replica_set, size in zip(rollout.old, sizes, strict=True):
        actions += _sized(rollout, replica_set, size)
    return actions


def _recreated(rollout: _Rollout, running: Sequence[Pod]) -> list[Action]:
    actions: list[Action] = []
    for replica_set in rollout.old:
        actions += _sized(rollout, replica_set, 0)
    if actions:
        return actions
    new_uid = rollout.new.metadata.uid if rollout.new else ""
    for pod in running:
        owner = controller_of(pod.metadata)
        if owner and owner.uid != new_uid and not pods.is_finished(pod):
            return []
    if rollout.new is None:
        return _created(rollout)
    return _sized(rollout, rollout.new, rollout.bounds.replicas)


def _rescaled(rollout: _Rollout) -> list[Action]:
    """Sizes after scaling, or while paused: what there is keeps its proportions."""
    bounds, new = rollout.bounds, rollout.new
    active = [rs for rs in rollout.all if rs.spec.get("replicas", 1) > 0]
    if len(active) <= 1:
        only = active[0] if active else new or (rollout.old[-1] if rollout.old else None)
        return _sized(rollout, only, bounds.replicas) if only else []
    if new and _is_saturated(new, bounds):
        return [action for rs in rollout.old for action in _sized(rollout, rs, 0)]
    if (rollout.owner.spec.get("strategy") or {}).get("type") == "Recreate":
        return []
    total = sum(rs.spec.get("replicas", 1) for rs in active)
    newer_first = bounds.most >= total if bounds.replicas else False
    sign = -1 if newer_first else 1
    active.sort(
        key=lambda rs: (
            -rs.spec.get("replicas", 1),
            sign * seconds_of(rs.metadata.creation_timestamp),
            rs.metadata.name,
        )
    )
    before = rollout.owner.status.get("replicas", 0)
    sizes = proportional([_size(rs) for rs in active], before, bounds)
    return [
        action
        for rs, size in zip(active, sizes, strict=True)
        for action in _sized(rollout, rs, size)
    ]


def _created(rollout: _Rollout) -> list[Action]:
    owner, bounds = rollout.owner, rollout.bounds
    template = copy.deepcopy(owner.spec["template"])
    suffix = templates.hash_of(template, owner.status.get("collisionCount") or 0)
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), templates.TEMPLATE_HASH: suffix}
    selector = copy.deepcopy(owner.spec["selector"])
    labels = {**(selector.get("matchLabels") or {}), templates.TEMPLATE_HASH: suffix}
    selector["matchLabels"] = labels
    size = grown(0, sum(rs.spec.get("replicas", 1) for rs in rollout.old), bounds)
    name = f"{owner.metadata.name[: _LONGEST_NAME - 1 - len(suffix)]}-{suffix}"
    annotations = _inherited(owner)
    annotations.update(_limits(bounds) | {REVISION: str(_next_revision(rollout))})
    document = {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.name,
        "metadata": {
            "name": name,
            "namespace": owner.metadata.namespace,
            "labels": dict(metadata["labels"]),
            "annotations": annotations,
            "ownerReferences": [controller_reference(owner, DEPLOYMENT)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": owner.spec.get("minReadySeconds", 0),
            "selector": selector,
            "template": template,
        },
    }
    actions: list[Action] = [Create(REPLICA_SET, document)]
    if size:
        actions.append(
            ObjectEvent("ScalingReplicaSet", f"Scaled up replica set {name} from 0 to {size}")
        )
    return actions


def _revised(rollout: _Rollout) -> list[Action]:
    """Revision numbers: the present template's is the highest, and the Deployment's own."""
    new, owner = rollout.new, rollout.owner
    if new is None:
        return []
    actions: list[Action] = []
    annotations = new.metadata.annotations
    wanted = _inherited(owner) | _limits(rollout.bounds)
    revision, number = annotations.get(REVISION, ""), _next_revision(rollout)
    if _number(revision) < number:
        wanted[REVISION] = str(number)
        if revision:
            wanted[_HISTORY] = _recorded(annotations.get(_HISTORY, ""), revision)
        revision = str(number)
    if new.spec.get("replicas", 1) and annotations.get(_DESIRED) != wanted[_DESIRED]:
        # Stays until the sizes have followed: by it a change of size is recognised.
        wanted = {k: v for k, v in wanted.items() if k not in (_DESIRED, _MAXIMUM)}
    changed = {k: v for k, v in wanted.items() if annotations.get(k) != v}
    body: Document = {"metadata": {"annotations": changed}} if changed else {}
    minimum = owner.spec.get("minReadySeconds", 0)
    if new.spec.get("minReadySeconds", 0) != minimum:
        body["spec"] = {"minReadySeconds": minimum}
    if body:
        actions.append(patch(REPLICA_SET, new, body))
    if owner.metadata.annotations.get(REVISION) != revision:
        own = {"metadata": {"annotations": {REVISION: revision}}}
        # As part of the status: otherwise it would count as a new generation.
        actions.append(patch(DEPLOYMENT, owner, own, subresource="status"))
    return actions


def _sized(rollout: _Rollout, replica_set: Owner, size: int) -> list[Action]:
    before = replica_set.spec.get("replicas", 1)
    annotations = replica_set.metadata.annotations
    limits = _limits(rollout.bounds)
    limits = {key: value for key, value in limits.items() if annotations.get(key) != value}
    if before == size and (not limits or size == 0):
        return []
    body: Document = {"spec": {"replicas": size}}
    if limits:
        body["metadata"] = {"annotations": limits}
    actions: list[Action] = [patch(REPLICA_SET, replica_set, body)]
    if before != size:
        way = "up" if before < size else "down"
        name = replica_set.metadata.name
        said = f"Scaled {way} replica set {name} from {before} to {size}"
        actions.append(ObjectEvent("ScalingReplicaSet", said))
    return actions


def _history(rollout: _Rollout) -> list[Action]:
    limit = rollout.owner.spec.get("revisionHistoryLimit", 10)
    alive = [rs for rs in rollout.old if rs.metadata.deletion_timestamp is None]
    alive.sort(key=lambda rs: _number(rs.metadata.annotations.get(REVISION, "")))
    return [
        delete(REPLICA_SET, rs)
        for rs in alive[: max(0, len(alive) - limit)]
        if not rs.spec.get("replicas", 1)
        and not rs.status.get("replicas", 0)
        and rs.status.get("observedGeneration", 0) >= rs.metadata.generation
    ]


def _is_complete(rollout: _Rollout) -> bool:
    new, wanted = rollout.new, rollout.bounds.replicas
    pods_in_all = sum(rs.status.get("replicas", 0) for rs in rollout.all)
    return bool(
        new
        and new.status.get("replicas", 0) == wanted == pods_in_all
        and sum(rs.status.get("availableReplicas", 0) for rs in rollout.all) == wanted
    )


def _is_saturated(new: Owner, bounds: RolloutBounds) -> bool:
    desired = new.metadata.annotations.get(_DESIRED, "")
    return (
        new.spec.get("replicas", 1) == bounds.replicas
        and desired == str(bounds.replicas)
        and new.status.get("availableReplicas", 0) == bounds.replicas
    )


def _size(replica_set: Owner) -> ReplicaSetSize:
    replicas = replica_set.spec.get("replicas", 1)
    return ReplicaSetSize(
        replicas,
        # More are available only until the ReplicaSet has followed its size: they are as good as
        # gone. Kubernetes counts them, and may take too many down.
        min(replicas, replica_set.status.get("availableReplicas", 0)),
        _number(replica_set.metadata.annotations.get(_MAXIMUM, "")),
    )


def _limits(bounds: RolloutBounds) -> dict[str, str]:
    return {_DESIRED: str(bounds.replicas), _MAXIMUM: str(bounds.most)}


def _inherited(owner: Owner) -> dict[str, str]:
    return {k: v for k, v in owner.metadata.annotations.items() if k not in _OWN}


def _next_revision(rollout: _Rollout) -> int:
    numbers = (_number(rs.metadata.annotations.get(REVISION, "")) for rs in rollout.old)
    return 1 + max(numbers, default=0)


def _recorded(history: str, revision: str) -> str:
    entries = [*history.split(","), revision] if history else [revision]
    while len(entries) > 1 and len(",".join(entries)) > _HISTORY_CHARACTERS:
        entries.pop(0)
    return ",".join(entries)


def _number(text: str) -> int:
    return int(text) if text.isdecimal() else 0
