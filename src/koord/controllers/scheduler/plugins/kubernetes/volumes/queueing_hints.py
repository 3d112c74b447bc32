# SPDX-License-Identifier: Apache-2.0
"""Which events may help a pod that a volume plugin refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.plugins.kubernetes.volumes.objects import WAIT
from koord.controllers.scheduler.plugins.kubernetes.volumes.pod_request import (
    DISKS,
    claims_of,
    has_claim,
    volume_request_of,
)
from koord.controllers.scheduler.plugins.kubernetes.volumes.volume_matcher import volume_limit
from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.queue.events import Action, ClusterEvent, HintedEvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.cluster.pods import PodInfo

_MIGRATED = "storage.alpha.kubernetes.io/migrated-plugins"
_ADD_OR_UPDATE = Action.ADD | Action.UPDATE


def own_claim(pod: PodInfo, old: Any, new: Any) -> bool:
    """A claim of the pod's came or changed."""
    meta = new.metadata
    return has_claim(pod, f"{meta.namespace}/{meta.name}")


def new_topologies(pod: PodInfo, old: Any, new: Any) -> bool:
    """A class came, or allows other nodes."""
    return old is None or old.allowed_topologies != new.allowed_topologies


def waiting_class(pod: PodInfo, old: Any, new: Any) -> bool:
    """A class came whose claims wait for their first pod."""
    return bool(new.volume_binding_mode == WAIT)


def migrated(pod: PodInfo, old: Any, new: Any) -> bool:
    """A CSINode came, or other plugins are migrated on it."""
    if old is None:
        return True
    before = old.metadata.annotations.get(_MIGRATED)
    return bool(before != new.metadata.annotations.get(_MIGRATED))


def untracked(pod: PodInfo, old: Any, new: Any) -> bool:
    """A driver of the pod's stopped to track capacity."""
    name = new.metadata.name
    uses = any((v.get("csi") or {}).get("driver") == name for v in pod.shape.pod.spec.volumes)
    return uses and bool(old.spec.storage_capacity) and not new.spec.storage_capacity


def more_capacity(pod: PodInfo, old: Any, new: Any) -> bool:
    """There is more room than before."""
    if old is None:
        return True
    before, now = volume_limit(old), volume_limit(new)
    return now is not None and (before is None or now > before)


def own_zones(pod: PodInfo, old: Any, new: Any) -> bool:
    """A volume came, or its zones changed."""
    return old is None or old.metadata.labels != new.metadata.labels


def more_allocatable(pod: PodInfo, old: Any, new: Any) -> bool:
    """A node takes more volumes of some driver than before."""
    before = {d.name: d.allocatable for d in old.spec.drivers or ()}
    for driver in new.spec.drivers or ():
        was = before.get(driver.name)
        most = was.count if was is not None else None
        now = driver.allocatable.count if driver.allocatable is not None else None
        if most is not None and (now is None or now > most):
            return True
        if driver.name not in before:
            return True
    return False


def pod_with_claims(pod: PodInfo, old: Any, new: Any) -> bool:
    """A pod that used claims went."""
    return bool(volume_request_of(old.shape).claims)


def uses_claims(pod: PodInfo, old: Any, new: Any) -> bool:
    """A volume was detached; counts for pods that use claims."""
    return bool(volume_request_of(pod.shape).claims)


def sharer(pod: PodInfo, old: Any, new: Any) -> bool:
    """A pod of the namespace went that used a claim or a disk of the pod's."""
    if old.shape.namespace != pod.shape.namespace:
        return False
    mine = {claim.key for claim in claims_of(pod)}
    if any(claim.key in mine for claim in claims_of(old)):
        return True
    kinds = {k for d in volume_request_of(pod.shape).disks for k in DISKS if k in d}
    return any(kind in disk for disk in volume_request_of(old.shape).disks for kind in kinds)


def of_binding() -> Sequence[HintedEvent]:
    """VolumeBinding's."""
    return (
        HintedEvent(ClusterEvent(ev.STORAGE_CLASS, _ADD_OR_UPDATE), new_topologies, True),
        HintedEvent(ClusterEvent(ev.PERSISTENT_VOLUME_CLAIM, _ADD_OR_UPDATE), own_claim),
        HintedEvent(ClusterEvent(ev.PERSISTENT_VOLUME, _ADD_OR_UPDATE)),
        HintedEvent(ClusterEvent(ev.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        HintedEvent(ClusterEvent(ev.CSI_NODE, _ADD_OR_UPDATE), migrated, True),
        HintedEvent(ClusterEvent(ev.CSI_DRIVER, Action.UPDATE), untracked, True),
        HintedEvent(ClusterEvent(ev.CSI_STORAGE_CAPACITY, _ADD_OR_UPDATE), more_capacity, True),
    )


def of_zone() -> Sequence[HintedEvent]:
    """VolumeZone's."""
    return (
        HintedEvent(ClusterEvent(ev.STORAGE_CLASS, Action.ADD), waiting_class, True),
        HintedEvent(ClusterEvent(ev.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
        HintedEvent(ClusterEvent(ev.PERSISTENT_VOLUME_CLAIM, _ADD_OR_UPDATE), own_claim),
        HintedEvent(ClusterEvent(ev.PERSISTENT_VOLUME, _ADD_OR_UPDATE), own_zones, True),
    )


def of_limits() -> Sequence[HintedEvent]:
    """NodeVolumeLimits'."""
    return (
        HintedEvent(ClusterEvent(ev.CSI_NODE, Action.ADD)),
        HintedEvent(ClusterEvent(ev.CSI_NODE, Action.UPDATE), more_allocatable, True),
        HintedEvent(ev.ASSIGNED_POD_DELETE, pod_with_claims, True),
        HintedEvent(ClusterEvent(ev.PERSISTENT_VOLUME_CLAIM, Action.ADD), own_claim),
        HintedEvent(ClusterEvent(ev.VOLUME_ATTACHMENT, Action.DELETE), uses_claims, True),
    )


def of_restrictions() -> Sequence[HintedEvent]:
    """VolumeRestrictions'."""
    return (
        HintedEvent(ev.ASSIGNED_POD_DELETE, sharer),
        HintedEvent(ClusterEvent(ev.NODE, Action.ADD)),
        HintedEvent(ClusterEvent(ev.PERSISTENT_VOLUME_CLAIM, Action.ADD), own_claim),
    )
