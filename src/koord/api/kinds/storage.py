# SPDX-License-Identifier: Apache-2.0
"""Volumes, claims, storage classes and CSI objects, cut to the fields that scheduling uses."""

from __future__ import annotations

from typing import Any

from msgspec import field

from koord.api.kinds.constraints import NodeSelector
from koord.api.kinds.meta import LabelSelector, Object, ObjectReference, ResourceList
from koord.api.wirestruct import WireStruct
from koord.kernels.quantity import Quantity


class CSIVolumeSource(WireStruct):
    """A volume of a CSI driver."""

    driver: str = ""
    volume_handle: str = ""


class VolumeNodeAffinity(WireStruct):
    """Which nodes reach a volume."""

    required: NodeSelector | None = None


class PersistentVolumeSpec(WireStruct):
    """What a volume is and whose."""

    capacity: ResourceList = {}
    access_modes: list[str] = []
    claim_ref: ObjectReference | None = None
    persistent_volume_reclaim_policy: str = ""
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    csi: CSIVolumeSource | None = None


class PersistentVolumeStatus(WireStruct):
    """``Available``, ``Bound``, ``Released``, ``Failed`` or ``Pending``."""

    phase: str = ""


class PersistentVolume(Object):
    """A piece of storage."""

    spec: PersistentVolumeSpec = field(default_factory=PersistentVolumeSpec)
    status: PersistentVolumeStatus = field(default_factory=PersistentVolumeStatus)


class VolumeResources(WireStruct):
    """How much storage a claim asks for."""

    requests: ResourceList = {}


class PersistentVolumeClaimSpec(WireStruct):
    """What a claim asks for, and the volume it got."""

    access_modes: list[str] = []
    resources: VolumeResources = field(default_factory=VolumeResources)
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_mode: str | None = None
    volume_name: str = ""


class PersistentVolumeClaimStatus(WireStruct):
    """``Pending``, ``Bound`` or ``Lost``."""

    phase: str = ""


class PersistentVolumeClaim(Object):
    """A request for storage."""

    spec: PersistentVolumeClaimSpec = field(default_factory=PersistentVolumeClaimSpec)
    status: PersistentVolumeClaimStatus = field(default_factory=PersistentVolumeClaimStatus)


class TopologySelectorRequirement(WireStruct):
    """A label key and the values allowed for it."""

    key: str = ""
    values: list[str] = []


class TopologySelectorTerm(WireStruct):
    """A conjunction of requirements."""

    match_label_expressions: list[TopologySelectorRequirement] = []


class StorageClass(Object):
    """How volumes of a class are made, and when they are bound."""

    provisioner: str = ""
    reclaim_policy: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] = []
    parameters: dict[str, str] = {}


class VolumeNodeResources(WireStruct):
    """How many volumes of a driver a node takes; absent for any number."""

    count: int | None = None


class CSINodeDriver(WireStruct):
    """A CSI driver on a node."""

    name: str = ""
    node_id: str = field(default="", name="nodeID")
    topology_keys: list[str] = []
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(WireStruct):
    """The drivers of a node."""

    drivers: list[CSINodeDriver] | None = None


class CSINode(Object):
    """What CSI drivers say of a node."""

    spec: CSINodeSpec = field(default_factory=CSINodeSpec)


class CSIDriverSpec(WireStruct):
    """How a driver wants to be treated."""

    storage_capacity: bool | None = None


class CSIDriver(Object):
    """A CSI driver of the cluster."""

    spec: CSIDriverSpec = field(default_factory=CSIDriverSpec)


class CSIStorageCapacity(Object):
    """How much storage of a class some nodes still reach."""

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(WireStruct):
    """What is attached."""

    persistent_volume_name: str | None = None
    inline_volume_spec: dict[str, Any] | None = None


class VolumeAttachmentSpec(WireStruct):
    """What is attached where, and by whom."""

    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = field(default_factory=VolumeAttachmentSource)


class VolumeAttachment(Object):
    """A volume on its way to a node, or there."""

    spec: VolumeAttachmentSpec = field(default_factory=VolumeAttachmentSpec)
