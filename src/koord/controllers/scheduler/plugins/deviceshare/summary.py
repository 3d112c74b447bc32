# SPDX-License-Identifier: Apache-2.0
"""What a node's devices look like to a person: the body of ``nodeDeviceSummaries``.

Rule: docs/reference/devices.md#debugging.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol import annotation
from koord.controllers.scheduler.plugins.deviceshare.names import RESOURCES, TYPES
from koord.controllers.scheduler.plugins.deviceshare.quantities import resource_list, wire_list

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.scheduler.plugins.deviceshare.cache import DeviceCache

Document = dict[str, Any]
_FIELDS = ("Total", "Free", "Used")


def node_summary(cache: DeviceCache, row: int) -> Document:
    """Totals, what is free and used, by card too, and who holds what.

    Used is what a pod sees that matches no reservation: of a reservation, what its owners left.
    """
    node = cache.nodes[row]
    document: Document = {}
    for field in _FIELDS:
        by_card = _by_card(cache, row, field.lower())
        document[f"device{field}"] = wire_list(_sum(by_card))
        document[f"device{field}Detail"] = {
            kind: {
                str(minor): resource_list(kind, amounts)
                for minor, amounts in cards.items()
                if field != "Used" or any(amounts)
            }
            for kind, cards in by_card.items()
        }
    holders: Document = {}
    for holder in sorted(node.holders.values(), key=lambda each: each.key):
        for held in holder.holdings:
            cards = holders.setdefault(held.type, {}).setdefault(holder.key, {})
            cards[str(held.minor)] = resource_list(held.type, held.amounts)
    document["allocateSet"] = holders
    return document


def all_summaries(cache: DeviceCache) -> dict[str, Document]:
    """By node with a Device, or with pods that hold devices, in the order of names."""
    found = {
        node.name: row
        for row, node in enumerate(cache.nodes)
        if node.name and (node.inventory is not None or node.holders)
    }
    return {name: node_summary(cache, found[name]) for name in sorted(found)}


def resources_text(amounts: Mapping[str, int]) -> str:
    """``{"resources":{...}}``, as ``reservation-resize-allocatable`` has it."""
    return annotation.text({"resources": wire_list(amounts)})


def _by_card(cache: DeviceCache, row: int, field: str) -> dict[str, dict[int, list[int]]]:
    found: dict[str, dict[int, list[int]]] = {}
    for kind in TYPES:
        native = cache.tables[kind].native
        columns = [getattr(native, field)(row, index) for index in range(len(RESOURCES[kind]))]
        used = [native.used(row, index) for index in range(len(RESOURCES[kind]))]
        listed = native.listed(row)
        cards = {
            minor: [column[minor] for column in columns]
            for minor in range(len(columns[0]))
            if listed >> minor & 1 or any(column[minor] for column in used)
        }
        if cards:
            found[kind] = cards
    return found


def _sum(by_card: Mapping[str, Mapping[int, list[int]]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for kind, cards in by_card.items():
        for amounts in cards.values():
            for name, amount in zip(RESOURCES[kind], amounts, strict=True):
                if amount:
                    total[name] = total.get(name, 0) + amount
    return total
