# SPDX-License-Identifier: Apache-2.0
"""Which cluster events wake pods that Reservation refused, and which of them can be of no use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from koord.api.protocol import keys
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.queue import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

RESOURCE: Final = "reservations.v1alpha1.scheduling.koordinator.sh"
"""What the queue is told of."""
HELPED: Final = frozenset(
    ("Reservation", "NodeResourcesFit", "NodeNUMAResource", "DeviceShare", "NodePorts")
)
"""Filters that may let a pod pass once a reservation holds something for it."""


def events(
    helps: Callable[[PodInfo, str], bool], concerns: Callable[[PodInfo], bool]
) -> Sequence[ev.HintedEvent]:
    """The events that may help pods which the plugin rejected, with their hints.

    Args:
        helps: whether a pod may use the reservation of a uid, however much room there is in it
            now; False too if that is the uid of no reservation.
        concerns: whether a pod insists on a reservation, there is one for it, or it will be one.
    """

    def changed(pod: PodInfo, old: object, new: object) -> bool:
        return helps(pod, _uid(new))

    def freed(pod: PodInfo, old: object, new: object) -> bool:
        return concerns(pod)

    action = ev.Action
    left = action.DELETE | action.UPDATE_POD_SCALE_DOWN
    room = action.ADD | action.UPDATE_NODE_ALLOCATABLE
    return (
        # Told by the plugin, once a Reservation is of use or says something else: pods that come to
        # nodes are far too many to look at each.
        ev.HintedEvent(ev.ClusterEvent(RESOURCE, action.ALL), changed),
        # Room on the node, or in the reservation that the pod sat in.
        ev.HintedEvent(ev.ClusterEvent(ev.ASSIGNED_POD, left), freed, True),
        ev.HintedEvent(ev.ClusterEvent(ev.NODE, room), freed, True),
        # Affinities read the labels of a reservation's node.
        ev.HintedEvent(ev.ClusterEvent(ev.NODE, action.UPDATE_NODE_LABEL), _reads_labels, True),
    )


def _uid(value: Any) -> str:
    return value.uid if isinstance(value, PodInfo) else str(value.metadata.uid)


def _reads_labels(pod: PodInfo, old: object, new: object) -> bool:
    return keys.RESERVATION_AFFINITY in pod.shape.annotations
