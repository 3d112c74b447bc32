# SPDX-License-Identifier: Apache-2.0
"""StorageClasses, and the kinds of CSI drivers: which there are, and on which nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import NONE, section
from koord.controlplane.kinds.table_cells import AGE, NAME, UNSET, age_of, integer
from koord.controlplane.kinds.validation.causes import IMMUTABLE, Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause

_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


class StorageClassStrategy(Strategy):
    """StorageClasses."""

    returns_deleted = True
    columns = (
        NAME,
        *map(Column, ("Provisioner", "ReclaimPolicy", "VolumeBindingMode")),
        Column("AllowVolumeExpansion"),
        AGE,
    )

    def default(self, document: Document) -> None:
        """Deleted after release, bound at once."""
        document.setdefault("reclaimPolicy", "Delete")
        document.setdefault("volumeBindingMode", "Immediate")

    def validate(self, document: Document) -> list[StatusCause]:
        """A provisioner and known policies."""
        causes = Causes()
        if not document.get("provisioner"):
            causes.required("provisioner")
        if document["reclaimPolicy"] not in ("Delete", "Retain"):
            policy = document["reclaimPolicy"]
            causes.not_supported("reclaimPolicy", policy, ("Delete", "Retain"))
        modes = ("Immediate", "WaitForFirstConsumer")
        if document["volumeBindingMode"] not in modes:
            causes.not_supported("volumeBindingMode", document["volumeBindingMode"], modes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """Nearly all is fixed."""
        causes = Causes(self.validate(document))
        for field in ("parameters", "provisioner", "reclaimPolicy"):
            if (document.get(field) or None) != (old.get(field) or None):
                causes.forbidden(field, f"updates to {field} are forbidden.")
        mode = document["volumeBindingMode"]
        causes.fixed("volumeBindingMode", mode, old.get("volumeBindingMode"))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        annotations = metadata.get("annotations") or {}
        default = any(annotations.get(key) == "true" for key in _DEFAULT_ANNOTATIONS)
        return [
            f"{metadata['name']} (default)" if default else metadata["name"],
            document.get("provisioner", ""),
            document.get("reclaimPolicy", ""),
            document.get("volumeBindingMode", ""),
            document.get("allowVolumeExpansion", False),
            age_of(document, now_seconds),
        ]


class CSINodeStrategy(Strategy):
    """CSINodes."""

    returns_deleted = True
    columns = (NAME, integer("Drivers"), AGE)

    def default(self, document: Document) -> None:
        """The list of drivers is always written."""
        document.setdefault("spec", {}).setdefault("drivers", None)

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        drivers = section(document, "spec").get("drivers") or ()
        return [document["metadata"]["name"], len(drivers), age_of(document, now_seconds)]


class CSIDriverStrategy(Strategy):
    """CSIDrivers."""

    returns_deleted = True
    columns = (
        NAME,
        *(Column(n, type="boolean") for n in ("AttachRequired", "PodInfoOnMount")),
        Column("StorageCapacity", type="boolean"),
        Column("TokenRequests"),
        Column("RequiresRepublish", type="boolean"),
        Column("Modes"),
        AGE,
    )

    def default(self, document: Document) -> None:
        """Attached, persistent, file system by its type."""
        spec = document.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        spec.setdefault("podInfoOnMount", False)
        spec.setdefault("storageCapacity", False)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        spec.setdefault("volumeLifecycleModes", ["Persistent"])
        spec.setdefault("requiresRepublish", False)
        spec.setdefault("seLinuxMount", False)

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec = section(document, "spec")
        requests = spec.get("tokenRequests")
        return [
            document["metadata"]["name"],
            spec.get("attachRequired", True),
            spec.get("podInfoOnMount", False),
            spec.get("storageCapacity", False),
            UNSET if requests is None else ",".join(e.get("audience", "") for e in requests),
            spec.get("requiresRepublish", False),
            ",".join(spec.get("volumeLifecycleModes") or ()) or NONE,
            age_of(document, now_seconds),
        ]


class CSIStorageCapacityStrategy(Strategy):
    """CSIStorageCapacities."""

    columns = (NAME, Column("Created At", type="date"))

    def validate(self, document: Document) -> list[StatusCause]:
        """The class it is about."""
        causes = Causes()
        if not document.get("storageClassName"):
            causes.required("storageClassName")
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        return [metadata["name"], metadata.get("creationTimestamp")]


class VolumeAttachmentStrategy(Strategy):
    """VolumeAttachments."""

    returns_deleted = True
    status_subresource = True
    columns = (
        NAME,
        Column("Attacher", format="name"),
        Column("PV"),
        Column("Node"),
        Column("Attached", type="boolean"),
        AGE,
    )

    def prepare_create(self, document: Document, context: Context) -> None:
        """Not attached yet."""
        document["status"] = {"attached": False}

    def validate(self, document: Document) -> list[StatusCause]:
        """Who attaches what to where."""
        causes = Causes()
        spec = section(document, "spec")
        for field in ("attacher", "nodeName"):
            if not spec.get(field):
                causes.required(f"spec.{field}")
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The spec is fixed."""
        causes = Causes()
        if document.get("spec") != old.get("spec"):
            causes.invalid("spec", document.get("spec"), IMMUTABLE)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec = section(document, "spec")
        return [
            document["metadata"]["name"],
            spec.get("attacher", ""),
            section(spec, "source").get("persistentVolumeName", ""),
            spec.get("nodeName", ""),
            section(document, "status").get("attached", False),
            age_of(document, now_seconds),
        ]
