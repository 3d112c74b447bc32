# SPDX-License-Identifier: Apache-2.0
"""Where the volumes of a pod's claims are, can be found, or can be made: by row of the node table.

Kubernetes: pkg/scheduler/framework/plugins/volumebinding/binder.go and
component-helpers/storage/volume; of volumes of equal size the first by name is taken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api import selectors
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.kubernetes.volumes import node_affinity
from koord.controllers.scheduler.plugins.kubernetes.volumes.objects import (
    NO_PROVISIONER,
    claim_class,
    volume_class,
)
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.storage import (
        CSIStorageCapacity,
        PersistentVolume,
        PersistentVolumeClaim,
    )
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.plugins.kubernetes.volumes.cache import VolumeCache

    Mask = NDArray[np.bool_]

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
NO_VOLUME = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
_STORAGE = "storage"
_NO_STORAGE = Quantity()
_NONE = -1


class PodVolumeClaims(NamedTuple):
    """The claims of a pod that are not in the way of scheduling it.

    Attributes:
        bound: bound ones.
        delayed: those that wait for their first pod, with their keys.
    """

    bound: tuple[PersistentVolumeClaim, ...]
    delayed: tuple[tuple[str, PersistentVolumeClaim], ...]


class VolumeMatches:
    """By row, what is in the way, and what is chosen where nothing is.

    Attributes:
        conflict, unbound, full, lost: by row, the reasons of the four messages.
        chosen: by claim key: the volumes looked at, and by row the place of the chosen one, or -1.
        made: by claim key: by row, whether the volume is to be made.
    """

    def __init__(self, rows: int) -> None:
        self.conflict = np.zeros(rows, np.bool_)
        self.unbound = np.zeros(rows, np.bool_)
        self.full = np.zeros(rows, np.bool_)
        self.lost = np.zeros(rows, np.bool_)
        self.chosen: dict[str, tuple[list[PersistentVolume], NDArray[np.int64]]] = {}
        self.made: dict[str, Mask] = {}

    def passes(self) -> Mask:
        """By row: whether nothing is in the way."""
        return ~(self.conflict | self.unbound | self.full | self.lost)

    def reasons(self, row: int) -> tuple[str, ...]:
        """What is in the way on a row, in Kubernetes' words and order."""
        masks = (
            (NODE_CONFLICT, self.conflict),
            (BIND_CONFLICT, self.unbound),
            (NO_SPACE, self.full),
            (NO_VOLUME, self.lost),
        )
        return tuple(text for text, mask in masks if mask[row])


class VolumeMatcher:
    """Answers for the claims of one pod.

    Args:
        table: the nodes.
        store: claims, volumes, classes.
    """

    def __init__(self, table: NodeTable, store: VolumeCache) -> None:
        self._table = table
        self._cache = store
        # Volumes of a few nodes, by name, with their rows.
        self._reached: dict[str, tuple[PersistentVolume, NDArray[np.intp]]] = {}
        self._reached_at: tuple[int, int] = (-1, -1)

    def volume_matches(self, claims: PodVolumeClaims) -> VolumeMatches:
        """For all rows.

        Raises:
            KoordError: a claim or class that cannot be read.
        """
        volume_matches = VolumeMatches(self._table.size)
        self._bound(claims.bound, volume_matches)
        self._delayed(claims.delayed, volume_matches)
        return volume_matches

    def _bound(
        self, claims: Sequence[PersistentVolumeClaim], volume_matches: VolumeMatches
    ) -> None:
        """The first claim that is in the way names the reason."""
        unclear = np.ones(self._table.size, np.bool_)
        for claim in claims:
            volume = self._cache.volumes.get(claim.spec.volume_name)
            if volume is None:
                volume_matches.lost |= unclear
                return
            refused = unclear & ~node_affinity.rows_of_volume(self._table, volume)
            volume_matches.conflict |= refused
            unclear &= ~refused

    def _delayed(
        self, claims: Sequence[tuple[str, PersistentVolumeClaim]], volume_matches: VolumeMatches
    ) -> None:
        elsewhere = np.zeros(self._table.size, np.bool_)
        to_make: list[tuple[str, PersistentVolumeClaim, Mask]] = []
        to_match: list[tuple[str, PersistentVolumeClaim]] = []
        everywhere = np.ones(self._table.size, np.bool_)
        for key, claim in claims:
            node = self._cache.selected_node(key, claim)
            if node is None:
                to_match.append((key, claim))
                continue
            row = self._table.row(node)
            there = np.zeros(self._table.size, np.bool_)
            if row is not None:
                there[row] = True
            elsewhere |= ~there
            to_make.append((key, claim, everywhere))
        volume_matches.unbound |= elsewhere
        taken: list[tuple[list[PersistentVolume], NDArray[np.int64]]] = []
        for key, claim in sorted(to_match, key=lambda pair: (_requested_storage(pair[1]), pair[0])):
            volumes, chosen = self._match(key, claim, taken)
            taken.append((volumes, chosen))
            volume_matches.chosen[key] = (volumes, chosen)
            to_make.append((key, claim, chosen == _NONE))
        self._make(to_make, ~elsewhere, volume_matches)

    # Volumes that are there.

    def _match(
        self,
        key: str,
        claim: PersistentVolumeClaim,
        taken: Sequence[tuple[list[PersistentVolume], NDArray[np.int64]]],
    ) -> tuple[list[PersistentVolume], NDArray[np.int64]]:
        """By row, the smallest volume that will do and no earlier claim of the pod takes."""
        chosen = np.full(self._table.size, _NONE, np.int64)
        own = self._own(key, claim)
        if own is not None:
            # It is the only one, wherever it is.
            chosen[node_affinity.rows_of_volume(self._table, own)] = 0
            return [own], chosen
        volumes = self._candidates(claim)
        # From the largest down, so that the smallest that will do has the last word.
        for place in range(len(volumes) - 1, -1, -1):
            volume = volumes[place]
            rows = self._rows(volume)
            for others, theirs in taken:
                if volume in others:
                    rows = rows[theirs[rows] != others.index(volume)]
            chosen[rows] = place
        return volumes, chosen

    def _rows(self, volume: PersistentVolume) -> NDArray[np.intp]:
        """The rows that reach a volume; kept as long as labels and volume stay."""
        table = self._table
        at = (table.labels.version, table.size)
        if at != self._reached_at:
            self._reached_at = at
            self._reached.clear()
        name = volume.metadata.name
        known = self._reached.get(name)
        if known is not None and known[0] is volume:
            return known[1]
        rows = node_affinity.rows_of_local_volume(table, volume)
        if rows is None:
            return np.flatnonzero(node_affinity.rows_of_volume(table, volume))
        self._reached[name] = (volume, rows)
        return rows

    def _own(self, key: str, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that is for a claim already, if it suits it."""
        for volume in self._cache.own(key, claim):
            fits = _capacity(volume) >= _requested_storage(claim) and _alike(volume, claim)
            deleted = volume.metadata.deletion_timestamp is not None
            if fits and not deleted and volume_class(volume) == claim_class(claim):
                return volume
        return None

    def _candidates(self, claim: PersistentVolumeClaim) -> list[PersistentVolume]:
        """Free volumes of the claim's class that suit it, smallest first."""
        selector, modes = claim.spec.selector, set(claim.spec.access_modes)
        if selector is not None:
            selectors.check(selector, claim.title, "spec.selector")
        return [
            volume
            for volume in self._cache.free(claim_class(claim), _requested_storage(claim))
            if modes.issubset(volume.spec.access_modes)
            and _alike(volume, claim)
            and (selector is None or selectors.matches(selector, volume.metadata.labels))
        ]

    # Volumes that are to be made.

    def _make(
        self,
        claims: Sequence[tuple[str, PersistentVolumeClaim, Mask]],
        open_: Mask,
        volume_matches: VolumeMatches,
    ) -> None:
        """The first claim that cannot be provided for names the reason."""
        for key, claim, wanted in claims:
            due = open_ & wanted
            if not due.any():
                continue
            possible, enough = self._provision(claim)
            volume_matches.unbound |= due & ~possible
            volume_matches.full |= due & possible & ~enough
            open_ = open_ & ~(due & ~(possible & enough))
            volume_matches.made[key] = due

    def _provision(self, claim: PersistentVolumeClaim) -> tuple[Mask, Mask]:
        """By row: whether a volume could be made for the node, and whether there is room for it."""
        rows = self._table.size
        nowhere, everywhere = np.zeros(rows, np.bool_), np.ones(rows, np.bool_)
        name = claim_class(claim)
        found = self._cache.classes.get(name) if name else None
        if found is None:
            raise KoordError(claim.title, "spec.storageClassName", name, "a storage class")
        if found.provisioner in ("", NO_PROVISIONER):
            return nowhere, everywhere
        possible = node_affinity.rows_of_topologies(self._table, found.allowed_topologies)
        driver = self._cache.drivers.get(found.provisioner)
        if driver is None or not driver.spec.storage_capacity:
            return possible, everywhere
        if _STORAGE not in claim.spec.resources.requests:
            return possible, everywhere
        enough, size = nowhere, _requested_storage(claim)
        for capacity in self._cache.capacities_of(name):
            limit = volume_limit(capacity)
            if limit is not None and limit >= size:
                enough = enough | node_affinity.rows_of_label_selector(
                    self._table, capacity.node_topology
                )
        return possible, enough


def _alike(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Whether volume and claim are of one mode and one attributes class."""
    mine, theirs = claim.spec, volume.spec
    if (theirs.volume_mode or "Filesystem") != (mine.volume_mode or "Filesystem"):
        return False
    attributes = theirs.volume_attributes_class_name or "", mine.volume_attributes_class_name or ""
    return attributes[0] == attributes[1]


def _requested_storage(claim: PersistentVolumeClaim) -> Quantity:
    """How much a claim asks for."""
    return claim.spec.resources.requests.get(_STORAGE, _NO_STORAGE)


def _capacity(volume: PersistentVolume) -> Quantity:
    """How much a volume has."""
    return volume.spec.capacity.get(_STORAGE, _NO_STORAGE)


def volume_limit(capacity: CSIStorageCapacity) -> Quantity | None:
    """The largest volume that could be made."""
    most = capacity.maximum_volume_size
    return capacity.capacity if most is None else most
