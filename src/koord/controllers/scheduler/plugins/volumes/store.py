# SPDX-License-Identifier: Apache-2.0
"""Claims, volumes and classes as the scheduler sees them: what the API says, and what was decided.

A decision (this volume is for that claim, that claim's volume is to be made for this node) counts
here from the moment it is made until the API shows it or it is given up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from koord.api.kinds.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.api.kinds.meta import ObjectReference
    from koord.controllers.scheduler.framework.handle import Handle

BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
WAIT = "WaitForFirstConsumer"
_STORES: WeakKeyDictionary[object, Store] = WeakKeyDictionary()


class Store:
    """Shared by all volume plugins of one world; see :func:`store_of`.

    Attributes:
        version: counts changes of anything but claims and volumes.
        by_class: how often volumes of a class changed, decisions included.
    """

    def __init__(self, handle: Handle) -> None:
        self.claims = handle.view(PersistentVolumeClaim)
        self.volumes = handle.view(PersistentVolume)
        self.classes = handle.view(StorageClass)
        self.drivers = handle.view(CSIDriver)
        self.capacities = handle.view(CSIStorageCapacity)
        self.version = 0
        self.by_class: dict[str, int] = {}
        self._of_class: dict[str, dict[str, PersistentVolume]] = {}
        # Decided, not yet seen: by volume the claim it is for, by claim the node it waits on.
        self._promised: dict[str, PersistentVolumeClaim] = {}
        self._selected: dict[str, str] = {}
        self._listeners: list[Callable[[str], None]] = []
        for view in (self.classes, self.drivers, self.capacities):
            view.on_change(self._other, lambda old, new: self._other(new), self._other_gone)
        self.volumes.on_change(self._volume_added, self._volume_updated, self._volume_deleted)
        self.claims.on_change(self._claim_changed, self._claim_updated, self._claim_deleted)

    def on_claim(self, listener: Callable[[str], None]) -> None:
        """Tells of every claim that changed, by key, or whose volume did."""
        self._listeners.append(listener)

    # What is decided.

    def promise(self, volume: str, claim: PersistentVolumeClaim) -> None:
        """A volume is for a claim from now on."""
        self._promised[volume] = claim
        self._count(volume)

    def select(self, claim: str, node: str) -> None:
        """A claim's volume is to be made for a node."""
        self._selected[claim] = node

    def give_up(self, volumes: Iterable[str], claims: Iterable[str]) -> None:
        """Takes decisions back that the API does not show yet."""
        for volume in volumes:
            if self._promised.pop(volume, None) is not None:
                self._count(volume)
        for claim in claims:
            self._selected.pop(claim, None)

    def selected_node(self, key: str, claim: PersistentVolumeClaim) -> str | None:
        """The node that a claim's volume is made for, None before one is chosen."""
        decided = self._selected.get(key)
        return claim.metadata.annotations.get(SELECTED_NODE) if decided is None else decided

    def is_free(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        """Whether a volume is nobody else's."""
        promised = self._promised.get(volume.metadata.name)
        if promised is not None:
            return promised.metadata.uid == claim.metadata.uid
        return volume.spec.claim_ref is None or is_for(volume.spec.claim_ref, claim)

    def is_promised(self, volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
        """Whether a volume is for this very claim."""
        promised = self._promised.get(volume.metadata.name)
        if promised is not None:
            return promised.metadata.uid == claim.metadata.uid
        return volume.spec.claim_ref is not None and is_for(volume.spec.claim_ref, claim)

    # What there is.

    def of_class(self, name: str) -> list[PersistentVolume]:
        """All volumes of a class, by name."""
        known = self._of_class.get(name, {})
        return [known[key] for key in sorted(known)]

    def capacities_of(self, name: str) -> list[CSIStorageCapacity]:
        """What is left of a class, here and there."""
        return [c for _, c in self.capacities.items() if c.storage_class_name == name]

    def waits(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a claim is bound only once a pod needs it."""
        name = class_of(claim)
        found = self.classes.get(name) if name else None
        return found is not None and found.volume_binding_mode == WAIT

    # Changes.

    def _count(self, volume: str) -> None:
        found = self.volumes.get(volume)
        if found is not None:
            name = volume_class(found)
            self.by_class[name] = self.by_class.get(name, 0) + 1

    def _other(self, changed: object) -> None:
        self.version += 1

    def _other_gone(self, gone: object, unknown: bool) -> None:
        self.version += 1

    def _volume_added(self, volume: PersistentVolume) -> None:
        name = volume_class(volume)
        self._of_class.setdefault(name, {})[volume.metadata.name] = volume
        self.by_class[name] = self.by_class.get(name, 0) + 1
        self._tell(volume.spec.claim_ref)

    def _volume_updated(self, old: PersistentVolume, volume: PersistentVolume) -> None:
        if volume_class(old) != volume_class(volume):
            self._drop(old)
        before = None
        if old.metadata.resource_version != volume.metadata.resource_version:
            before = self._promised.pop(volume.metadata.name, None)
        self._volume_added(volume)
        if before is not None:
            self._claim_changed(before)
        elif old.spec.claim_ref != volume.spec.claim_ref:
            self._tell(old.spec.claim_ref)

    def _volume_deleted(self, volume: PersistentVolume, unknown: bool) -> None:
        before = self._promised.pop(volume.metadata.name, None)
        self._drop(volume)
        self._tell(volume.spec.claim_ref)
        if before is not None:
            self._claim_changed(before)

    def _drop(self, volume: PersistentVolume) -> None:
        name = volume_class(volume)
        self._of_class.get(name, {}).pop(volume.metadata.name, None)
        self.by_class[name] = self.by_class.get(name, 0) + 1

    def _claim_changed(self, claim: PersistentVolumeClaim) -> None:
        self._tell_key(f"{claim.metadata.namespace}/{claim.metadata.name}")

    def _claim_updated(self, old: PersistentVolumeClaim, claim: PersistentVolumeClaim) -> None:
        if old.metadata.resource_version != claim.metadata.resource_version:
            self._selected.pop(f"{claim.metadata.namespace}/{claim.metadata.name}", None)
        self._claim_changed(claim)

    def _claim_deleted(self, claim: PersistentVolumeClaim, unknown: bool) -> None:
        self._selected.pop(f"{claim.metadata.namespace}/{claim.metadata.name}", None)
        self._claim_changed(claim)

    def _tell(self, claim: ObjectReference | None) -> None:
        if claim is not None:
            self._tell_key(f"{claim.namespace}/{claim.name}")

    def _tell_key(self, key: str) -> None:
        for listener in self._listeners:
            listener(key)


def store_of(handle: Handle) -> Store:
    """The store of a world; made when the first plugin asks."""
    store = _STORES.get(handle)
    if store is None:
        store = _STORES[handle] = Store(handle)
    return store


def class_of(claim: PersistentVolumeClaim) -> str:
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
