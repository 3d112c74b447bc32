# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumes: defaults, validation, what may change, table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.pod.defaults import default_block_volume
from koord.controlplane.kinds.table_cells import NAME, UNSET, age_of
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.quantities import ZERO, normalise, parsed
from koord.controlplane.kinds.validation.scheduling import check_node_selector
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause

_MODES = {
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOnce": "RWO",
    "ReadWriteOncePod": "RWOP",
}
_ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")

_RECLAIM = ("Delete", "Recycle", "Retain")

VOLUME_MODES = ("Block", "Filesystem")

_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_NO_SOURCES = frozenset(
    {
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    }
)


class PersistentVolumeStrategy(Strategy):
    """PersistentVolumes."""

    returns_deleted = True
    status_subresource = True
    columns = (
        NAME,
        *map(Column, ("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim")),
        *map(Column, ("StorageClass", "VolumeAttributesClass", "Reason", "Age")),
        Column("VolumeMode", priority=1),
    )

    def default(self, document: Document) -> None:
        """Kept after release, a file system."""
        spec = document.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        normalise(spec.get("capacity") or {})
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")
        for kind in spec.keys() - _NO_SOURCES:
            default_block_volume(kind, spec[kind])
        document.setdefault("status", {}).setdefault("phase", "Pending")

    def prepare_create(self, document: Document, context: Context) -> None:
        """Pending, since now."""
        document["status"] = {"phase": "Pending", "lastPhaseTransitionTime": context.now}

    def prepare_status(self, document: Document, old: Document, context: Context) -> None:
        """Another phase since now."""
        super().prepare_status(document, old, context)
        status, before = document.setdefault("status", {}), section(old, "status")
        if status.get("phase") != before.get("phase") and (
            status.get("lastPhaseTransitionTime") == before.get("lastPhaseTransitionTime")
        ):
            status["lastPhaseTransitionTime"] = context.now

    def validate(self, document: Document) -> list[StatusCause]:
        """A source, a size, modes."""
        causes = Causes()
        spec = document["spec"]
        check_modes(spec.get("accessModes"), causes)
        capacity = spec.get("capacity")
        if not capacity:
            causes.required("spec.capacity")
        if set(capacity or ()) != {"storage"}:
            causes.not_supported("spec.capacity", capacity, ("storage",))
        for name, amount in (capacity or {}).items():
            if parsed(amount) <= ZERO:
                causes.invalid(f"spec.capacity[{name}]", amount, "must be greater than zero")
        policy = spec["persistentVolumeReclaimPolicy"]
        if policy not in _RECLAIM:
            causes.not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
        if spec["volumeMode"] not in VOLUME_MODES:
            causes.not_supported("spec.volumeMode", spec["volumeMode"], VOLUME_MODES)
        if "required" in section(spec, "nodeAffinity"):
            required = spec["nodeAffinity"]["required"]
            check_node_selector(required, "spec.nodeAffinity.required", causes)
        sources = sorted(spec.keys() - _NO_SOURCES)
        if not sources:
            causes.required("spec", "must specify a volume type")
        for kind in sources[1:]:
            causes.forbidden(f"spec.{kind}", "may not specify more than 1 volume type")
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The source is fixed."""
        spec, before = document["spec"], old["spec"]
        if spec is before:
            return []
        causes = Causes(self.validate(document))
        kinds = (spec.keys() | before.keys()) - _NO_SOURCES
        if any(spec.get(kind) != before.get(kind) for kind in kinds):
            why = "spec.persistentvolumesource is immutable after creation"
            causes.forbidden("spec.persistentvolumesource", why)
        causes.fixed("spec.volumeMode", spec["volumeMode"], before.get("volumeMode"))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec, status = document["spec"], section(document, "status")
        claim = spec.get("claimRef")
        return [
            document["metadata"]["name"],
            section(spec, "capacity").get("storage", "0"),
            modes_text(spec.get("accessModes")),
            spec.get("persistentVolumeReclaimPolicy", ""),
            phase(document),
            f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
            class_of(document),
            spec.get("volumeAttributesClassName", UNSET),
            status.get("reason", ""),
            age_of(document, now_seconds),
            spec.get("volumeMode", UNSET),
        ]


def check_modes(modes: list[str] | None, causes: Causes, missing: str = "") -> None:
    """Adds causes where access modes are missing or unknown."""
    if not modes:
        causes.required("spec.accessModes", missing)
    for mode in modes or ():
        if mode not in _MODES:
            causes.not_supported("spec.accessModes", mode, tuple(_MODES))


def modes_text(modes: list[str] | None) -> str:
    """Access modes as a table shows them, e.g. ``RWO,ROX``."""
    return ",".join(_MODES[mode] for mode in _ACCESS_MODES if mode in (modes or ()))


def phase(document: Document) -> str:
    """The phase as a table shows it: of a volume or a claim."""
    if "deletionTimestamp" in document["metadata"]:
        return "Terminating"
    return str(section(document, "status").get("phase", ""))


def class_of(document: Document) -> str:
    """The storage class that a volume or claim names, by field or by annotation."""
    annotations = document["metadata"].get("annotations") or {}
    if _CLASS_ANNOTATION in annotations:
        return str(annotations[_CLASS_ANNOTATION])
    return str(section(document, "spec").get("storageClassName", ""))
