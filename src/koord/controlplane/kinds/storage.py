# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumes, claims, storage classes and the kinds of CSI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.kinds.causes import IMMUTABLE, Causes
from koord.controlplane.kinds.documents import NONE, section
from koord.controlplane.kinds.pod_defaults import default_block_volume, default_claim_spec
from koord.controlplane.kinds.quantities import ZERO, normalise, parsed
from koord.controlplane.kinds.rows import AGE, NAME, UNSET, age_of, integer
from koord.controlplane.kinds.scheduling_rules import check_node_selector, check_selector
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause

Document = dict[str, Any]

_MODES = {
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOnce": "RWO",
    "ReadWriteOncePod": "RWOP",
}
_SHOWN_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
_RECLAIM = ("Delete", "Recycle", "Retain")
_VOLUME_MODES = ("Block", "Filesystem")
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_ANNOTATIONS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
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
        _check_modes(spec.get("accessModes"), causes)
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
        if spec["volumeMode"] not in _VOLUME_MODES:
            causes.not_supported("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES)
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
            _modes_text(spec.get("accessModes")),
            spec.get("persistentVolumeReclaimPolicy", ""),
            _phase(document),
            f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
            _class_of(document),
            spec.get("volumeAttributesClassName", UNSET),
            status.get("reason", ""),
            age_of(document, now_seconds),
            spec.get("volumeMode", UNSET),
        ]


class PersistentVolumeClaimStrategy(Strategy):
    """PersistentVolumeClaims."""

    returns_deleted = True
    status_subresource = True
    columns = (
        NAME,
        *map(Column, ("Status", "Volume", "Capacity", "Access Modes", "StorageClass")),
        *map(Column, ("VolumeAttributesClass", "Age")),
        Column("VolumeMode", priority=1),
    )

    def default(self, document: Document) -> None:
        """A file system, pending."""
        default_claim_spec(document.setdefault("spec", {}))
        status = document.setdefault("status", {})
        status.setdefault("phase", "Pending")
        normalise(status.get("capacity") or {})

    def prepare_create(self, document: Document, context: Context) -> None:
        """Pending."""
        document["status"] = {"phase": "Pending"}

    def validate(self, document: Document) -> list[StatusCause]:
        """Modes and a size."""
        causes = Causes()
        spec = document["spec"]
        check_selector(spec.get("selector"), "spec.selector", causes)
        why = "at least 1 access mode is required"
        _check_modes(spec.get("accessModes"), causes, why)
        storage = section(spec, "resources", "requests").get("storage")
        if storage is None:
            causes.required("spec.resources[storage]")
        elif parsed(storage) <= ZERO:
            causes.invalid("spec.resources[storage]", storage, "must be greater than zero")
        if spec["volumeMode"] not in _VOLUME_MODES:
            causes.not_supported("spec.volumeMode", spec["volumeMode"], _VOLUME_MODES)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """Binding sets a volume; of a bound claim the size may grow; all else is fixed."""
        spec, before = document["spec"], old["spec"]
        if spec is before:
            return []
        causes = Causes(self.validate(document))
        if _fixed_part(spec, before) != _fixed_part(before, before):
            why = (
                "spec is immutable after creation except resources.requests and "
                "volumeAttributesClassName for bound claims"
            )
            causes.forbidden("spec", why)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec, status = document["spec"], section(document, "status")
        bound = bool(spec.get("volumeName"))
        return [
            document["metadata"]["name"],
            _phase(document),
            spec.get("volumeName", ""),
            section(status, "capacity").get("storage", "0") if bound else "",
            _modes_text(status.get("accessModes")) if bound else "",
            _class_of(document),
            spec.get("volumeAttributesClassName", UNSET),
            age_of(document, now_seconds),
            spec.get("volumeMode", UNSET),
        ]


def _fixed_part(spec: Document, before: Document) -> Document:
    fixed = {k: v for k, v in spec.items() if k not in ("resources", "volumeAttributesClassName")}
    if not before.get("volumeName"):
        fixed.pop("volumeName", None)
        fixed["requests"] = section(spec, "resources").get("requests")
    return fixed


def _check_modes(modes: list[str] | None, causes: Causes, missing: str = "") -> None:
    if not modes:
        causes.required("spec.accessModes", missing)
    for mode in modes or ():
        if mode not in _MODES:
            causes.not_supported("spec.accessModes", mode, tuple(_MODES))


def _modes_text(modes: list[str] | None) -> str:
    return ",".join(_MODES[mode] for mode in _SHOWN_MODES if mode in (modes or ()))


def _phase(document: Document) -> str:
    if "deletionTimestamp" in document["metadata"]:
        return "Terminating"
    return str(section(document, "status").get("phase", ""))


def _class_of(document: Document) -> str:
    annotations = document["metadata"].get("annotations") or {}
    if _CLASS_ANNOTATION in annotations:
        return str(annotations[_CLASS_ANNOTATION])
    return str(section(document, "spec").get("storageClassName", ""))


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
