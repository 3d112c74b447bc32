# SPDX-License-Identifier: Apache-2.0
"""What a node and its zones show of batch and mid, read out of their objects as whole numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import nodes
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY
from koord.base.errors import KoordError
from koord.controllers.manager.noderesource.plugins.batch_and_mid import BATCH, MID
from koord.controllers.manager.noderesource.writers.zone_patches import numbers_by_zone
from koord.controllers.manager.overcommit.formulas.threshold import ABSENT
from koord.controllers.manager.overcommit.objects.pod_terms import MOST_ZONES
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology, Zone, ZoneResource

Pair = tuple[int, int]
NO_ORIGIN = -2
"""In place of an origin: the node has no annotation of it at all."""

_MOST = 2**52
"""Beyond, doubles are not whole; no machine comes near."""
_ZERO = Quantity()


class PublishedAmounts(NamedTuple):
    """What a node shows; pairs are CPU milli and memory, :data:`ABSENT` where it shows nothing.

    Attributes:
        batch, mid: its resources, memory in bytes.
        origin: batch as the annotation has it, before third parties took theirs; :data:`NO_ORIGIN`
            without the annotation.
        held: what third parties hold of batch.
        zones: batch by NUMA number, memory in thousandths of a byte.
    """

    batch: Pair
    mid: Pair
    origin: Pair
    held: Pair
    zones: Mapping[int, Pair]


def published_amounts(node: Node, topology: NodeResourceTopology | None) -> PublishedAmounts | None:
    """What a node and its zones show; None where columns have no room for it.

    So it is with parts of a milli-core or byte, amounts that are not the same in all their fields,
    and annotations that cannot be read: such a node is compared object by object each time.
    """
    status = node.status
    if not status.capacity or not status.allocatable:
        return None
    try:
        held = nodes.third_party_total(node, PriorityClass.BATCH)
        cpu, memory, mid_cpu, mid_memory = (
            _equal(_whole(status.allocatable.get(name)), _whole(status.capacity.get(name)))
            for name in (*BATCH, *MID)
        )
        return PublishedAmounts(
            (cpu, memory),
            (mid_cpu, mid_memory),
            _origin(node),
            (_whole(held.get(BATCH_CPU, _ZERO)), _whole(held.get(BATCH_MEMORY, _ZERO))),
            _zones(topology) if topology is not None else {},
        )
    except (KoordError, ValueError):
        return None


def _origin(node: Node) -> Pair:
    origin = nodes.origin_allocatable(node)
    if origin is None:
        return NO_ORIGIN, NO_ORIGIN
    if not origin.resources.keys() <= set(BATCH):
        raise ValueError("an origin of other resources")
    return _whole(origin.resources.get(BATCH_CPU)), _whole(origin.resources.get(BATCH_MEMORY))


def _zones(topology: NodeResourceTopology) -> dict[int, Pair]:
    number_of = numbers_by_zone(topology)
    if len({zone.name for zone in topology.zones}) < len(topology.zones):
        raise ValueError("two zones of one name")
    amounts = {}
    for zone in topology.zones:
        pair, number = _zone(zone), number_of.get(zone.name)
        if number is not None and number < MOST_ZONES:
            amounts[number] = pair
        elif pair != (ABSENT, ABSENT):
            raise ValueError("a zone that is none shows batch")
    return amounts


def _zone(zone: Zone) -> Pair:
    cpu = memory = ABSENT
    for resource in zone.resources:
        if resource.name == BATCH_CPU:
            cpu = _whole(_single(resource))
        elif resource.name == BATCH_MEMORY:
            memory = _thousandths(_single(resource))
    return cpu, memory


def _single(resource: ZoneResource) -> Quantity:
    """The amount that all fields of a zone's resource show."""
    amount = resource.capacity
    if amount is None or amount != resource.allocatable or amount != resource.available:
        raise ValueError("fields that differ")
    return amount


def _whole(amount: Quantity | None) -> int:
    return ABSENT if amount is None else _plausible(amount.value(Rounding.EXACT))


def _thousandths(amount: Quantity) -> int:
    return _plausible(amount.milli(Rounding.EXACT))


def _plausible(count: int) -> int:
    if not 0 <= count <= _MOST:
        raise ValueError("no amount that a machine has")
    return count


def _equal(one: int, other: int) -> int:
    if one != other:
        raise ValueError("fields that differ")
    return one
