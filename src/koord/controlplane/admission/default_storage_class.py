# SPDX-License-Identifier: Apache-2.0
"""The storage class of claims that name none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.admission.plugin import AdmissionPlugin, LookupCache

if TYPE_CHECKING:
    from koord.controlplane.extension import Attributes, Reader

STORAGE_CLASSES = "storageclasses.storage.k8s.io"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_OLD_DEFAULT = "storageclass.beta.kubernetes.io/is-default-class"
_OLD_CLASS = "volume.beta.kubernetes.io/storage-class"


class DefaultStorageClass(AdmissionPlugin):
    """Kubernetes' plugin DefaultStorageClass: claims that name no class get the default one."""

    mutates = True
    resources = ("persistentvolumeclaims",)
    depends_on = (STORAGE_CLASSES,)

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._default = LookupCache(reader, STORAGE_CLASSES, lambda _: self._look_up())

    def mutate(self, attributes: Attributes) -> None:
        """Names the default class in a claim that is created without one."""
        document = attributes.document
        if attributes.resource.storage != "persistentvolumeclaims" or document is None:
            return
        if attributes.operation != "CREATE" or attributes.subresource:
            return
        spec = document.setdefault("spec", {})
        annotations = document["metadata"].get("annotations") or {}
        if "storageClassName" not in spec and _OLD_CLASS not in annotations:
            name = self._default.get()
            if name:
                spec["storageClassName"] = name

    def _look_up(self) -> str:
        """The newest of the default classes, by name among equals."""
        found = []
        for document in self._reader.documents(STORAGE_CLASSES):
            metadata = document["metadata"]
            annotations = metadata.get("annotations") or {}
            if "true" in (annotations.get(_DEFAULT), annotations.get(_OLD_DEFAULT)):
                found.append((metadata.get("creationTimestamp") or "", metadata["name"]))
        newest = max((created for created, _ in found), default="")
        return min((name for created, name in found if created == newest), default="")
