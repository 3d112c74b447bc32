# SPDX-License-Identifier: Apache-2.0
"""Claims, volumes and classes as the scheduler sees them: the API's, and what was decided.

A decision (this volume is for that claim, that claim's volume is to be made for this node) counts
here from the moment it is made until the API shows it or it is given up.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from koord.api.kinds.storage import (
    CSIDriver,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from koord.controllers.scheduler.plugins.kubernetes.volumes.objects import (
    SELECTED_NODE,
    WAIT,
    claim_class,
    is_for,
    volume_class,
)
from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.queue.events import Action
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.api.kinds.meta import ObjectReference
    from koord.controllers.cluster.views import View
    from koord.controllers.scheduler.framework.handle import Handle

_NO_STORAGE = Quantity()
_CACHES: WeakKeyDictionary[object, VolumeCache] = WeakKeyDictionary()


class VolumeCache:
    """Claims, volumes and classes with what is assumed of them; see :func:`volume_cache_of`.

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
        self._volumes_by_claim: dict[str, set[str]] = {}
        # Decided, not yet seen: by volume the claim it is for, by claim the node it waits on.
        self._assumed_volumes: dict[str, PersistentVolumeClaim] = {}
        self._assumed_nodes: dict[str, str] = {}
        self._listeners: list[Callable[[str], None]] = []
        for view in (self.classes, self.drivers, self.capacities):
            view.on_change(self._other, lambda old, new: self._other(new), self._other_gone)
        self.volumes.on_change(self._volume_added, self._volume_updated, self._volume_deleted)
        self.claims.on_change(self._claim_changed, self._claim_updated, self._claim_deleted)
        # After what is above, so that a pod that is woken finds it true.
        wake_on_changes(handle, self.classes, ev.STORAGE_CLASS)
        wake_on_changes(handle, self.drivers, ev.CSI_DRIVER)
        wake_on_changes(handle, self.capacities, ev.CSI_STORAGE_CAPACITY)
        wake_on_changes(handle, self.volumes, ev.PERSISTENT_VOLUME)
        wake_on_changes(handle, self.claims, ev.PERSISTENT_VOLUME_CLAIM)

    def on_claim_change(self, listener: Callable[[str], None]) -> None:
        """Calls a listener with the key of every claim that changes, or whose volume does."""
        self._listeners.append(listener)

    # What is assumed.

    def assume_volume(self, volume: str, claim: PersistentVolumeClaim) -> None:
        """A volume is for a claim from now on."""
        self._assumed_volumes[volume] = claim
        self._count(volume)
        self._index_free(volume)

    def assume_node(self, claim: str, node: str) -> None:
        """A claim's volume is to be made for a node."""
        self._assumed_nodes[claim] = node

    def revert(self, volumes: Iterable[str], claims: Iterable[str]) -> None:
        """Takes decisions back that the API does not show yet."""
        for volume in volumes:
            if self._assumed_volumes.pop(volume, None) is not None:
                self._count(volume)
                self._index_free(volume)
        for claim in claims:
            self._assumed_nodes.pop(claim, None)

    def selected_node(self, key: str, claim: PersistentVolumeClaim) -> str | None:
        """The node that a claim's volume is made for, None before one is chosen."""
        assumed = self._assumed_nodes.get(key)
        return claim.metadata.annotations.get(SELECTED_NODE) if assumed is None else assumed

    # What the API and the assumptions come to.

    def free(self, name: str, least: Quantity) -> list[PersistentVolume]:
        """Volumes of a class that are nobody's, from a size on, smallest first, then by name."""
        entries = self._free.get(name, [])
        names = (entry[1] for entry in entries[bisect_left(entries, (least, "")) :])
        return [volume for name in names if (volume := self.volumes.get(name)) is not None]

    def own(self, key: str, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Volumes that are for a claim already, by name."""
        uid = claim.metadata.uid
        names = {v for v, assumed in self._assumed_volumes.items() if assumed.metadata.uid == uid}
        names.update(
            v for v in self._volumes_by_claim.get(key, ()) if v not in self._assumed_volumes
        )
        volumes = [v for name in sorted(names) if (v := self.volumes.get(name)) is not None]
        return [
            v
            for v in volumes
            if v.metadata.name in self._assumed_volumes
            or (v.spec.claim_ref is not None and is_for(v.spec.claim_ref, claim))
        ]

    def capacities_of(self, name: str) -> list[CSIStorageCapacity]:
        """The CSIStorageCapacity objects of a class."""
        return [c for _, c in self.capacities.items() if c.storage_class_name == name]

    def waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool:
        """Whether a claim is bound only once a pod needs it."""
        name = claim_class(claim)
        storage_class = self.classes.get(name) if name else None
        return storage_class is not None and storage_class.volume_binding_mode == WAIT

    # Changes.

    def _count(self, volume: str) -> None:
        known = self.volumes.get(volume)
        if known is not None:
            self._count_change(known)

    def _other(self, changed: object) -> None:
        self.version += 1

    def _other_gone(self, gone: object, unknown: bool) -> None:
        self.version += 1

    def _volume_added(self, volume: PersistentVolume) -> None:
        self._count_change(volume)
        self._index_claim(volume, True)
        self._index_free(volume.metadata.name)
        self._notify(volume.spec.claim_ref)

    def _volume_updated(self, old: PersistentVolume, volume: PersistentVolume) -> None:
        before = None
        if old.metadata.resource_version != volume.metadata.resource_version:
            before = self._assumed_volumes.pop(volume.metadata.name, None)
        self._count_change(old)
        self._index_claim(old, False)
        self._volume_added(volume)
        if before is not None:
            self._claim_changed(before)
        elif old.spec.claim_ref != volume.spec.claim_ref:
            self._notify(old.spec.claim_ref)

    def _volume_deleted(self, volume: PersistentVolume, unknown: bool) -> None:
        before = self._assumed_volumes.pop(volume.metadata.name, None)
        self._count_change(volume)
        self._index_claim(volume, False)
        self._index_free(volume.metadata.name)
        self._notify(volume.spec.claim_ref)
        if before is not None:
            self._claim_changed(before)

    def _count_change(self, volume: PersistentVolume) -> None:
        name = volume_class(volume)
        self.by_class[name] = self.by_class.get(name, 0) + 1

    def _index_claim(self, volume: PersistentVolume, present: bool) -> None:
        """Notes which claim a volume names, or that it does no longer."""
        reference = volume.spec.claim_ref
        if reference is None:
            return
        names = self._volumes_by_claim.setdefault(f"{reference.namespace}/{reference.name}", set())
        if present:
            names.add(volume.metadata.name)
        else:
            names.discard(volume.metadata.name)
        if not names:
            del self._volumes_by_claim[f"{reference.namespace}/{reference.name}"]

    def _index_free(self, name: str) -> None:
        """Takes a volume into the free ones, or out of them."""
        before = self._entries.pop(name, None)
        if before is not None:
            entries = self._free[before[0]]
            del entries[bisect_left(entries, before[1])]
            if not entries:
                del self._free[before[0]]
        volume = self.volumes.get(name)
        if volume is None or name in self._assumed_volumes or volume.spec.claim_ref is not None:
            return
        if volume.status.phase != "Available" or volume.metadata.deletion_timestamp is not None:
            return
        entry = (volume.spec.capacity.get("storage", _NO_STORAGE), name)
        self._entries[name] = (volume_class(volume), entry)
        insort(self._free.setdefault(volume_class(volume), []), entry)

    def _claim_changed(self, claim: PersistentVolumeClaim) -> None:
        self._notify_claim(f"{claim.metadata.namespace}/{claim.metadata.name}")

    def _claim_updated(self, old: PersistentVolumeClaim, claim: PersistentVolumeClaim) -> None:
        if old.metadata.resource_version != claim.metadata.resource_version:
            self._assumed_nodes.pop(f"{claim.metadata.namespace}/{claim.metadata.name}", None)
        self._claim_changed(claim)

    def _claim_deleted(self, claim: PersistentVolumeClaim, unknown: bool) -> None:
        self._assumed_nodes.pop(f"{claim.metadata.namespace}/{claim.metadata.name}", None)
        self._claim_changed(claim)

    def _notify(self, claim: ObjectReference | None) -> None:
        if claim is not None:
            self._notify_claim(f"{claim.namespace}/{claim.name}")

    def _notify_claim(self, key: str) -> None:
        for listener in self._listeners:
            listener(key)


def volume_cache_of(handle: Handle) -> VolumeCache:
    """The cache that all volume plugins of a scheduler share; made when the first plugin asks."""
    cache = _CACHES.get(handle)
    if cache is None:
        cache = _CACHES[handle] = VolumeCache(handle)
    return cache


def wake_on_changes(handle: Handle, view: View[Any], resource: str) -> None:
    """Wakes pods by the changes of a view, which the queue does not watch itself.

    Args:
        handle: the way to the queue.
        view: the objects.
        resource: as events name them.
    """

    def updated(old: Any, new: Any) -> None:
        if old.metadata.resource_version != new.metadata.resource_version:
            handle.wake(resource, Action.UPDATE, old, new)

    view.on_change(
        lambda new: handle.wake(resource, Action.ADD, None, new),
        updated,
        lambda old, unknown: handle.wake(resource, Action.DELETE, old, None),
    )
