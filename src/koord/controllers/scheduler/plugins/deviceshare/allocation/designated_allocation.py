# SPDX-License-Identifier: Apache-2.0
"""Devices that a scheduling hint says a pod is to keep.

Rule: docs/reference/devices.md#designated-devices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys, resources, scheduling
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.deviceshare.allocation.pools import DevicePool
from koord.controllers.scheduler.plugins.deviceshare.names import GPU, NAME
from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
    read_card_allocations,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import completed

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.objects.device import DeviceInventory


def designated(pod: Pod) -> CardAllocations:
    """What a pod is to keep; nothing unless its hint has an extension named after the plugin.

    Raises:
        KoordError: the hint, or what is recorded on the pod, cannot be read.
    """
    hint = scheduling.scheduling_hint(pod)
    if hint is None or NAME not in hint.extensions:
        return ()
    holdings, problems = read_card_allocations(pod)
    if problems:
        raise KoordError(pod.title, keys.DEVICE_ALLOCATED, problems[0], "devices to keep")
    return holdings


def designated_pool(holdings: CardAllocations, inventory: DeviceInventory) -> DevicePool:
    """These devices alone, and no more of them than is recorded, on one node."""
    caps = {}
    for held in holdings:
        listed = inventory.cards.get(held.type, {}).get(held.minor)
        amounts = held.amounts
        if listed is not None and held.type == GPU:
            card_bytes = listed.card.total.get(resources.GPU_MEMORY, 0)
            amounts = tuple(completed(amounts, card_bytes))
        caps[held.type, held.minor] = amounts
    functions = {
        (held.type, held.minor): frozenset(function.bus_id for function in held.functions)
        for held in holdings
        if held.functions
    }
    return DevicePool(caps=caps, designated=functions)
