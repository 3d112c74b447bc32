# SPDX-License-Identifier: Apache-2.0
"""Follows nodes and Device objects: keeps the cache, and the columns of quick filters, true."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.device import Device
from koord.api.protocol import keys
from koord.api.protocol.nodes import HONOR, gpu_partition_policy
from koord.base import log
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.plugins.deviceshare.names import DEVICES_EVENT
from koord.controllers.scheduler.plugins.deviceshare.objects.device import (
    DeviceInventory,
    device_change,
    read_device,
)
from koord.controllers.scheduler.plugins.deviceshare.objects.gpu_partitions import model_partitions
from koord.controllers.scheduler.plugins.deviceshare.state.cache import DeviceCache
from koord.controllers.scheduler.plugins.deviceshare.state.columns import DeviceColumns
from koord.controllers.scheduler.queue.events import Action

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.node import Node
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.scheduler.framework.handle import Handle

# Plain integers: these are tested for every change, and flags of an enumeration are slow.
_NODE = int(Aspect.NODE)
_DEVICES = int(Aspect.DEVICES)
_LOG = log.get("scheduler.deviceshare")


class DeviceTracker:
    """Keeps the cards of every node as its Device object and the Node say.

    Args:
        handle: for the node table and the Devices.

    Attributes:
        cache: who has and holds what.
        columns: what quick filters read of every node.
        changed: rows that changed since somebody emptied this set.
    """

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._table: NodeTable = handle.table
        self._devices: dict[str, DeviceInventory] = {}
        self._nodes: list[Node | None] = []
        self._seen = -1
        self.cache = DeviceCache()
        self.columns = DeviceColumns()
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

    def vendor_and_model(self, row: int) -> tuple[str, str]:
        """Of a node's GPUs, from the node's labels, else the Device's."""
        node = self._table.nodes[row]
        inventory = self.cache.nodes[row].inventory
        own = node.metadata.labels if node is not None else {}
        other = inventory.labels if inventory is not None else {}
        vendor, model = keys.GPU_VENDOR, keys.GPU_MODEL
        return own.get(vendor) or other.get(vendor, ""), own.get(model) or other.get(model, "")

    def device(self, name: str) -> DeviceInventory | None:
        """The cards of the Device of that name; None where there is none."""
        return self._devices.get(name)

    def _added(self, device: Device) -> None:
        self._read(device)
        change = device_change(None, self.device(device.metadata.name))
        self._handle.wake(DEVICES_EVENT, Action.ADD, None, change)

    def _updated(self, old: Device, device: Device) -> None:
        before = self.device(device.metadata.name)
        self._read(device)
        change = device_change(before, self.device(device.metadata.name))
        self._handle.wake(DEVICES_EVENT, Action.UPDATE, None, change)

    def _read(self, device: Device) -> None:
        name = device.metadata.name
        inventory = self._devices[name] = read_device(device)
        for problem in inventory.problems:
            _LOG.warning("a part of a Device is left out", extra=log.fields(reason=problem))
        self._apply_inventory(name)

    def _deleted(self, device: Device, unknown: bool) -> None:
        name = device.metadata.name
        before = self._devices.pop(name, None)
        row = self._table.row(name)
        self.follow()
        if row is not None:
            self.cache.remove_device(row)
            self._table.touch(row, _DEVICES)
        self._handle.wake(DEVICES_EVENT, Action.DELETE, None, device_change(before, None))

    def _apply_inventory(self, name: str) -> None:
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
        self.columns.grow(len(self._table.open))
        if node is None:
            if row < len(self.cache.nodes):
                self.cache.close(row)
            self.columns.describe(row, None)
            return
        self.cache.open(row, node.metadata.name)
        self.columns.isolate(row, node.metadata.labels.get(keys.GPU_ISOLATION_PROVIDER, ""))
        self._take_inventory(row)

    def _take_inventory(self, row: int) -> None:
        inventory = self._devices.get(self._table.name(row))
        if inventory is not None:
            node = self.cache.nodes[row]
            node.inventory = inventory
            vendor, model = self.vendor_and_model(row)
            partitions, labels = inventory.partitions, inventory.labels
            if partitions is None:
                api_node = self._table.nodes[row]
                partitions = model_partitions(vendor, model)
                labels = api_node.metadata.labels if api_node is not None else {}
            honour = gpu_partition_policy(labels) == HONOR
            self.cache.set_inventory(row, inventory, partitions, honour=honour)
        known = self.cache.nodes[row].inventory
        gpus = self.vendor_and_model(row) if known is not None else ("", "")
        self.columns.describe(row, known, gpus)
