# SPDX-License-Identifier: Apache-2.0
"""Which pods of a node stand on what its reservation holds back.

Rule: docs/reference/descheduling-plugins.md#evictpodsonreservedresources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests
from koord.api.protocol.node_reservation import DEFAULT
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.resources import CPU, class_of
from koord.api.protocol.scheduling import resource_status
from koord.base.errors import KoordError
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.api.protocol.node_reservation import NodeReservation


def held_cpus(pod: Pod) -> CPUSet:
    """The CPUs that a pod was given; none where it has none, or where it cannot be read."""
    try:
        return CPUSet.parse_wire(resource_status(pod).cpuset)
    except (KoordError, ValueError):
        return CPUSet()


def reserved_cpus(reservation: NodeReservation) -> CPUSet:
    """The CPUs that are held back by number, under any policy; none where the list is none."""
    try:
        return CPUSet.parse_wire(reservation.reserved_cpus)
    except ValueError:
        return CPUSet()


def on_reserved_cpus(pods: Iterable[Pod], reservation: NodeReservation) -> list[Pod]:
    """Pods that were given a CPU that is held back, in the order of the input."""
    reserved = reserved_cpus(reservation)
    return [pod for pod in pods if reserved and not held_cpus(pod).isdisjoint(reserved)]


def excess(pods: Iterable[Pod], node: Node, reservation: NodeReservation) -> dict[str, int]:
    """What pods ask for beyond what the reservation leaves, by resource; CPU in milli.

    Args:
        pods: those of the node that count.
        node: as it enters, its allocatable less the reservation.
        reservation: of the node. Only what it names counts, and nothing of batch and mid, which
            become less by themselves.
    """
    if reservation.apply_policy not in ("", DEFAULT):
        return {}
    named = set(reservation.resources) | ({CPU} if reservation.reserved_cpus else set())
    offered = requests.offered(node)
    over = {
        name: -offered.get(name, 0)
        for name in sorted(named)
        if class_of(name) is PriorityClass.NONE and name in offered
    }
    for pod in pods:
        for name, amount in requests.requested(pod).items():
            if name in over:
                over[name] += amount
    return {name: amount for name, amount in over.items() if amount > 0}


def relieves(pod: Pod, over: Mapping[str, int]) -> bool:
    """Whether the pod asks for any of the resources of which too much is asked for."""
    asked = requests.requested(pod)
    return any(asked.get(name, 0) > 0 for name in over)


def without(over: Mapping[str, int], pod: Pod) -> dict[str, int]:
    """The excess once the pod is gone."""
    asked = requests.requested(pod)
    left = {name: amount - asked.get(name, 0) for name, amount in over.items()}
    return {name: amount for name, amount in left.items() if amount > 0}
