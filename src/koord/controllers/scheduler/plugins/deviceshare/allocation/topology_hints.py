# SPDX-License-Identifier: Apache-2.0
"""Hints of devices for the joint choice of NUMA nodes, together with CPUs.

Rule: docs/reference/devices.md#numa-hints.

For every set of NUMA nodes, small ones first, a full allocation is tried that keeps to the set.
Sets that serve the pod become hints; those of the least size are preferred; those whose GPUs are
the ones that the whole machine would give weigh more than any CPU score.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.deviceshare import reasons
from koord.controllers.scheduler.plugins.deviceshare.names import GPU
from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import minors_of
from koord.kernels.numa import Hint, Provider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.objects.device import DeviceInventory
    from koord.kernels.devices_assign import Demand
    from koord.kernels.numa import Zones

_SAME_GPUS = 500
_MOST_ENUMERATED = 10


def device_hints(
    inventory: DeviceInventory,
    zones: Zones,
    wanted: Mapping[str, Demand] | Rejection,
    attempt: Callable[[int], CardAllocations | Rejection],
) -> Provider:
    """Hints by device type.

    Args:
        inventory: the node's cards.
        zones: of the machine; masks of hints are by position in it.
        wanted: what the pod wants of the node by type, or why it cannot be there.
        attempt: an allocation from some NUMA nodes, a bit for each id.
    """
    if isinstance(wanted, Rejection):
        return Provider(failure=wanted.text)
    numa_nodes = [node for node in inventory.numa_nodes() if node in zones.ids]
    if not numa_nodes or not wanted:
        return Provider()
    served: list[tuple[int, int, CardAllocations]] = []
    failure = ""
    for chosen in _subsets(numa_nodes):
        word = sum(1 << node for node in chosen)
        found = _attempt(inventory, chosen, word, wanted, attempt)
        if isinstance(found, str):
            failure = found if len(chosen) == len(numa_nodes) else failure
        else:
            served.append((len(chosen), zones.mask(chosen), found))
    if failure:
        return Provider(failure=failure)
    hints = _hints(served)
    return Provider(dict.fromkeys(wanted, hints))


def _hints(served: list[tuple[int, int, CardAllocations]]) -> list[Hint]:
    least = min(size for size, _, _ in served)
    whole = minors_of(served[-1][2], GPU)
    return [
        Hint(mask, size == least, score=_SAME_GPUS if minors_of(found, GPU) == whole else 0)
        for size, mask, found in served
    ]


def _attempt(
    inventory: DeviceInventory,
    chosen: Sequence[int],
    word: int,
    wanted: Mapping[str, Demand],
    attempt: Callable[[int], CardAllocations | Rejection],
) -> CardAllocations | str:
    for kind, demand in wanted.items():
        within = sum(
            listed.card.numa_node in (-1, *chosen) for listed in inventory.cards[kind].values()
        )
        if within < demand.count:
            return reasons.NUMA_SCOPED
    chosen_cards = attempt(word)
    return chosen_cards.text if isinstance(chosen_cards, Rejection) else chosen_cards


def _subsets(nodes: list[int]) -> Iterator[tuple[int, ...]]:
    """All non-empty subsets by size; of very many nodes, single ones and all of them."""
    if len(nodes) > _MOST_ENUMERATED:
        yield from ((node,) for node in nodes)
        yield tuple(nodes)
        return
    for size in range(1, len(nodes) + 1):
        yield from combinations(nodes, size)


def designated_hints(
    holdings: CardAllocations, inventory: DeviceInventory, zones: Zones
) -> Provider:
    """The one hint of a pod whose devices are given: the NUMA nodes that have them."""
    found: set[int] = set()
    for held in holdings:
        listed = inventory.cards.get(held.type, {}).get(held.minor)
        if listed is None or listed.card.numa_node not in zones.ids:
            return Provider(failure=reasons.DESIGNATED_WITHOUT_NUMA)
        found.add(listed.card.numa_node)
    hint = [Hint(zones.mask(found), preferred=True, score=_SAME_GPUS)]
    return Provider({held.type: hint for held in holdings})
