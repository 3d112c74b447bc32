# SPDX-License-Identifier: Apache-2.0
"""RDMA devices: the character devices of the cards that the scheduler gave a pod.

Rule: docs/reference/hooks.md#rdma-devices.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import (
    ContainerContext,
    DeviceFile,
    HookResponse,
    HookStage,
    PodContext,
)
from koord.agent.hooks.pod_contexts import read_once
from koord.api.protocol import keys
from koord.api.protocol.scheduling import AllocatedDevice, device_allocated
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions

_FOLDER, _MANAGER = "/dev/infiniband", "rdma_cm"
_PCI = re.compile(r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_VERBS = re.compile(r"[A-Za-z0-9_]+")


class RDMADeviceInject(BaseHook):
    """Answers the device files of a pod's RDMA cards, by the numbers that sysfs has of them."""

    name = "rdma device inject"
    gate = "RDMADeviceInject"
    stages = frozenset({HookStage.PRE_CREATE_CONTAINER})

    def __init__(self, options: HookOptions) -> None:
        self._options = options

    def container(self, context: ContainerContext) -> HookResponse | None:
        """The connection manager, then devices in the order of the allocation.

        Raises:
            KoordError: the allocation is malformed, or a device is not there.
        """
        pod = context.pod
        cards = read_once(pod, device_allocated).get("rdma", [])
        if pod.reconciling or not context.name or not cards:
            return None
        functions = [bus for card in cards for bus in _functions(card)]
        verbs = [self._verbs(pod, bus) for bus in functions]
        devices = [self._file(pod, _MANAGER, f"class/misc/{_MANAGER}", _MANAGER), *verbs]
        return HookResponse(devices=devices, reason="RDMA devices that the scheduler gave")

    def _verbs(self, pod: PodContext, bus: str) -> DeviceFile:
        found: list[str] = []
        if _PCI.fullmatch(bus):
            found = self._options.pci_names(f"{bus}/infiniband_verbs")
        if not found or not _VERBS.fullmatch(found[0]):
            raise _error(pod, bus, "the PCI address of an RDMA device of this node")
        folder = f"bus/pci/devices/{bus}/infiniband_verbs"
        return self._file(pod, found[0], f"{folder}/{found[0]}", bus)

    def _file(self, pod: PodContext, name: str, folder: str, value: str) -> DeviceFile:
        numbers = self._options.device_numbers(folder)
        if numbers is None:
            raise _error(pod, value, f"a device with the file dev in {folder} of sysfs")
        return DeviceFile(f"{_FOLDER}/{name}", *numbers)


def _error(pod: PodContext, value: str, expected: str) -> KoordError:
    where = f"pod {pod.namespace}/{pod.name}"
    return KoordError(where, f"annotations[{keys.DEVICE_ALLOCATED}].rdma", value, expected)


def _functions(card: AllocatedDevice) -> list[str]:
    virtual = card.extension.vfs if card.extension else []
    return [function.bus_id for function in virtual] or [card.id]
