# SPDX-License-Identifier: Apache-2.0
"""Batch resources of NUMA zones, written into the NodeResourceTopology.

Rule: docs/reference/node-resources.md#zones.

The agent owns the object and keeps what others add to a zone. Zones are a list that is replaced as
a whole, so the patch carries the version it was made for.
"""

from __future__ import annotations

from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING

from msgspec.structs import replace

from koord.api.kinds.topology import ZONE_TYPE_NODE, ZoneResource
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY
from koord.controllers.manager.noderesource.plugins.batch_and_mid import amplified
from koord.controllers.manager.noderesource.writers.node_patches import moved
from koord.controllers.manager.overcommit.formulas.zones import numbers
from koord.kernels.quantity import Quantity
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from koord.api.kinds.topology import NodeResourceTopology, Zone
    from koord.controllers.manager.overcommit.state.overcommit_cache import OvercommitCache

BatchPair = tuple[Quantity, Quantity]
_ZERO = Quantity()
_NAME = attrgetter("name")
_MOST_KNOWN = 256


def numbers_by_zone(topology: NodeResourceTopology) -> Mapping[str, int]:
    """The NUMA number of each zone by name."""
    return _numbered(
        tuple(zone.name for zone in topology.zones if zone.type in (ZONE_TYPE_NODE, ""))
    )


@lru_cache(_MOST_KNOWN)
def _numbered(names: tuple[str, ...]) -> Mapping[str, int]:
    """The zones of all machines of a kind have the same names."""
    return dict(zip(names, numbers(names), strict=True))


def amounts(cpu_milli: int, memory_milli_bytes: int, speed: float) -> BatchPair:
    """What a zone shows: milli-cores, amplified by the CPUs' speed, and memory to the thousandth
    of a byte.
    """
    cpu = amplified(Quantity.from_value(cpu_milli), speed)
    return cpu, Quantity.from_milli(memory_milli_bytes)


def offered(
    cache: OvercommitCache, row: int, topology: NodeResourceTopology, speed: float
) -> dict[str, BatchPair]:
    """What each zone of a row's topology offers, by name.

    Args:
        cache: has the offers.
        row: which; it offers something.
        topology: as the server has it; zones that say nothing offer nothing.
        speed: what batch CPU is multiplied by.
    """
    there = cache.zones.present[:, row].tolist()
    cpu, memory = cache.zone_amounts[:, :, row].tolist()
    return {
        name: amounts(cpu[number], memory[number], speed)
        for name, number in numbers_by_zone(topology).items()
        if number < len(there) and there[number]
    }


def updated_zones(
    topology: NodeResourceTopology,
    wanted: Mapping[str, BatchPair],
    share: float,
    *,
    late: bool,
) -> list[Zone] | None:
    """All zones brought to what they offer; None where none is due.

    Args:
        topology: as the server has it.
        wanted: batch-cpu and batch-memory by zone. A zone that is not named offers nothing; what
            it shows becomes 0.
        share: how far an amount must move to be written, as a fraction.
        late: whether anything that differs is written, however little.
    """
    due, zones = False, []
    for zone in topology.zones:
        said = dict(_wanted(zone, wanted.get(zone.name)))
        if not said:
            zones.append(zone)
            continue
        own = {each.name: each for each in zone.resources}
        due = due or any(_due(own.get(n), to, share, late) for n, to in said.items())
        zones.append(replace(zone, resources=merged(zone.resources, said)))
    return zones if due and zones != topology.zones else None


def zones_patch(topology: NodeResourceTopology, zones: list[Zone]) -> Patch:
    """The patch that puts a list of zones in the place of the one there is."""
    metadata = {"resourceVersion": topology.metadata.resource_version}
    return Patch.merge({"metadata": metadata, "zones": zones})


def _wanted(zone: Zone, offered: BatchPair | None) -> Iterator[tuple[str, Quantity]]:
    if offered is not None:
        yield from zip((BATCH_CPU, BATCH_MEMORY), offered, strict=True)
        return
    for each in zone.resources:
        if each.name in (BATCH_CPU, BATCH_MEMORY):
            yield each.name, _ZERO


def _due(have: ZoneResource | None, wanted: Quantity, share: float, late: bool) -> bool:
    if have is None:
        return True
    old = (have.capacity, have.allocatable, have.available)
    # What is gone is told of at once, however large the share that may go unnoticed.
    if late or not wanted:
        return any(each != wanted for each in old)
    return any(moved(each, wanted, share) for each in old)


def merged(have: Sequence[ZoneResource], wanted: Mapping[str, Quantity]) -> list[ZoneResource]:
    """Resources of a zone with some amounts put in their place, by name."""
    kept = [each for each in have if each.name not in wanted]
    added = [ZoneResource(name, to, to, to) for name, to in wanted.items()]
    return sorted([*kept, *added], key=_NAME)
