# SPDX-License-Identifier: Apache-2.0
"""What the plugin knows of nodes' devices, as the JSON of its debug endpoint.

Rule: docs/reference/devices.md#debugging.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.plugins.deviceshare.names import RESOURCES, TYPES
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import amount_texts

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.plugins.deviceshare.objects.device import DeviceInventory
    from koord.controllers.scheduler.plugins.deviceshare.state.cache import (
        DeviceCache,
        NodeDevices,
    )

    CardAmounts = dict[str, dict[str, dict[str, int]]]  # by type, minor as text, and resource

Document = dict[str, Any]


def summaries(cache: DeviceCache) -> dict[str, Document]:
    """All nodes that have a Device, or pods that hold devices, by name."""
    rows = {node.name: row for row, node in enumerate(cache.nodes) if _is_known(node)}
    return {name: _summary(cache, rows[name]) for name in sorted(rows)}


def summary(cache: DeviceCache, name: str) -> Document:
    """One node.

    Raises:
        KeyError: the node has no Device, and no pod that holds devices.
    """
    for row, node in enumerate(cache.nodes):
        if node.name == name and _is_known(node):
            return _summary(cache, row)
    raise KeyError(f"cannot find node {name}")


def _is_known(node: NodeDevices) -> bool:
    return bool(node.name) and (node.inventory is not None or bool(node.holders))


def _summary(cache: DeviceCache, row: int) -> Document:
    """Koordinator's fields; and which cards are unhealthy, who holds what in full, and problems.

    Used is what a pod sees that matches no reservation: of a reservation, what its owners left.
    """
    node = cache.nodes[row]
    total, free, used = _cards(cache, row)
    document: Document = {}
    for field, cards in (("Total", total), ("Free", free), ("Used", used)):
        document[f"device{field}"] = amount_texts(_sum(cards))
        document[f"device{field}Detail"] = {
            kind: {minor: amount_texts(amounts) for minor, amounts in by_minor.items()}
            for kind, by_minor in cards.items()
        }
    holders = sorted(node.holders.values(), key=lambda holder: holder.key)
    allocate_set: Document = {}
    for holder in holders:
        for held in holder.holdings:
            of_pod = allocate_set.setdefault(held.type, {}).setdefault(holder.key, {})
            of_pod[str(held.minor)] = held.describe()["resources"]
    document["allocateSet"] = allocate_set
    document["unhealthy"] = _unhealthy(node.inventory)
    document["allocations"] = {
        holder.key: [held.describe() for held in holder.holdings] for holder in holders
    }
    document["problems"] = list(node.inventory.problems) if node.inventory is not None else []
    return document


def _cards(cache: DeviceCache, row: int) -> tuple[CardAmounts, CardAmounts, CardAmounts]:
    """Total, free and used amounts of every card that is listed or used.

    Of what is used up zero is free; a card that nobody uses is not among the used ones.
    """
    total: CardAmounts = {}
    free: CardAmounts = {}
    used: CardAmounts = {}
    for kind in TYPES:
        table, names = cache.tables[kind], RESOURCES[kind]
        totals, frees, uses = (
            [column(row, name) for name in names]
            for column in (table.total, table.free, table.used)
        )
        listed = set(table.listed(row))
        for minor in range(len(totals[0])):
            of_total, of_free, of_used = (
                {name: column[minor] for name, column in zip(names, columns, strict=True)}
                for columns in (totals, frees, uses)
            )
            in_use = {name: amount for name, amount in of_used.items() if amount}
            if minor not in listed and not in_use:
                continue
            has = {name: amount for name, amount in of_total.items() if amount}
            total.setdefault(kind, {})[str(minor)] = has
            free.setdefault(kind, {})[str(minor)] = {
                name: of_free[name] for name in names if name in has or name in in_use
            }
            if in_use:
                used.setdefault(kind, {})[str(minor)] = in_use
    return total, free, used


def _sum(cards: CardAmounts) -> dict[str, int]:
    total: dict[str, int] = {}
    for by_minor in cards.values():
        for amounts in by_minor.values():
            for name, amount in amounts.items():
                total[name] = total.get(name, 0) + amount
    return total


def _unhealthy(inventory: DeviceInventory | None) -> Mapping[str, list[int]]:
    """Minors by type."""
    cards = inventory.cards if inventory is not None else {}
    by_type = {
        kind: sorted(minor for minor, listed in of_type.items() if not listed.card.healthy)
        for kind, of_type in cards.items()
    }
    return {kind: minors for kind, minors in by_type.items() if minors}
