# SPDX-License-Identifier: Apache-2.0
"""VolumeRestrictions: disks that one node takes once, claims that one pod may use at a time.

Kubernetes: pkg/scheduler/framework/plugins/volumerestrictions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.kubernetes.volumes import queueing_hints
from koord.controllers.scheduler.plugins.kubernetes.volumes.cache import volume_cache_of
from koord.controllers.scheduler.plugins.kubernetes.volumes.pod_request import (
    claims_of,
    volume_request_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Mapping, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows
    from koord.controllers.scheduler.queue.events import HintedEvent

NAME = "VolumeRestrictions"
DISK = "node(s) had no available disk"
IN_USE = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod"
)
ONE_POD = "ReadWriteOncePod"


class VolumeRestrictions(Plugin):
    """PreFilter and Filter; keeps account of who uses which claim.

    Args:
        args: none.
        handle: the cluster's state.
    """

    name = NAME
    reads = PodField.VOLUMES
    depends = Aspect.NODE | Aspect.PODS

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._claims = volume_cache_of(handle).claims
        # By claim, the rows of the pods that use it, by uid; by row, pods with disks of their own.
        self._users: dict[str, dict[str, int]] = {}
        self._disks: dict[int, dict[str, PodInfo]] = {}

    def events(self) -> Sequence[HintedEvent]:
        """Pods that went, nodes and claims that came."""
        return queueing_hints.of_restrictions()

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Notes claims and disks."""
        wants = volume_request_of(pod.shape)
        if wants.claims:
            for claim in claims_of(pod):
                if not claim.ephemeral:
                    self._users.setdefault(claim.key, {})[pod.uid] = row
        if wants.disks:
            self._disks.setdefault(row, {})[pod.uid] = pod

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """The inverse."""
        wants = volume_request_of(pod.shape)
        if wants.claims:
            for claim in claims_of(pod):
                users = self._users.get(claim.key)
                if users is not None and users.pop(pod.uid, None) is not None and not users:
                    del self._users[claim.key]
        if wants.disks:
            on_row = self._disks[row]
            del on_row[pod.uid]
            if not on_row:
                del self._disks[row]

    def pre_filter(self, cycle: Cycle) -> Rejection | None:
        """Finds claims for one pod alone that are in use."""
        if not volume_request_of(cycle.shape).claims:
            return None
        rows: set[int] = set()
        conflicts = 0
        for name in claims_of(cycle.pod):
            if name.ephemeral:
                continue
            claim = self._claims.get(name.key)
            if claim is None:
                why = f'persistentvolumeclaim "{name.name}" not found'
                return Rejection(NAME, (why,), unresolvable=True)
            users = self._users.get(name.key)
            if users and ONE_POD in claim.spec.access_modes:
                conflicts += 1
                rows.update(users.values())
        cycle.state[NAME] = (conflicts, frozenset(rows))
        return None

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods without claims and disks conflict with nobody."""
        wants = volume_request_of(shape)
        if wants.claims:
            return ()
        return ("pre_filter",) if wants.disks else ("pre_filter", "filter", "pod_added")

    def applies(self, cycle: Cycle) -> bool:
        """Pods with disks, and those whose claims are in use."""
        conflicts, _ = cycle.state.get(NAME, (0, None))
        return bool(conflicts) or bool(volume_request_of(cycle.shape).disks)

    def generation(self, cycle: Cycle) -> Hashable:
        """Whether claims are in use, and where."""
        found: Hashable = cycle.state.get(NAME)
        return found

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """No node while a claim is in use; else those without a conflicting disk."""
        size = cycle.table.size
        conflicts, _ = cycle.state.get(NAME, (0, None))
        if conflicts:
            return np.zeros(size, np.bool_)[rows]
        passes = np.ones(size, np.bool_)
        for row, pods in self._disks.items():
            passes[row] = not self._conflict(cycle, pods)
        return passes[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """A disk goes first."""
        disk, in_use = Rejection(NAME, (DISK,)), Rejection(NAME, (IN_USE,))
        return [
            disk if self._conflict(cycle, self._disks.get(row, {})) else in_use
            for row in rows.tolist()
        ]

    def may_help(self, cycle: Cycle, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """While claims are in use, only the rows of those pods."""
        conflicts, users = cycle.state.get(NAME, (0, None))
        if not conflicts or users is None:
            return np.ones(len(rows), np.bool_)
        return np.isin(rows, list(users)) if len(users) == 1 else np.zeros(len(rows), np.bool_)

    def _conflict(self, cycle: Cycle, pods: Mapping[str, PodInfo]) -> bool:
        disks = volume_request_of(cycle.shape).disks
        return any(
            conflicting(disk, other)
            for disk in disks
            for pod in pods.values()
            for other in volume_request_of(pod.shape).disks
        )


def conflicting(disk: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether one node cannot have both disks: the same one, unless both only read it."""
    kind = next(
        (
            k
            for k in ("gcePersistentDisk", "awsElasticBlockStore", "rbd", "iscsi")
            if isinstance(disk.get(k), dict) and isinstance(other.get(k), dict)
        ),
        "",
    )
    if not kind:
        return False
    mine, theirs = disk[kind], other[kind]
    if kind == "awsElasticBlockStore":
        return bool(mine.get("volumeID") == theirs.get("volumeID"))
    if mine.get("readOnly") and theirs.get("readOnly"):
        return False
    if kind == "gcePersistentDisk":
        return bool(mine.get("pdName") == theirs.get("pdName"))
    if kind == "iscsi":
        return bool(mine.get("iqn") == theirs.get("iqn"))
    shared = set(map(str, mine.get("monitors") or ())) & set(map(str, theirs.get("monitors") or ()))
    # The API server sets the pool; what comes without one means the same.
    pools = mine.get("pool") or "rbd", theirs.get("pool") or "rbd"
    return bool(shared) and pools[0] == pools[1] and mine.get("image") == theirs.get("image")
