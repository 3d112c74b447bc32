# SPDX-License-Identifier: Apache-2.0
"""A Device object read once: cards by type and minor, where they are, what links them; and what
is different between two states of it.

What cannot be read is left out and named: a node with one broken entry still has its other cards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from koord.api import selectors
from koord.api.protocol import keys
from koord.base.errors import value_text
from koord.controllers.scheduler.plugins.deviceshare.names import GPU, RESOURCES, TYPES
from koord.controllers.scheduler.plugins.deviceshare.objects.gpu_partitions import (
    InvalidPartitionsError,
    partition_table,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.quantities import amounts_from
from koord.kernels.devices import Device as Card
from koord.kernels.devices_assign import NOWHERE

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.api.kinds.device import Device, DeviceInfo, VirtualFunctionGroup
    from koord.api.kinds.meta import LabelSelector
    from koord.kernels.devices_assign import PartitionTable

_MOST_MINORS = 64


@dataclass(slots=True)
class InventoryCard:
    """One card: what the kernel reads of it, and what only people and selectors do."""

    card: Card
    id: str
    labels: dict[str, str]
    vf_groups: list[VirtualFunctionGroup]


@dataclass(slots=True)
class DeviceInventory:
    """The cards of one node.

    Attributes:
        cards: by type and minor.
        partitions: of its GPUs; None if the Device has no table.
        labels: of the Device.
        problems: one line each about what was left out.
    """

    cards: dict[str, dict[int, InventoryCard]] = field(default_factory=dict)
    partitions: PartitionTable | None = None
    labels: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def well_planned(self) -> bool:
        """Whether secondary devices are sure to be there for whole GPUs.

        Rule: docs/reference/devices.md#joint-allocation.
        """
        return self.labels.get(keys.SECONDARY_DEVICE_WELL_PLANNED) == "true"

    def has_vfs(self, device_type: str) -> bool:
        """Whether any card of a type has virtual functions."""
        return any(listed.vf_groups for listed in self.cards.get(device_type, {}).values())

    def selected(self, device_type: str, selector: LabelSelector) -> int:
        """The minors whose labels a selector matches, as a word."""
        word = 0
        for minor, listed in self.cards.get(device_type, {}).items():
            if selectors.matches(selector, listed.labels):
                word |= 1 << minor
        return word

    def pcies(self, device_type: str, minors: int) -> list[int]:
        """The PCIe roots of some minors, ascending; those of unknown place have none."""
        cards = self.cards.get(device_type, {})
        found = {
            listed.card.pcie
            for minor, listed in cards.items()
            if minors >> minor & 1 and listed.card.numa_node != NOWHERE
        }
        return sorted(found)

    def on_pcies(self, device_type: str, pcies: Collection[int]) -> int:
        """The minors on some PCIe roots, as a word."""
        word = 0
        for minor, listed in self.cards.get(device_type, {}).items():
            if listed.card.pcie in pcies and listed.card.numa_node != NOWHERE:
                word |= 1 << minor
        return word

    def numa_nodes(self) -> list[int]:
        """NUMA nodes that have devices, ascending."""
        found = {
            listed.card.numa_node
            for cards in self.cards.values()
            for listed in cards.values()
            if listed.card.numa_node >= 0
        }
        return sorted(found)


def read_device(device: Device) -> DeviceInventory:
    """The cards of a Device object; types that the scheduler does not give out are left out."""
    inventory = DeviceInventory(labels=device.metadata.labels)
    pcies = _pcies(device)
    problems: dict[str, list[str]] = {}
    for index, info in enumerate(device.spec.devices):
        if info.type not in RESOURCES:
            continue
        problem = _take(inventory, info, pcies)
        if problem:
            line = f"{device.title}: spec.devices[{index}].{problem}"
            problems.setdefault(problem.partition("expected")[2], []).append(line)
    # What is wrong in the same way is said once.
    for lines in problems.values():
        more = f" (and {len(lines) - 1} more like it)" if len(lines) > 1 else ""
        inventory.problems.append(lines[0] + more)
    try:
        inventory.partitions = partition_table(device)
    except InvalidPartitionsError as error:
        inventory.problems.append(str(error))
    return inventory


def unhealthy(inventory: DeviceInventory) -> DeviceInventory:
    """The same cards, none of which may be given out: what a deleted Device leaves behind."""
    cards = {
        kind: {
            minor: InventoryCard(
                Card(minor, {}, one.card.numa_node, one.card.pcie, healthy=False),
                one.id,
                one.labels,
                one.vf_groups,
            )
            for minor, one in listed.items()
        }
        for kind, listed in inventory.cards.items()
    }
    return DeviceInventory(cards, inventory.partitions, inventory.labels)


def _pcies(device: Device) -> dict[str, int]:
    """PCIe roots by number, in the order of their ids as text."""
    ids = {info.topology.pcie_id for info in device.spec.devices if info.topology is not None}
    return {pcie: number for number, pcie in enumerate(sorted(ids))}


def _take(inventory: DeviceInventory, info: DeviceInfo, pcies: dict[str, int]) -> str:
    """Adds a card; returns why not where it cannot be read, "" where it can."""
    cards = inventory.cards.setdefault(info.type, {})
    if info.minor is None or not 0 <= info.minor < _MOST_MINORS:
        return f"minor: got {value_text(info.minor)}, expected 0 to {_MOST_MINORS - 1}"
    if info.minor in cards:
        return f"minor: got {info.minor}, expected each minor once"
    try:
        amounts = amounts_from(info.type, info.resources)
    except ValueError as error:
        return f"resources: {error}"
    total = dict(zip(RESOURCES[info.type], amounts, strict=True))
    place = info.topology
    numa = place.node_id if place is not None and -1 <= place.node_id < 64 else NOWHERE
    pcie = pcies[place.pcie_id] if place is not None else -1
    card = Card(info.minor, total, numa, pcie, healthy=info.health)
    cards[info.minor] = InventoryCard(card, info.id, info.labels, info.vf_groups)
    return ""


class DeviceChange(NamedTuple):
    """What became of the devices of a node, or of all nodes.

    Attributes:
        gained: types of which a card is there, whole or larger, or elsewhere than it was.
        changed: types of which anything is different.
    """

    gained: frozenset[str]
    changed: frozenset[str]


EVERYTHING_CHANGED = DeviceChange(frozenset(TYPES), frozenset(TYPES))
"""What stands for any change: every type may have gained."""


def device_change(old: DeviceInventory | None, new: DeviceInventory | None) -> DeviceChange:
    """From one state of a node's Device to the next; None where there is none."""
    if old is not None and new is not None and old.labels != new.labels:
        return EVERYTHING_CHANGED
    gained, changed = set(), set()
    if old is not None and new is not None and old.partitions != new.partitions:
        gained, changed = {GPU}, {GPU}
    for kind in TYPES:
        before = old.cards.get(kind, {}) if old is not None else {}
        now = new.cards.get(kind, {}) if new is not None else {}
        if before != now:
            changed.add(kind)
        if any(_gains(before.get(minor), listed) for minor, listed in now.items()):
            gained.add(kind)
    return DeviceChange(frozenset(gained), frozenset(changed))


def _gains(before: InventoryCard | None, now: InventoryCard) -> bool:
    if not now.card.healthy:
        return False
    if before is None or not before.card.healthy:
        return True
    had, has = before.card, now.card
    placed = (had.numa_node, had.pcie) != (has.numa_node, has.pcie)
    described = (before.id, before.labels, before.vf_groups) != (now.id, now.labels, now.vf_groups)
    larger = any(has.total[name] > had.total.get(name, 0) for name in has.total)
    return placed or described or larger
