# SPDX-License-Identifier: Apache-2.0
"""Follows nodes and Device objects into the cache, and keeps columns that quick filters read."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from koord.api.kinds.device import Device
from koord.api.protocol import keys
from koord.api.protocol.nodes import HONOR, gpu_partition_policy
from koord.base import log
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.plugins.deviceshare.cache import DeviceCache
from koord.controllers.scheduler.plugins.deviceshare.inventory import Inventory, read_device
from koord.controllers.scheduler.plugins.deviceshare.names import DEVICES_EVENT, TYPES
from koord.controllers.scheduler.plugins.deviceshare.partitions import model_partitions
from koord.controllers.scheduler.plugins.deviceshare.waking import change_of
from koord.controllers.scheduler.queue.events import Action

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from koord.api.kinds.node import Node
    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.scheduler.framework.handle import Handle

T = TypeVar("T", bound=np.generic)

# Plain integers: these are tested for every change, and flags of an enumeration are slow.
_NODE = int(Aspect.NODE)
_DEVICES = int(Aspect.DEVICES)
_LOG = log.get("scheduler.deviceshare")


class Tracker:
    """The cache, kept true.

    Args:
        handle: for the node table and the Devices.

    Attributes:
        cache: who has and holds what.
        known: bool by row: a Device of the node was seen.
        has: by type, bool by row: the node reports cards of it, healthy or not.
        well_planned: bool by row, see :attr:`Inventory.well_planned`.
        isolation: by row, the node's GPU isolation provider as a :meth:`code`.
        model: by row, vendor and model of its GPUs as a :meth:`code`.
        changed: rows that changed since somebody emptied this set.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._table: NodeTable = handle.table
        self._devices: dict[str, Inventory] = {}
        self._nodes: list[Node | None] = []
        self._codes: dict[tuple[str, ...], int] = {}
        self._seen = -1
        self.cache = DeviceCache()
        self.known = np.zeros(0, np.bool_)
        self.well_planned = np.zeros(0, np.bool_)
        self.has = {kind: np.zeros(0, np.bool_) for kind in TYPES}
        self.isolation = np.zeros(0, np.int64)
        self.model = np.zeros(0, np.int64)
        self.changed: set[int] = set()
        handle.view(Device).on_change(self._added, self._updated, self._deleted)

    def follow(self) -> None:
        """Takes over what became of nodes since the last call; to be called before any answer."""
        version = self._table.version
        if version == self._seen:
            return
        changes = self._table.changes(self._seen) if self._seen >= 0 else None
        self._seen = version
        rows: Iterable[int]
        if changes is None:
            rows = range(self._table.size)
            self.changed.update(rows)
        else:
            rows = [row for row, aspects in changes.items() if aspects & _NODE]
            self.changed.update(changes)
        for row in rows:
            if row >= len(self._nodes) or self._nodes[row] is not self._table.nodes[row]:
                self._node(row)

    def ensure(self, row: int) -> None:
        """Like :meth:`follow` for one row, before pods are counted there."""
        if row >= len(self._nodes) or self._nodes[row] is not self._table.nodes[row]:
            self._seen = min(self._seen, self._table.version - 1)
            self.follow()

    def code(self, *words: str) -> int:
        """A number for a text or several, the same for equal ones; 0 for nothing but empty ones."""
        if not any(words):
            return 0
        return self._codes.setdefault(words, len(self._codes) + 1)

    def vendor_and_model(self, row: int) -> tuple[str, str]:
        """Of a node's GPUs, from the node's labels, else the Device's."""
        node = self._table.nodes[row]
        inventory = self.cache.nodes[row].inventory
        own = node.metadata.labels if node is not None else {}
        other = inventory.labels if inventory is not None else {}
        vendor, model = keys.GPU_VENDOR, keys.GPU_MODEL
        return own.get(vendor) or other.get(vendor, ""), own.get(model) or other.get(model, "")

    def device(self, name: str) -> Inventory | None:
        """What the Device of that name says; None where there is none."""
        return self._devices.get(name)

    def _added(self, device: Device) -> None:
        self._read(device)
        change = change_of(None, self.device(device.metadata.name))
        self._handle.wake(DEVICES_EVENT, Action.ADD, None, change)

    def _updated(self, old: Device, device: Device) -> None:
        before = self.device(device.metadata.name)
        self._read(device)
        change = change_of(before, self.device(device.metadata.name))
        self._handle.wake(DEVICES_EVENT, Action.UPDATE, None, change)

    def _read(self, device: Device) -> None:
        name = device.metadata.name
        inventory = self._devices[name] = read_device(device)
        for problem in inventory.problems:
            _LOG.warning("a part of a Device is left out", extra=log.fields(reason=problem))
        self._tell(name)

    def _deleted(self, device: Device, unknown: bool) -> None:
        name = device.metadata.name
        before = self._devices.pop(name, None)
        row = self._table.row(name)
        self.follow()
        if row is not None:
            self.cache.remove_device(row)
            self._table.touch(row, _DEVICES)
        self._handle.wake(DEVICES_EVENT, Action.DELETE, None, change_of(before, None))

    def _tell(self, name: str) -> None:
        row = self._table.row(name)
        self.follow()
        if row is not None:
            self._take_inventory(row)
            self._table.touch(row, _DEVICES)

    def _node(self, row: int) -> None:
        """A row was opened, closed or used again, or the labels of its node changed."""
        while len(self._nodes) <= row:
            self._nodes.append(None)
        node = self._nodes[row] = self._table.nodes[row]
        self._grow(len(self._table.open))
        if node is None:
            if row < len(self.cache.nodes):
                self.cache.close(row)
            self._columns(row, None)
            return
        self.cache.open(row, node.metadata.name)
        self.isolation[row] = self.code(node.metadata.labels.get(keys.GPU_ISOLATION_PROVIDER, ""))
        self._take_inventory(row)

    def _take_inventory(self, row: int) -> None:
        inventory = self._devices.get(self._table.name(row))
        if inventory is not None:
            node = self.cache.nodes[row]
            node.inventory = inventory
            vendor, model = self.vendor_and_model(row)
            partitions, labels = inventory.partitions, inventory.labels
            if partitions is None:
                at = self._table.nodes[row]
                partitions = model_partitions(vendor, model)
                labels = at.metadata.labels if at is not None else {}
            honour = gpu_partition_policy(labels) == HONOR
            self.cache.set_inventory(row, inventory, partitions, honour=honour)
        self._columns(row, self.cache.nodes[row].inventory)

    def _columns(self, row: int, inventory: Inventory | None) -> None:
        self.known[row] = inventory is not None
        self.well_planned[row] = inventory is not None and inventory.well_planned
        for kind, column in self.has.items():
            column[row] = inventory is not None and bool(inventory.cards.get(kind))
        self.model[row] = self.code(*self.vendor_and_model(row)) if inventory is not None else 0

    def _grow(self, rows: int) -> None:
        if rows <= len(self.known):
            return
        self.known, self.well_planned = _longer(self.known, rows), _longer(self.well_planned, rows)
        self.has = {kind: _longer(column, rows) for kind, column in self.has.items()}
        self.isolation, self.model = _longer(self.isolation, rows), _longer(self.model, rows)


def _longer(column: NDArray[T], rows: int) -> NDArray[T]:
    grown = np.zeros(rows, column.dtype)
    grown[: len(column)] = column
    return grown
