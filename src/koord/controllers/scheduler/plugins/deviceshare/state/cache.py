# SPDX-License-Identifier: Apache-2.0
"""The cards of every node and who holds them: a row a node, one native table a device type.

What counts as used is what a pod sees that matches no reservation: what pods hold, and of each
reservation what its owners have not taken yet. A reservation's devices are those of its reserve
pod, whose uid is the reservation's; its owners are the pods that use it. So nothing is
counted twice, and a pod that matches a reservation is given :meth:`DeviceCache.remaining` back.

Rules: docs/reference/devices.md#device-objects and
docs/reference/devices.md#reserved-devices.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.controllers.scheduler.plugins.deviceshare.names import RESOURCES, TYPES
from koord.controllers.scheduler.plugins.deviceshare.objects.device import unhealthy
from koord.kernels.devices import DeviceTable
from koord.kernels.devices_assign import set_partitions

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.controllers.scheduler.plugins.deviceshare.objects.allocation_annotation import (
        CardAllocation,
        CardAllocations,
    )
    from koord.controllers.scheduler.plugins.deviceshare.objects.device import DeviceInventory
    from koord.kernels.devices_assign import PartitionTable

RemainingAmounts = dict[tuple[str, int], tuple[int, ...]]
"""By type and minor, amounts in the order of the type's resources."""


@dataclass(slots=True)
class DeviceHolder:
    """A pod that holds devices.

    Attributes:
        key: ``namespace/name``.
        holdings: what it holds.
        reservation_pairs: pairs of uids, of a reservation and of a pod that uses it, as this pod
            declares them: of an owner one, of a reserve pod one for each pod that it takes over.
        charged: what is charged for it; of a reserve pod, what its owners left.
    """

    key: str
    holdings: CardAllocations
    reservation_pairs: tuple[tuple[str, str], ...]
    charged: RemainingAmounts


@dataclass(slots=True)
class NodeDevices:
    """The devices of the node of one row.

    Attributes:
        name: of the node; a row may be used again for another one.
        inventory: its cards; None until a Device was seen.
        holders: by pod uid.
        owners: by reservation uid, the pods that use it.
        functions: by type and bus, how many hold a virtual function.
    """

    name: str
    inventory: DeviceInventory | None = None
    holders: dict[str, DeviceHolder] = field(default_factory=dict)
    owners: dict[str, list[str]] = field(default_factory=dict)
    functions: dict[tuple[str, str], int] = field(default_factory=dict)

    def id_of(self, device_type: str, minor: int) -> str:
        """The UUID of a card, "" if it is not there (any more)."""
        cards = self.inventory.cards.get(device_type, {}) if self.inventory is not None else {}
        return cards[minor].id if minor in cards else ""


class DeviceCache:
    """The cards of every node, in use or free, and the pods that hold them.

    Attributes:
        tables: native state by device type, indexed by row.
        nodes: by row.
    """

    def __init__(self) -> None:
        self.tables = {kind: DeviceTable(RESOURCES[kind]) for kind in TYPES}
        self.nodes: list[NodeDevices] = []

    def open(self, row: int, name: str) -> NodeDevices:
        """The row of a node; whatever a former node of the row left there is forgotten."""
        while len(self.nodes) <= row:
            self.nodes.append(NodeDevices(""))
            for table in self.tables.values():
                table.add_row(())
        node = self.nodes[row]
        if node.name != name:
            self.close(row)
            node = self.nodes[row] = NodeDevices(name)
        return node

    def close(self, row: int) -> None:
        """Forgets the node of a row with its devices and whoever holds them."""
        for uid in list(self.nodes[row].holders):
            self.drop(row, uid)
        for table in self.tables.values():
            table.update_row(row, ())
            set_partitions(table, row, None, honour=False)
        self.nodes[row] = NodeDevices("")

    def set_inventory(
        self,
        row: int,
        inventory: DeviceInventory,
        partitions: PartitionTable | None,
        *,
        honour: bool,
    ) -> None:
        """Takes over the cards of a node; what is used stays used.

        Args:
            row: of the node.
            inventory: its cards.
            partitions: of its GPUs, be it from the Device or from their model.
            honour: whole GPUs are given as partitions only.
        """
        self.nodes[row].inventory = inventory
        for kind, table in self.tables.items():
            cards = inventory.cards.get(kind, {})
            table.update_row(row, [listed.card for listed in cards.values()])
        set_partitions(self.tables[TYPES[0]], row, partitions, honour=honour)

    def remove_device(self, row: int) -> None:
        """The Device is gone: no card may be given out, what is used stays used."""
        node = self.nodes[row]
        if node.inventory is None:
            return
        node.inventory = unhealthy(node.inventory)
        for kind, table in self.tables.items():
            cards = node.inventory.cards.get(kind, {})
            table.update_row(row, [listed.card for listed in cards.values()])

    def add(
        self,
        row: int,
        uid: str,
        key: str,
        holdings: CardAllocations,
        reservation: str = "",
        taken_over: tuple[str, ...] = (),
    ) -> None:
        """Counts a pod's devices; a uid that counts already is left as it is.

        Args:
            row: of its node.
            uid: the pod's; of a reserve pod, the reservation's.
            key: ``namespace/name``.
            holdings: what it holds.
            reservation: uid of the reservation that it uses.
            taken_over: of a reserve pod, uids of the running pods whose place it takes
                (docs/reference/reservations.md#pre-allocation).
        """
        node = self.nodes[row]
        if uid in node.holders:
            return
        pairs = [(reservation, uid)] if reservation and reservation != uid else []
        pairs += [(uid, other) for other in taken_over if other != uid]
        holder = node.holders[uid] = DeviceHolder(key, holdings, tuple(pairs), {})
        self._count_functions(node, holdings, 1)
        for reserve_uid, owner in pairs:
            node.owners.setdefault(reserve_uid, []).append(owner)
        self._charge(row, uid, holder)
        self._recharge(row, uid)

    def drop(self, row: int, uid: str) -> None:
        """The exact inverse of :meth:`add`; an unknown uid is left alone."""
        node = self.nodes[row]
        holder = node.holders.pop(uid, None)
        if holder is None:
            return
        self._discharge(row, holder)
        self._count_functions(node, holder.holdings, -1)
        self._recharge(row, uid)
        for reserve_uid, owner in holder.reservation_pairs:
            owners = node.owners[reserve_uid]
            owners.remove(owner)
            if not owners:
                del node.owners[reserve_uid]

    def remaining(self, row: int, reservation: str) -> RemainingAmounts:
        """What of a reservation's devices its owners have not taken; all its cards are named."""
        holder = self.nodes[row].holders.get(reservation)
        return dict(holder.charged) if holder is not None else {}

    def reserved(self, row: int, reservation: str) -> CardAllocations:
        """The devices of a reservation; empty if it holds none here."""
        holder = self.nodes[row].holders.get(reservation)
        return holder.holdings if holder is not None else ()

    def holdings(self, row: int) -> tuple[object, ...]:
        """Who holds what of a row, what is charged for it, functions in use, and used amounts."""
        node = self.nodes[row]
        used = [
            {minor: amount for minor, amount in enumerate(table.used(row, name)) if amount}
            for kind, table in self.tables.items()
            for name in RESOURCES[kind]
        ]
        held = {uid: (holder.holdings, holder.charged) for uid, holder in node.holders.items()}
        return held, node.functions, used

    def taken_functions(self, row: int, device_type: str, returned: Iterable[str]) -> set[str]:
        """Buses of the virtual functions that a pod may not have.

        Args:
            row: of the node.
            device_type: of the cards.
            returned: reservations whose functions the pod may have, unless an owner does.
        """
        node = self.nodes[row]
        counts = {bus: held for (kind, bus), held in node.functions.items() if kind == device_type}
        for reservation in returned:
            for held in self.reserved(row, reservation):
                for function in held.functions if held.type == device_type else ():
                    counts[function.bus_id] -= 1
        return {bus for bus, held in counts.items() if held > 0}

    def _left(self, node: NodeDevices, uid: str, holdings: CardAllocations) -> RemainingAmounts:
        """What the owners of a reservation leave of it; of any other pod, all it holds."""
        left = {(held.type, held.minor): held.amounts for held in holdings}
        for owner in dict.fromkeys(node.owners.get(uid, ())):
            holder = node.holders.get(owner)
            for held in holder.holdings if holder is not None else ():
                before = left.get((held.type, held.minor))
                if before is not None:
                    left[held.type, held.minor] = _less(before, held)
        return left

    def _charge(self, row: int, uid: str, holder: DeviceHolder) -> None:
        holder.charged = self._left(self.nodes[row], uid, holder.holdings)
        for (kind, minor), amounts in holder.charged.items():
            self.tables[kind].native.charge(row, minor, amounts)

    def _discharge(self, row: int, holder: DeviceHolder) -> None:
        for (kind, minor), amounts in holder.charged.items():
            self.tables[kind].native.discharge(row, minor, amounts)

    def _recharge(self, row: int, owner: str) -> None:
        """Charges anew what the reservations that a pod uses have left."""
        node = self.nodes[row]
        for reservation, owners in node.owners.items():
            holder = node.holders.get(reservation)
            if owner in owners and holder is not None:
                self._discharge(row, holder)
                self._charge(row, reservation, holder)

    def _count_functions(self, node: NodeDevices, holdings: CardAllocations, sign: int) -> None:
        for held in holdings:
            for function in held.functions:
                key = (held.type, function.bus_id)
                count = node.functions.get(key, 0) + sign
                if count:
                    node.functions[key] = count
                else:
                    del node.functions[key]


def _less(amounts: tuple[int, ...], held: CardAllocation) -> tuple[int, ...]:
    return tuple(max(0, a - b) for a, b in zip(amounts, held.amounts, strict=True))
