# SPDX-License-Identifier: Apache-2.0
"""How much of the cards that a bound pod's annotation names counts: what its requests justify.

Rule: docs/reference/devices.md#what-a-bound-pod-holds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.scheduler.plugins.deviceshare.names import (
    GPU,
    MEMORY,
    RATIO,
    RESOURCES,
    TYPES,
    WHOLE,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.pod_request import DeviceRequest
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import amount_texts
from koord.controllers.scheduler.plugins.deviceshare.objects.resource_combinations import (
    OF_TYPE,
    THIRD_PARTY,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocation,
        CardAllocations,
    )

_MOST_CARDS = 64
_MOST = 1 << 50


class CardLimit(NamedTuple):
    """What requests justify of one device type.

    Attributes:
        cards: how many.
        per_card: of every one of them, in the order of the type's resources.
        total: of all together; None where ``per_card`` says it.
        by_ratio, by_memory: the GPU memory is asked for in percent, in bytes; what is not asked
            for follows from the other and the card.
    """

    cards: int
    per_card: tuple[int, ...]
    total: tuple[int, ...] | None = None
    by_ratio: bool = False
    by_memory: bool = False


CardLimits = dict[str, CardLimit]


def card_limits(request: DeviceRequest | str | None, amounts: Mapping[str, int]) -> CardLimits:
    """What requests justify, by device type.

    Args:
        request: as it was read; a text where it makes no legal request.
        amounts: what the pod asks for, by resource.
    """
    if request is None:
        return {}
    if isinstance(request, str):
        return _by_sums(amounts)
    return {kind: _limit(request, kind) for kind in request.requests}


def _limit(request: DeviceRequest, kind: str) -> CardLimit:
    if kind == GPU and request.gpu is not None:
        asked = request.gpu.per_card
        each = [asked.get(name, 0) for name in RESOURCES[GPU]]
        ratio, memory = bool(each[RATIO]), bool(each[MEMORY])
        if ratio != memory:
            # The other one follows from the card that was chosen.
            each[MEMORY if ratio else RATIO] = _MOST if ratio else WHOLE
        return CardLimit(request.gpu.cards, tuple(each), None, ratio, memory)
    demand = request.demand(kind)
    cards = _MOST_CARDS if request.wants_all(kind) else demand.count
    if kind in request.joint[1:]:
        # One a PCIe root of the primary type's cards.
        primary = request.joint[0]
        most = _MOST_CARDS if request.wants_all(primary) else request.demand(primary).count
        cards = max(cards, most)
    return CardLimit(cards, tuple(demand.each))


def _by_sums(amounts: Mapping[str, int]) -> CardLimits:
    """Of requests that are no legal combination, such as those of a resized Reservation: sums."""
    limits = {}
    for kind in TYPES:
        if not any(amounts.get(name, 0) > 0 for name in OF_TYPE[kind]):
            continue
        total = [max(0, amounts.get(name, 0)) for name in RESOURCES[kind]]
        if kind == GPU:
            whole = WHOLE * sum(max(0, amounts.get(name, 0)) for name in THIRD_PARTY)
            percent = whole + max(0, amounts.get(OF_TYPE[GPU][len(THIRD_PARTY)], 0))
            total[: RATIO + 1] = [total[0] + percent, total[RATIO] + percent]
            ratio, memory = bool(total[RATIO]), bool(total[MEMORY])
            if ratio != memory:
                total[MEMORY if ratio else RATIO] = _MOST
            limit = CardLimit(_MOST_CARDS, tuple(total), tuple(total), ratio, memory)
        else:
            limit = CardLimit(_MOST_CARDS, tuple(total), tuple(total))
        limits[kind] = limit
    return limits


def justified_cards(
    holdings: CardAllocations, limits: CardLimits, card_bytes: Callable[[int], int]
) -> CardAllocations:
    """What of some cards counts: the same object where all of it does.

    Cards count in their order, as many as are asked for, each with no more than is asked for of
    one, and with one virtual function at the most.

    Args:
        holdings: what an annotation names, by type and minor.
        limits: what the pod's requests justify.
        card_bytes: the memory of a GPU by minor; 0 where it is not known.
    """
    kept: list[CardAllocation] = []
    counts = dict.fromkeys(limits, 0)
    left = {kind: limit.total for kind, limit in limits.items()}
    for held in holdings:
        limit = limits.get(held.type)
        if limit is None or counts[held.type] >= limit.cards:
            continue
        amounts = tuple(map(min, held.amounts, limit.per_card))
        rest = left[held.type]
        if rest is not None:
            amounts = tuple(map(min, amounts, rest))
        if limit.by_ratio != limit.by_memory:
            amounts = _within_card(amounts, card_bytes(held.minor), ratio=limit.by_ratio)
        functions = held.functions[:1]
        if not any(amounts) and (any(held.amounts) or not functions):
            continue
        counts[held.type] += 1
        if rest is not None:
            left[held.type] = tuple(a - b for a, b in zip(rest, amounts, strict=True))
        if amounts != held.amounts or functions != held.functions:
            held = held._replace(amounts=amounts, functions=functions)
        kept.append(held)
    same = len(kept) == len(holdings) and all(a is b for a, b in zip(kept, holdings, strict=True))
    return holdings if same else tuple(kept)


def _within_card(amounts: tuple[int, ...], size_bytes: int, *, ratio: bool) -> tuple[int, ...]:
    """Memory that is not asked for, but follows from the card: no more than that."""
    if not size_bytes:
        return amounts
    most = list(amounts)
    if ratio:
        most[MEMORY] = min(most[MEMORY], most[RATIO] * size_bytes // WHOLE)
    else:
        # Cut when it was written, and of a card whose size may be told a little differently now.
        most[RATIO] = min(most[RATIO], most[MEMORY] * WHOLE // size_bytes + 1)
    return tuple(most)


def in_short(holdings: Iterable[CardAllocation]) -> str:
    """``gpu 0 (koordinator.sh/gpu-core 50 ...), gpu 1 (...)``, or ``nothing``."""
    cards = []
    for held in holdings:
        named = zip(RESOURCES[held.type], held.amounts, strict=True)
        texts = amount_texts({name: amount for name, amount in named if amount})
        parts = [f"{name} {text}" for name, text in texts.items()]
        parts += [f"function {function.bus_id}" for function in held.functions]
        cards.append(f"{held.type} {held.minor} ({', '.join(parts)})")
    return ", ".join(cards) or "nothing"
