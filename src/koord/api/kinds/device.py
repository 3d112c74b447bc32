# SPDX-License-Identifier: Apache-2.0
"""Device: the GPUs, RDMA and FPGA cards of a node."""

from __future__ import annotations

from typing import Annotated

from msgspec import field

from koord.api.kinds.meta import Condition, Object, ResourceList
from koord.api.schema import REQUIRED, Int32, Schema
from koord.api.wirestruct import WireStruct, emitted


class DeviceTopology(WireStruct):
    """Where in the machine a device sits."""

    socket_id: Annotated[Int32, REQUIRED] = emitted(int)
    node_id: Annotated[Int32, REQUIRED] = emitted(int)
    pcie_id: Annotated[str, REQUIRED] = emitted(str)
    bus_id: str = ""


class VirtualFunction(WireStruct):
    """One virtual function of a card."""

    minor: Annotated[Int32, REQUIRED] = emitted(int)
    bus_id: str = ""


class VirtualFunctionGroup(WireStruct):
    """Virtual functions that are alike."""

    labels: dict[str, str] = {}
    vfs: list[VirtualFunction] = []


class DeviceInfo(WireStruct):
    """One card.

    Attributes:
        type: gpu, rdma, fpga or another name.
        id: the card's UUID.
        minor: its number on the node.
        health: whether it may be given out.
        resources: what it offers.
    """

    type: str = ""
    labels: dict[str, str] = {}
    id: str = ""
    minor: Int32 | None = None
    module_id: Int32 | None = None
    health: Annotated[bool, Schema(default=False, required=True)] = emitted(bool)
    resources: ResourceList = {}
    topology: DeviceTopology | None = None
    vf_groups: list[VirtualFunctionGroup] = []
    conditions: list[Condition] = []


class DeviceSpec(WireStruct):
    """The cards of a node."""

    devices: list[DeviceInfo] = []


class DeviceAllocationEntry(WireStruct):
    """What one pod holds.

    Attributes:
        uuid: the pod's UID.
        minors: the cards.
        resources: how much of each card; all of it if empty.
    """

    name: str = ""
    namespace: str = ""
    uuid: str = ""
    minors: list[Int32] = []
    resources: ResourceList = {}


class DeviceAllocation(WireStruct):
    """Who holds the cards of one type."""

    type: str = ""
    entries: list[DeviceAllocationEntry] = []


class DeviceStatus(WireStruct):
    """Who holds which cards."""

    allocations: list[DeviceAllocation] = []


class Device(Object):
    """The cards of the node of the same name."""

    spec: DeviceSpec = field(default_factory=DeviceSpec)
    status: DeviceStatus = field(default_factory=DeviceStatus)
