# SPDX-License-Identifier: Apache-2.0
"""What may make room for a pod that did not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests
from koord.controllers.scheduler.queue.events import (
    NODE,
    POD,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.handle import Handle

    FitsEmpty = Callable[[PodShape, dict[str, int]], bool]


def of(handle: Handle, fits_empty: FitsEmpty) -> Sequence[HintedEvent]:
    """Registrations of NodeResourcesFit.

    Args:
        handle: of the plugin.
        fits_empty: whether a pod of a shape would fit an empty node that offers this much.
    """

    def after_pod(info: PodInfo, old: Pod | None, new: Pod | None) -> bool:
        if new is None:
            return old is None or bool(old.spec.node_name)
        if old is None:
            return True
        if new.metadata.uid != info.uid and not new.spec.node_name:
            return False  # another pod that waits takes no room
        before, now = requests.requested(old), requests.requested(new)
        wanted = info.shape.request
        own = new.metadata.uid == info.uid
        return any(
            now.get(name, 0) < amount for name, amount in before.items() if own or name in wanted
        )

    def after_node(info: PodInfo, old: Node | None, new: Node | None) -> bool:
        if new is None:
            return False
        offers = requests.offered(new)
        if not fits_empty(info.shape, offers):
            return False
        if old is None:
            return True
        before = requests.offered(old)
        wanted = (requests.PODS, *info.shape.request)
        more = any(offers.get(name, 0) > before.get(name, 0) for name in wanted)
        return more or old.status.allocatable == new.status.allocatable

    node_actions = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
    return (
        HintedEvent(ClusterEvent(POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN), after_pod),
        HintedEvent(ClusterEvent(NODE, node_actions), after_node, per_shape=True),
    )
