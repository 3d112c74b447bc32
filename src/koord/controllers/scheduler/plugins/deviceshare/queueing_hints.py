# SPDX-License-Identifier: Apache-2.0
"""Which cluster events may help a pod that no node had devices for.

A card that goes or breaks is as one that a pod takes: it helps nobody, except pods that want every
card there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys
from koord.controllers.scheduler.plugins.deviceshare.names import DEVICES_EVENT, NAME
from koord.controllers.scheduler.plugins.deviceshare.objects.device import device_change
from koord.controllers.scheduler.plugins.deviceshare.objects.resource_combinations import OF_TYPE
from koord.controllers.scheduler.queue import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.plugins.deviceshare.objects.device import (
        DeviceChange,
        DeviceInventory,
    )
    from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest

_DEVICE_RESOURCES = frozenset(name for names_of in OF_TYPE.values() for name in names_of)
_NODE_LABELS = (
    keys.GPU_ISOLATION_PROVIDER, keys.GPU_MODEL, keys.GPU_VENDOR, keys.GPU_PARTITION_POLICY,
)  # fmt: skip


def events(
    read: Callable[[PodShape], DeviceRequest | str | None],
    known: Callable[[str], DeviceInventory | None],
) -> Sequence[ev.HintedEvent]:
    """The registrations.

    Args:
        read: what pods of a shape request; a text if that cannot be read.
        known: the cards of a node by name, whether or not the node is there.
    """

    def serves(info: PodInfo, old: object, new: DeviceChange) -> bool:
        request = read(info.shape)
        if request is None or isinstance(request, str):
            return request is None  # what cannot be read no device mends
        which = new.changed if any(map(request.wants_all, request.requests)) else new.gained
        return not which.isdisjoint(request.requests)

    def came(info: PodInfo, old: object, new: Node) -> bool:
        # Of a node whose Device comes later, that will tell.
        return serves(info, None, device_change(None, known(new.metadata.name)))

    action = ev.Action
    return (
        ev.HintedEvent(ev.ClusterEvent(ev.POD, action.DELETE), _frees_devices, per_shape=True),
        ev.HintedEvent(ev.ClusterEvent(DEVICES_EVENT, action.ALL), serves, per_shape=True),
        ev.HintedEvent(ev.ClusterEvent(ev.NODE, action.ADD), came, per_shape=True),
        ev.HintedEvent(ev.ClusterEvent(ev.NODE, action.UPDATE_NODE_LABEL), _relabelled, True),
    )


def _relabelled(info: PodInfo, old: Node, new: Node) -> bool:
    before, now = old.metadata.labels, new.metadata.labels
    return any(before.get(key) != now.get(key) for key in _NODE_LABELS)


def _frees_devices(info: PodInfo, old: Any, new: object) -> bool:
    """Whether a pod that went may have held devices."""
    if old is None or NAME in old.allocations:
        return True
    return not _DEVICE_RESOURCES.isdisjoint(old.shape.request)
