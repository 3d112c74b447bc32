# SPDX-License-Identifier: Apache-2.0
"""StatefulSet: pods with names that stay, one after the other."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.objects import (
    CLAIM,
    POD,
    STATEFUL_SET,
    Owner,
    Revision,
    scaled,
    selector_of,
)
from koord.controlplane.controllers.base.plans import Create, Plan, delete
from koord.controlplane.controllers.workload import claim_retention, templates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.storage import PersistentVolumeClaim
    from koord.controlplane.controllers.base.plans import Action

_POD_NAME = "statefulset.kubernetes.io/pod-name"
_POD_INDEX = "apps.kubernetes.io/pod-index"
# How soon is looked again whether claims of the pod before have gone.
_ENDING_SECONDS = 1.0


@dataclass
class _StatefulSetState:
    """A StatefulSet, its revisions and its pods by ordinal."""

    owner: Owner
    current: Revision
    update: Revision
    pods: dict[int, Pod]
    claims: Mapping[str, PersistentVolumeClaim]
    now: float

    @property
    def start(self) -> int:
        start: int = (self.owner.spec.get("ordinals") or {}).get("start", 0)
        return start

    @property
    def replicas(self) -> int:
        replicas: int = self.owner.spec.get("replicas", 1)
        return replicas

    @property
    def wanted(self) -> range:
        return range(self.start, self.start + self.replicas)

    @property
    def ordered(self) -> bool:
        return self.owner.spec.get("podManagementPolicy") != "Parallel"

    @property
    def rolling(self) -> Document:
        rolling: Document = (self.owner.spec.get("updateStrategy") or {}).get("rollingUpdate") or {}
        return rolling

    def is_available(self, pod: Pod) -> bool:
        minimum = self.owner.spec.get("minReadySeconds", 0)
        return pod.status.phase == "Running" and pods.is_available(pod, minimum, self.now)

    def is_held_back(self, ordinal: int) -> bool:
        """Whether a pod is not there and has claims that are about to go."""
        name = f"{self.owner.metadata.name}-{ordinal}"
        return ordinal not in self.pods and claim_retention.is_ending(self.owner, name, self.claims)

    def is_healthy(self, ordinal: int) -> bool:
        pod = self.pods.get(ordinal)
        return pod is not None and pods.is_active(pod) and self.is_available(pod)


def plan(
    owner: Owner,
    candidates: Sequence[Pod],
    known: Sequence[Revision],
    claims: Mapping[str, PersistentVolumeClaim],
    now: float,
) -> Plan:
    """What a StatefulSet needs.

    Args:
        owner: the StatefulSet.
        candidates: pods it controls, and pods of its namespace that nobody does.
        known: the revisions it controls.
        claims: those of its namespace, by name.
        now: wall seconds.
    """
    selector = selector_of(owner.spec.get("selector"))
    named = [pod for pod in candidates if ordinal_of(owner, pod) is not None]
    mine, patches = pods.claim(owner, STATEFUL_SET, selector, named)
    by_ordinal = {ordinal_of(owner, pod) or 0: pod for pod in mine}
    ordered, update, actions = templates.revisions(owner, STATEFUL_SET, known)
    name = owner.status.get("currentRevision")
    current = next((r for r in ordered if r.metadata.name == name), update)
    state = _StatefulSetState(owner, current, update, by_ordinal, claims, now)
    result = Plan([*patches])
    if owner.metadata.deletion_timestamp is None:
        result.actions += claim_retention.changes(owner, by_ordinal, state.wanted, claims)
        result.actions += [*actions, *_steps(state)]
        if any(state.is_held_back(ordinal) for ordinal in state.wanted):
            result.again(_ENDING_SECONDS)
        live = {current.metadata.name, update.metadata.name}
        live |= {pod.metadata.labels.get(templates.REVISION_HASH, "") for pod in mine}
        limit = owner.spec.get("revisionHistoryLimit")
        result.actions += templates.outdated(ordered, live, limit)
    result.status = _status(state)
    result.again(pods.soonest_available(mine, owner.spec.get("minReadySeconds", 0), now))
    return result


def ordinal_of(owner: Owner, pod: Pod) -> int | None:
    """The number at the end of a pod's name; None if the pod is not named after the owner."""
    parent, _, number = pod.metadata.name.rpartition("-")
    return int(number) if parent == owner.metadata.name and number.isdecimal() else None


def _steps(state: _StatefulSetState) -> list[Action]:
    actions: list[Action] = []
    for ordinal in state.wanted:
        step, wait = _replica(state, ordinal)
        actions += step
        if wait and state.ordered:
            return actions
    condemned = sorted(state.pods.keys() - set(state.wanted), reverse=True)
    unhealthy = [n for n in (*state.wanted, *reversed(condemned)) if not state.is_healthy(n)]
    for ordinal in condemned:
        pod = state.pods[ordinal]
        if pod.metadata.deletion_timestamp is None:
            if state.ordered and not state.is_healthy(ordinal) and ordinal != unhealthy[0]:
                return actions
            actions.append(delete(POD, pod))
        if state.ordered:
            return actions
    if not actions and state.owner.spec.get("updateStrategy", {}).get("type") != "OnDelete":
        actions += _updates(state)
    return actions


def _replica(state: _StatefulSetState, ordinal: int) -> tuple[list[Action], bool]:
    """The step for one wanted pod, and whether those after it must wait."""
    pod = state.pods.get(ordinal)
    if pod is None and state.is_held_back(ordinal):
        return [], True
    if pod is None:
        document = _pod(state, ordinal)
        return [*_claims(state, ordinal), Create(POD, document)], True
    if pods.is_finished(pod):
        gone = pod.metadata.deletion_timestamp is not None
        return ([] if gone else [delete(POD, pod)]), True
    return [], not state.is_healthy(ordinal)


def _updates(state: _StatefulSetState) -> list[Action]:
    """Deletes outdated pods, highest first, as far as missing ones allow."""
    most = scaled(state.rolling.get("maxUnavailable"), state.replicas, True, 1)
    spare = max(1, most) - sum(not state.is_healthy(ordinal) for ordinal in state.wanted)
    actions: list[Action] = []
    first = state.start + (state.rolling.get("partition") or 0)
    for ordinal in reversed(state.wanted):
        if ordinal < first or spare <= 0:
            break
        pod = state.pods[ordinal]
        outdated = pod.metadata.labels.get(templates.REVISION_HASH) != state.update.metadata.name
        if outdated and pod.metadata.deletion_timestamp is None:
            actions.append(delete(POD, pod))
            spare -= 1
    return actions


def _pod(state: _StatefulSetState, ordinal: int) -> Document:
    owner = state.owner
    revision = state.current if _keeps_current(state, ordinal) else state.update
    template = {k: v for k, v in revision.data["spec"]["template"].items() if k != "$patch"}
    name = f"{owner.metadata.name}-{ordinal}"
    labels = {
        _POD_NAME: name,
        _POD_INDEX: str(ordinal),
        templates.REVISION_HASH: revision.metadata.name,
    }
    pod = pods.from_template(template, owner, STATEFUL_SET, labels)
    pod["metadata"]["name"] = name
    spec = pod["spec"]
    spec["hostname"] = name
    if owner.spec.get("serviceName"):
        spec["subdomain"] = owner.spec["serviceName"]
    claims = {
        claim["metadata"]["name"]: claim_retention.claim_name(claim, name)
        for claim in owner.spec.get("volumeClaimTemplates", [])
    }
    if claims:
        volumes = [v for v in spec.get("volumes", []) if v["name"] not in claims]
        spec["volumes"] = volumes + [
            {"name": volume, "persistentVolumeClaim": {"claimName": claim}}
            for volume, claim in claims.items()
        ]
    return pod


def _keeps_current(state: _StatefulSetState, ordinal: int) -> bool:
    """Whether a pod made now still belongs to the old revision."""
    return ordinal < state.start + int(state.rolling.get("partition") or 0)


def _claims(state: _StatefulSetState, ordinal: int) -> list[Action]:
    owner = state.owner
    selected = (owner.spec.get("selector") or {}).get("matchLabels") or {}
    actions: list[Action] = []
    for template in owner.spec.get("volumeClaimTemplates", []):
        claim = copy.deepcopy(template)
        claim.pop("status", None)
        labels = {**(claim["metadata"].get("labels") or {}), **selected}
        name = claim_retention.claim_name(template, f"{owner.metadata.name}-{ordinal}")
        annotations = claim["metadata"].get("annotations") or {}
        namespace = owner.metadata.namespace
        claim["metadata"] = {"name": name, "namespace": namespace, "labels": labels}
        if (holder := claim_retention.reference(owner)) is not None:
            claim["metadata"]["ownerReferences"] = [holder]
        if annotations:
            claim["metadata"]["annotations"] = annotations
        claim.update(apiVersion="v1", kind="PersistentVolumeClaim")
        actions.append(Create(CLAIM, claim, exists_ok=True))
    return actions


def _status(state: _StatefulSetState) -> Document:
    owner, all_pods = state.owner, list(state.pods.values())
    running = [pod for pod in all_pods if pod.status.phase == "Running"]
    live = [pod for pod in all_pods if pod.metadata.deletion_timestamp is None and pod.status.phase]

    def of(revision: Revision) -> int:
        name = revision.metadata.name
        return sum(pod.metadata.labels.get(templates.REVISION_HASH) == name for pod in live)

    status = {
        "observedGeneration": owner.metadata.generation,
        "replicas": sum(bool(pod.status.phase) for pod in all_pods),
        "readyReplicas": sum(pods.is_ready(pod) for pod in running),
        "availableReplicas": sum(state.is_available(pod) for pod in running),
        "currentReplicas": of(state.current),
        "updatedReplicas": of(state.update),
        "currentRevision": state.current.metadata.name,
        "updateRevision": state.update.metadata.name,
        "collisionCount": owner.status.get("collisionCount") or 0,
    }
    done = (status["updatedReplicas"], status["readyReplicas"], status["replicas"])
    kind = (owner.spec.get("updateStrategy") or {}).get("type", "RollingUpdate")
    if kind == "RollingUpdate" and all(count == state.replicas for count in done):
        status["currentReplicas"] = status["updatedReplicas"]
        status["currentRevision"] = status["updateRevision"]
    if owner.status.get("conditions"):
        status["conditions"] = owner.status["conditions"]
    return status
