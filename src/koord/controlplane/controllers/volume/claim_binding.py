# SPDX-License-Identifier: Apache-2.0
"""Claims get volumes: those that are there and suit, or new ones that exist by name alone.

kube-controller-manager's persistent volume controller and a provisioner in one, for clusters whose
machines are simulated. What is written, and in which order, is Kubernetes'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.kinds.storage import PersistentVolume, PersistentVolumeClaim
from koord.base.documents import Document
from koord.base.errors import KoordError
from koord.controlplane.controllers.base.objects import CLAIM, POD, VOLUME, controller_reference
from koord.controlplane.controllers.base.plans import Create, ObjectEvent, Plan, delete, patch
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.storage import StorageClass

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
ZONE = "topology.kubernetes.io/zone"
_STORAGE = "storage"
_NOTHING = Quantity()


def claim_plan(
    claim: PersistentVolumeClaim,
    volumes: Sequence[PersistentVolume],
    classes: Mapping[str, StorageClass],
    node_of: Callable[[str], Node | None],
    provisioners: Collection[str] | None = None,
) -> Plan:
    """What a claim needs.

    Args:
        claim: the claim.
        volumes: all volumes, by name.
        classes: by name.
        node_of: a node by name; new volumes are in its zone.
        provisioners: whose volumes are made here; None for everybody's.
    """
    plan = Plan()
    if claim.metadata.deletion_timestamp is not None:
        return plan
    name = claim.spec.volume_name
    if name:
        volume = next((v for v in volumes if v.metadata.name == name), None)
        if volume is None or not _is_for(volume, claim, unclaimed=True):
            if BIND_COMPLETED in claim.metadata.annotations and claim.status.phase != "Lost":
                said = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
                plan.actions.append(ObjectEvent("ClaimLost", said, "Warning"))
                plan.actions.append(patch(CLAIM, claim, {"status": {"phase": "Lost"}}, "status"))
            elif volume is not None and BIND_COMPLETED not in claim.metadata.annotations:
                said = f'volume "{name}" already bound to a different claim.'
                plan.actions.append(ObjectEvent("FailedBinding", said, "Warning"))
            return plan
        wrong = _mismatch(volume, claim) if volume.spec.claim_ref is None else ""
        if wrong:
            said = f'Cannot bind to requested volume "{name}": {wrong}'
            plan.actions.append(ObjectEvent("VolumeMismatch", said, "Warning"))
        else:
            _bind(plan, volume, claim)
        return plan
    found = classes.get(_class_of(claim))
    waits = found is not None and found.volume_binding_mode == "WaitForFirstConsumer"
    volume = _match(claim, volumes, waits)
    if volume is not None:
        _bind(plan, volume, claim)
    elif waits and SELECTED_NODE not in claim.metadata.annotations:
        said = "waiting for first consumer to be created before binding"
        plan.actions.append(ObjectEvent("WaitForFirstConsumer", said))
    elif found is not None and _makes(found, provisioners):
        node = node_of(claim.metadata.annotations.get(SELECTED_NODE, ""))
        plan.actions.append(Create(VOLUME, _new_volume(claim, found, node), exists_ok=True))
        said = f"Successfully provisioned volume pvc-{claim.metadata.uid}"
        plan.actions.append(ObjectEvent("ProvisioningSucceeded", said))
    else:
        plan.actions.append(_why_unbound(claim, found))
    return plan


def volume_plan(
    volume: PersistentVolume, claim: PersistentVolumeClaim | None, is_ours: bool
) -> Plan:
    """What a volume needs, beside what its claim's plan does.

    Args:
        volume: the volume.
        claim: of the name that it is for, if there is one.
        is_ours: whether a provisioner of ours made it.
    """
    plan = Plan()
    if volume.metadata.deletion_timestamp is not None:
        return plan
    reference = volume.spec.claim_ref
    if reference is None or not reference.uid:
        _phase(plan, volume, "Available")
    elif claim is None or claim.metadata.uid != reference.uid:
        policy = volume.spec.persistent_volume_reclaim_policy
        if policy == "Delete" and is_ours:
            plan.actions.append(delete(VOLUME, volume))
        else:
            _phase(plan, volume, "Released")
    return plan


def _why_unbound(claim: PersistentVolumeClaim, storage_class: StorageClass | None) -> ObjectEvent:
    """Why a claim that nothing suits gets no volume made, in the words of Kubernetes."""
    name = _class_of(claim)
    if not name:
        said = "no persistent volumes available for this claim and no storage class is set"
        return ObjectEvent("FailedBinding", said)
    if storage_class is None:
        said = f'storageclass.storage.k8s.io "{name}" not found'
        return ObjectEvent("ProvisioningFailed", said, "Warning")
    if storage_class.provisioner in ("", NO_PROVISIONER):
        said = f"no volume plugin matched name: {storage_class.provisioner}"
        return ObjectEvent("ProvisioningFailed", said, "Warning")
    said = (
        "Waiting for a volume to be created either by the external provisioner "
        f"'{storage_class.provisioner}' or manually by the system administrator. If volume "
        "creation is delayed, please verify that the provisioner is running and correctly "
        "registered."
    )
    return ObjectEvent("ExternalProvisioning", said)


def ephemeral_claims(pod: Pod) -> list[Create]:
    """The claims that a pod's generic ephemeral volumes ask for."""
    made = []
    for volume in pod.spec.volumes:
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if not isinstance(template, dict):
            continue
        given = template.get("metadata") or {}
        metadata: Document = {
            "name": f"{pod.metadata.name}-{volume.get('name', '')}",
            "namespace": pod.metadata.namespace,
            "ownerReferences": [controller_reference(pod, POD)],
        }
        metadata.update({k: given[k] for k in ("labels", "annotations") if given.get(k)})
        spec = template.get("spec") or {}
        document = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata}
        made.append(Create(CLAIM, {**document, "spec": spec}, exists_ok=True))
    return made


def _bind(plan: Plan, volume: PersistentVolume, claim: PersistentVolumeClaim) -> None:
    """Both sides name each other, the volume first: what is to be done next."""
    meta, reference = claim.metadata, volume.spec.claim_ref
    if reference is None or reference.uid != meta.uid:
        body: Document = {
            "metadata": {"resourceVersion": volume.metadata.resource_version},
            "spec": {
                "claimRef": {
                    "apiVersion": "v1",
                    "kind": "PersistentVolumeClaim",
                    "namespace": meta.namespace,
                    "name": meta.name,
                    "uid": meta.uid,
                    "resourceVersion": meta.resource_version,
                }
            },
        }
        if reference is None:
            body["metadata"]["annotations"] = {BOUND_BY_CONTROLLER: "yes"}
        # Writes of a plan go out together: the claim may only follow once the volume is its own.
        plan.actions.append(patch(VOLUME, volume, body))
        return
    _phase(plan, volume, "Bound")
    if claim.spec.volume_name != volume.metadata.name or BIND_COMPLETED not in meta.annotations:
        annotations = {BIND_COMPLETED: "yes"}
        if not claim.spec.volume_name:
            annotations[BOUND_BY_CONTROLLER] = "yes"
        body = {"metadata": {"annotations": annotations}}
        body["spec"] = {"volumeName": volume.metadata.name}
        plan.actions.append(patch(CLAIM, claim, body))
    if claim.status.phase != "Bound":
        status = {
            "phase": "Bound",
            "accessModes": volume.spec.access_modes,
            "capacity": {k: str(q) for k, q in volume.spec.capacity.items()},
        }
        plan.actions.append(patch(CLAIM, claim, {"status": status}, "status"))


def _phase(plan: Plan, volume: PersistentVolume, phase: str) -> None:
    if volume.status.phase != phase:
        plan.actions.append(patch(VOLUME, volume, {"status": {"phase": phase}}, "status"))


def _match(
    claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume], waits: bool
) -> PersistentVolume | None:
    """The volume that is for a claim, else the smallest free one that suits it.

    A claim that waits for its first pod gets only what is for it; the scheduler chooses the rest.
    """
    best: PersistentVolume | None = None
    for volume in volumes:
        if volume.metadata.deletion_timestamp is not None or not _suits(volume, claim):
            continue
        if volume.spec.claim_ref is not None:
            if _is_for(volume, claim):
                return volume
            continue
        free = volume.status.phase == "Available" and _class_of(volume) == _class_of(claim)
        if waits or not free or not _selected(volume, claim):
            continue
        if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
            continue
        if best is None or _size(volume) < _size(best):
            best = volume
    return best


def _mismatch(volume: PersistentVolume, claim: PersistentVolumeClaim) -> str:
    """Why a claim may not have the volume that it names; empty if it may."""
    if _size(volume) < claim.spec.resources.requests.get(_STORAGE, _NOTHING):
        return "requested PV is too small"
    if _class_of(volume) != _class_of(claim):
        return "storageClassName does not match"
    if not _suits(volume, claim):
        return "incompatible volumeMode"
    if not set(claim.spec.access_modes) <= set(volume.spec.access_modes):
        return "incompatible accessMode"
    return ""


def _suits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    asked = claim.spec.resources.requests.get(_STORAGE, _NOTHING)
    modes = volume.spec.volume_mode or "Filesystem", claim.spec.volume_mode or "Filesystem"
    return _size(volume) >= asked and modes[0] == modes[1]


def _selected(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    selector = claim.spec.selector
    if selector is None:
        return True
    try:
        selectors.check(selector, claim.title, "spec.selector")
    except KoordError:
        return False
    return selectors.matches(selector, volume.metadata.labels)


def _size(volume: PersistentVolume) -> Quantity:
    return volume.spec.capacity.get(_STORAGE, _NOTHING)


def _is_for(
    volume: PersistentVolume, claim: PersistentVolumeClaim, unclaimed: bool = False
) -> bool:
    reference, meta = volume.spec.claim_ref, claim.metadata
    if reference is None:
        return unclaimed
    if (reference.namespace, reference.name) != (meta.namespace, meta.name):
        return False
    return not reference.uid or reference.uid == meta.uid


def _class_of(target: PersistentVolume | PersistentVolumeClaim) -> str:
    return target.metadata.annotations.get(CLASS, target.spec.storage_class_name or "")


def _makes(storage_class: StorageClass, provisioners: Collection[str] | None) -> bool:
    if storage_class.provisioner in ("", NO_PROVISIONER):
        return False
    return provisioners is None or storage_class.provisioner in provisioners


def _new_volume(
    claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node | None
) -> Document:
    """A volume that no disk stands behind, in the zone of the node it was made for."""
    meta = claim.metadata
    name = f"pvc-{meta.uid}"
    asked = claim.spec.resources.requests.get(_STORAGE, _NOTHING)
    spec: Document = {
        "capacity": {_STORAGE: str(asked)},
        "accessModes": claim.spec.access_modes,
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy or "Delete",
        "storageClassName": storage_class.metadata.name,
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "csi": {"driver": storage_class.provisioner, "volumeHandle": name},
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
        },
    }
    zone = node.metadata.labels.get(ZONE) if node is not None else None
    if zone is not None:
        requirement = {"key": ZONE, "operator": "In", "values": [zone]}
        term = {"matchExpressions": [requirement]}
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [term]}}
    annotations = {PROVISIONED_BY: storage_class.provisioner}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": annotations},
        "spec": spec,
    }
