# SPDX-License-Identifier: Apache-2.0
"""What may make room for a pod that did not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests
from koord.controllers.cluster.node_table import ABSENT
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.plugins.queueing_hints import pod_of
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD,
    NODE,
    POD,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.handle import Handle

    FitsEmpty = Callable[[PodShape, dict[str, int]], bool]


def of(handle: Handle, fits_empty: FitsEmpty) -> Sequence[HintedEvent]:
    """Registrations of NodeResourcesFit.

    Args:
        handle: of the plugin.
        fits_empty: whether a pod of a shape would fit an empty node that offers this much.
    """

    def requests_less(info: PodInfo, old: PodInfo | Pod | None, new: PodInfo | Pod | None) -> bool:
        if old is None or new is None:
            return True
        now = new.pod if isinstance(new, PodInfo) else new
        own = now.metadata.uid == info.uid
        if not own and not isinstance(new, PodInfo) and not now.spec.node_name:
            return False  # another pod that waits takes nothing
        had, has = _counted(old), _counted(new)
        wanted = info.shape.request
        return any(
            has.get(name, 0) < amount for name, amount in had.items() if own or name in wanted
        )

    def after_node(info: PodInfo, old: Node | None, new: Node | None) -> bool:
        if new is None:
            return False
        offered = requests.offered(new)
        if not fits_empty(info.shape, offered):
            return False
        if old is None:
            return True
        before = requests.offered(old)
        wanted = (requests.PODS, *info.shape.request)
        more = any(offered.get(name, 0) > before.get(name, 0) for name in wanted)
        return more or old.status.allocatable == new.status.allocatable

    def after_pod(info: PodInfo, old: PodInfo | Pod | None, new: object) -> bool:
        node = pod_of(old)
        row = handle.table.row(node.spec.node_name) if node is not None else None
        if row is None:
            return True
        table = handle.table
        names = (requests.PODS, *info.shape.request)
        columns = {name: table.resource(name) for name in names}
        offered = {
            name: int(table.allocatable[column, row])
            for name, column in columns.items()
            if column != ABSENT
        }
        return fits_empty(info.shape, offered)

    node_actions = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
    return (
        HintedEvent(ClusterEvent(ASSIGNED_POD, Action.DELETE), after_pod, per_shape=True),
        HintedEvent(ClusterEvent(POD, Action.UPDATE_POD_SCALE_DOWN), requests_less),
        HintedEvent(ClusterEvent(NODE, node_actions), after_node, per_shape=True),
    )


def _counted(event_object: PodInfo | Pod) -> Mapping[str, int]:
    """What the pod of an event counts as on its node, or would on one."""
    return (
        event_object.counted.request
        if isinstance(event_object, PodInfo)
        else requests.counted(event_object)
    )
