# SPDX-License-Identifier: Apache-2.0
"""PersistentVolumeClaims: defaults, validation, what may change, table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.cluster.volumes import (
    VOLUME_MODES,
    check_modes,
    class_of,
    modes_text,
    phase,
)
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.pod.defaults import default_claim_spec
from koord.controlplane.kinds.table_cells import NAME, UNSET, age_of
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.quantities import ZERO, normalise, parsed
from koord.controlplane.kinds.validation.scheduling import check_selector
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


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
        check_modes(spec.get("accessModes"), causes, why)
        storage = section(spec, "resources", "requests").get("storage")
        if storage is None:
            causes.required("spec.resources[storage]")
        elif parsed(storage) <= ZERO:
            causes.invalid("spec.resources[storage]", storage, "must be greater than zero")
        if spec["volumeMode"] not in VOLUME_MODES:
            causes.not_supported("spec.volumeMode", spec["volumeMode"], VOLUME_MODES)
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
            phase(document),
            spec.get("volumeName", ""),
            section(status, "capacity").get("storage", "0") if bound else "",
            modes_text(status.get("accessModes")) if bound else "",
            class_of(document),
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
