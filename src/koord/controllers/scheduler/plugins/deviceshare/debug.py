# SPDX-License-Identifier: Apache-2.0
"""What the plugin knows of nodes' devices, as the JSON of its debug endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.plugins.deviceshare.names import RESOURCES, TYPES
from koord.controllers.scheduler.plugins.deviceshare.quantities import resource_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.plugins.deviceshare.cache import DeviceCache, NodeDevices


def summaries(cache: DeviceCache) -> dict[str, Any]:
    """All nodes that have a Device, by name."""
    known = [(node.name, row) for row, node in enumerate(cache.nodes) if _is_known(node)]
    return {name: _summary(cache, row) for name, row in sorted(known)}


def summary(cache: DeviceCache, name: str) -> dict[str, Any]:
    """One node.

    Raises:
        KeyError: no Device of that name was seen.
    """
    for row, node in enumerate(cache.nodes):
        if node.name == name and _is_known(node):
            return _summary(cache, row)
    raise KeyError(f"cannot find devices of node {name}")


def _is_known(node: NodeDevices) -> bool:
    return bool(node.name) and (node.inventory is not None or bool(node.holders))


def _summary(cache: DeviceCache, row: int) -> dict[str, Any]:
    """By type and minor what there is, and whose it is; amounts as Kubernetes writes them."""
    node = cache.nodes[row]
    found: dict[str, Any] = {}
    for name, part in (("Total", "total"), ("Free", "free"), ("Used", "used")):
        by_type = {kind: _amounts(cache, row, kind, part) for kind in TYPES}
        found[f"deviceDetail{name}"] = {kind: cards for kind, cards in by_type.items() if cards}
    found["unhealthy"] = {
        kind: sorted(minor for minor, one in cards.items() if not one.card.healthy)
        for kind, cards in (node.inventory.cards if node.inventory is not None else {}).items()
        if any(not one.card.healthy for one in cards.values())
    }
    found["allocations"] = {
        holder.key: [held.describe() for held in holder.holdings]
        for holder in sorted(node.holders.values(), key=lambda each: each.key)
    }
    found["problems"] = list(node.inventory.problems) if node.inventory is not None else []
    return found


def _amounts(cache: DeviceCache, row: int, kind: str, part: str) -> dict[str, Any]:
    table = cache.tables[kind]
    columns = [getattr(table, part)(row, resource) for resource in RESOURCES[kind]]
    return {
        str(minor): _texts(resource_list(kind, tuple(column[minor] for column in columns)))
        for minor in table.listed(row)
    }


def _texts(amounts: Mapping[str, object]) -> dict[str, str]:
    return {name: str(amount) for name, amount in amounts.items()}
