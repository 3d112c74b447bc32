# SPDX-License-Identifier: Apache-2.0
"""What one pod holds of a node's devices: chosen by us, or read from the pod's annotation."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from koord.api.kinds.meta import ObjectMeta
from koord.api.kinds.pod import Pod
from koord.api.protocol import annotation, keys, scheduling
from koord.api.protocol.resources import with_current_names
from koord.api.protocol.scheduling import AllocatedDevice, AllocatedVF, AllocationExtension
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.deviceshare.names import RESOURCES, TYPES
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import (
    amounts_from,
    resource_list,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# The texts that are remembered: pods of a restart say the same of many nodes. And the characters of
# the longest: what is made of one takes eight times as much, and a pod's owner may write anything.
_TEXTS, _LONGEST = 2048, 2048


class FunctionAllocation(NamedTuple):
    """A virtual function; its bus is its name on the node."""

    minor: int
    bus_id: str


class CardAllocation(NamedTuple):
    """Part or all of one card.

    Attributes:
        type: of the device.
        minor: the card.
        amounts: in the order of the type's resources.
        functions: virtual functions of the card.
        template: the GPU shared resource template, "" for none.
    """

    type: str
    minor: int
    amounts: tuple[int, ...]
    functions: tuple[FunctionAllocation, ...] = ()
    template: str = ""

    def describe(self) -> dict[str, object]:
        """For explanations: the card and what of it."""
        described: dict[str, object] = {
            "type": self.type,
            "minor": self.minor,
            "resources": {
                name: str(amount) for name, amount in resource_list(self.type, self.amounts).items()
            },
        }
        if self.functions:
            described["virtualFunctions"] = [function.bus_id for function in self.functions]
        if self.template:
            described["template"] = self.template
        return described


CardAllocations = tuple[CardAllocation, ...]
"""Ascending by type, in their order, then by minor."""


def minors_of(holdings: Iterable[CardAllocation], device_type: str) -> int:
    """The cards of a type among some holdings, as a word."""
    word = 0
    for held in holdings:
        if held.type == device_type:
            word |= 1 << held.minor
    return word


def read_card_allocations(pod: Pod) -> tuple[CardAllocations, list[str]]:
    """The devices of a pod's annotation, and one line about each part of it that cannot be read."""
    text = pod.metadata.annotations.get(keys.DEVICE_ALLOCATED)
    if text is None:
        return (), []
    holdings = _holdings_of(text) if len(text) <= _LONGEST else None
    return (holdings, []) if holdings is not None else _read(pod)


@lru_cache(_TEXTS)
def _holdings_of(text: str) -> CardAllocations | None:
    """The devices that a text names; None where it has parts that cannot be read."""
    holdings, problems = _read(Pod(metadata=ObjectMeta(annotations={keys.DEVICE_ALLOCATED: text})))
    return None if problems else holdings


def _read(pod: Pod) -> tuple[CardAllocations, list[str]]:
    try:
        written = scheduling.device_allocated(pod)
    except KoordError as error:
        return (), [str(error)]
    by_card: dict[tuple[int, int], CardAllocation] = {}
    problems: list[str] = []
    for kind in TYPES:
        for index, allocated in enumerate(written.get(kind, ())):
            where = f"{pod.title}: {annotation.field_of('device-allocated')}.{kind}[{index}]"
            key = (TYPES.index(kind), allocated.minor)
            try:
                held = _held(kind, allocated)
            except ValueError as error:
                problems.append(f"{where}: {error}")
                continue
            before = by_card.get(key)
            by_card[key] = held if before is None else _together(before, held)
    return tuple(by_card[key] for key in sorted(by_card)), problems


def _held(kind: str, allocated: AllocatedDevice) -> CardAllocation:
    if not 0 <= allocated.minor < 64:
        raise ValueError(f"minor: got {allocated.minor}, expected 0 to 63")
    extension = allocated.extension or AllocationExtension()
    functions = tuple(sorted(FunctionAllocation(vf.minor, vf.bus_id) for vf in extension.vfs))
    # Written under old names by schedulers of then.
    amounts = tuple(amounts_from(kind, with_current_names(allocated.resources)))
    template = extension.gpu_shared_resource_template
    return CardAllocation(kind, allocated.minor, amounts, functions, template)


def _together(one: CardAllocation, other: CardAllocation) -> CardAllocation:
    """Two entries about one card; nobody gets more than the kernel can count."""
    amounts = tuple(min(a + b, 1 << 50) for a, b in zip(one.amounts, other.amounts, strict=True))
    return one._replace(amounts=amounts, functions=one.functions + other.functions)


def allocation_text(holdings: CardAllocations, id_of: Callable[[str, int], str]) -> str:
    """The value of ``device-allocated``.

    Args:
        holdings: what the pod got.
        id_of: a card's UUID by type and minor.
    """
    by_type: dict[str, list[AllocatedDevice]] = {}
    for held in holdings:
        resources = resource_list(held.type, held.amounts)
        card = AllocatedDevice(held.minor, resources, id_of(held.type, held.minor))
        if held.functions or held.template:
            vfs = [AllocatedVF(vf.minor, vf.bus_id) for vf in held.functions]
            card.extension = AllocationExtension(vfs, held.template)
        by_type.setdefault(held.type, []).append(card)
    return annotation.text(by_type)


def sums(holdings: Iterable[CardAllocation]) -> dict[str, int]:
    """Amounts over all cards, by resource."""
    total: dict[str, int] = {}
    for held in holdings:
        for name, amount in zip(RESOURCES[held.type], held.amounts, strict=True):
            if amount:
                total[name] = total.get(name, 0) + amount
    return total
