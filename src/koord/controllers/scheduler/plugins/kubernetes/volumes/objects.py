# SPDX-License-Identifier: Apache-2.0
"""What claims and volumes say of each other: their class, whether they are bound, and to whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.api.kinds.meta import ObjectReference
    from koord.api.kinds.storage import PersistentVolume, PersistentVolumeClaim

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT = "WaitForFirstConsumer"


def claim_class(claim: PersistentVolumeClaim) -> str:
    """The storage class that a claim asks for, empty for none."""
    annotations = claim.metadata.annotations
    return annotations.get(CLASS, claim.spec.storage_class_name or "")


def volume_class(volume: PersistentVolume) -> str:
    """The storage class of a volume."""
    annotations = volume.metadata.annotations
    return annotations.get(CLASS, volume.spec.storage_class_name)


def is_bound(claim: PersistentVolumeClaim) -> bool:
    """Whether the volume controller has bound a claim to its end."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_for(reference: ObjectReference, claim: PersistentVolumeClaim) -> bool:
    """Whether a volume's reference means this claim; one without uid was made by a person."""
    meta = claim.metadata
    if (reference.namespace, reference.name) != (meta.namespace, meta.name):
        return False
    return not reference.uid or reference.uid == meta.uid
