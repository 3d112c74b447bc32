# SPDX-License-Identifier: Apache-2.0
"""Claims, volumes and classes as the scheduler sees them: what the API says, and what was decided.

A decision (this volume is for that claim, that claim's volume is to be made for this node) counts
here from the moment it is made until the API shows it or it is given up.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from koord.api.kinds.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from koord.controllers.scheduler.plugins.volumes import waking
from koord.controllers.scheduler.queue import events as ev
from koord.kernels.quantity import Quantity

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
_NO_STORAGE = Quantity()
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
        # By class, free volumes with their sizes, smallest first; by name, what stands there.
        self._free: dict[str, list[tuple[Quantity, str]]] = {}
        self._entries: dict[str, tuple[str, tuple[Quantity, str]]] = {}
        # By claim, volumes that name it.
        self._named: dict[str, set[str]] = {}
        # Decided, not yet seen: by volume the claim it is for, by claim the node it waits on.
        self._promised: dict[str, PersistentVolumeClaim] = {}
        self._selected: dict[str, str] = {}
        self._listeners: list[Callable[[str], None]] = []
        for view in (self.classes, self.drivers, self.capacities):
            view.on_change(self._other, lambda old, new: self._other(new), self._other_gone)
        self.volumes.on_change(self._volume_added, self._volume_updated, self._volume_deleted)
        self.claims.on_change(self._claim_changed, self._claim_updated, self._claim_deleted)
        # After what is above, so that a pod that is woken finds it true.
        waking.follow(handle, self.classes, ev.STORAGE_CLASS)
        waking.follow(handle, self.drivers, ev.CSI_DRIVER)
        waking.follow(handle, self.capacities, ev.CSI_STORAGE_CAPACITY)
        waking.follow(handle, self.volumes, ev.PERSISTENT_VOLUME)
        waking.follow(handle, self.claims, ev.PERSISTENT_VOLUME_CLAIM)

    def on_claim(self, listener: Callable[[str], None]) -> None:
        """Tells of every claim that changed, by key, or whose volume did."""
        self._listeners.append(listener)

    # What is decided.

    def promise(self, volume: str, claim: PersistentVolumeClaim) -> None:
        """A volume is for a claim from now on."""
        self._promised[volume] = claim
        self._count(volume)
        self._enter(volume)

    def select(self, claim: str, node: str) -> None:
        """A claim's volume is to be made for a node."""
        self._selected[claim] = node

    def give_up(self, volumes: Iterable[str], claims: Iterable[str]) -> None:
        """Takes decisions back that the API does not show yet."""
        for volume in volumes:
            if self._promised.pop(volume, None) is not None:
                self._count(volume)
                self._enter(volume)
        for claim in claims:
            self._selected.pop(claim, None)

    def selected_node(self, key: str, claim: PersistentVolumeClaim) -> str | None:
        """The node that a claim's volume is made for, None before one is chosen."""
        decided = self._selected.get(key)
        return claim.metadata.annotations.get(SELECTED_NODE) if decided is None else decided

    # What there is.

    def free(self, name: str, least: Quantity) -> list[PersistentVolume]:
        """Volumes of a class that are nobody's, from a size on, smallest first, then by name."""
        known = self._free.get(name, [])
        names = (entry[1] for entry in known[bisect_left(known, (least, "")) :])
        return [found for each in names if (found := self.volumes.get(each)) is not None]

    def own(self, key: str, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Volumes that are for a claim already, by name."""
        uid = claim.metadata.uid
        names = {v for v, promised in self._promised.items() if promised.metadata.uid == uid}
        names.update(v for v in self._named.get(key, ()) if v not in self._promised)
        found = [v for name in sorted(names) if (v := self.volumes.get(name)) is not None]
        return [
            v
            for v in found
            if v.metadata.name in self._promised
            or (v.spec.claim_ref is not None and is_for(v.spec.claim_ref, claim))
        ]

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
            self._bump(found)

    def _other(self, changed: object) -> None:
        self.version += 1

    def _other_gone(self, gone: object, unknown: bool) -> None:
        self.version += 1

    def _volume_added(self, volume: PersistentVolume) -> None:
        self._bump(volume)
        self._name(volume, True)
        self._enter(volume.metadata.name)
        self._tell(volume.spec.claim_ref)

    def _volume_updated(self, old: PersistentVolume, volume: PersistentVolume) -> None:
        before = None
        if old.metadata.resource_version != volume.metadata.resource_version:
            before = self._promised.pop(volume.metadata.name, None)
        self._bump(old)
        self._name(old, False)
        self._volume_added(volume)
        if before is not None:
            self._claim_changed(before)
        elif old.spec.claim_ref != volume.spec.claim_ref:
            self._tell(old.spec.claim_ref)

    def _volume_deleted(self, volume: PersistentVolume, unknown: bool) -> None:
        before = self._promised.pop(volume.metadata.name, None)
        self._bump(volume)
        self._name(volume, False)
        self._enter(volume.metadata.name)
        self._tell(volume.spec.claim_ref)
        if before is not None:
            self._claim_changed(before)

    def _bump(self, volume: PersistentVolume) -> None:
        name = volume_class(volume)
        self.by_class[name] = self.by_class.get(name, 0) + 1

    def _name(self, volume: PersistentVolume, there: bool) -> None:
        """Notes which claim a volume names."""
        reference = volume.spec.claim_ref
        if reference is None:
            return
        names = self._named.setdefault(f"{reference.namespace}/{reference.name}", set())
        if there:
            names.add(volume.metadata.name)
        else:
            names.discard(volume.metadata.name)
        if not names:
            del self._named[f"{reference.namespace}/{reference.name}"]

    def _enter(self, name: str) -> None:
        """Takes a volume into the free ones, or out of them."""
        before = self._entries.pop(name, None)
        if before is not None:
            entries = self._free[before[0]]
            del entries[bisect_left(entries, before[1])]
        volume = self.volumes.get(name)
        if volume is None or name in self._promised or volume.spec.claim_ref is not None:
            return
        if volume.status.phase != "Available" or volume.metadata.deletion_timestamp is not None:
            return
        entry = (volume.spec.capacity.get("storage", _NO_STORAGE), name)
        self._entries[name] = (volume_class(volume), entry)
        insort(self._free.setdefault(volume_class(volume), []), entry)

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
