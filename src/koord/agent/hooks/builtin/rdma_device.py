# SPDX-License-Identifier: Apache-2.0
"""RDMA devices: the character devices of the cards that the scheduler gave a pod.

Rule: docs/reference/hooks.md#rdma-devices.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import ContainerContext, HookResponse, HookStage, PodContext
from koord.agent.hooks.pod_contexts import read_once
from koord.api.protocol import keys
from koord.api.protocol.scheduling import AllocatedDevice, device_allocated
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.agent.hooks.options import HookOptions

CONNECTION_MANAGER = "/dev/infiniband/rdma_cm"
_PCI = re.compile(r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")
_VERBS = re.compile(r"[A-Za-z0-9_]+")


class RDMADeviceInject(BaseHook):
    """Answers the device files of a pod's RDMA cards; the delivery looks up their numbers."""

    name = "rdma device inject"
    gate = "RDMADeviceInject"
    stages = frozenset({HookStage.PRE_CREATE_CONTAINER})

    def __init__(self, options: HookOptions) -> None:
        self._options = options

    def container(self, context: ContainerContext) -> HookResponse | None:
        """Paths of devices, in the order of the allocation.

        Raises:
            KoordError: the allocation is malformed, or a device is not there.
        """
        pod = context.pod
        cards = read_once(pod, device_allocated).get("rdma", [])
        if pod.reconciling or not context.name or not cards:
            return None
        functions = [bus for card in cards for bus in _functions(card)]
        devices = [CONNECTION_MANAGER, *(self._verbs(pod, bus) for bus in functions)]
        return HookResponse(devices=devices, reason="RDMA devices that the scheduler gave")

    def _verbs(self, pod: PodContext, bus: str) -> str:
        found: list[str] = []
        if _PCI.fullmatch(bus):
            found = self._options.pci_names(f"{bus}/infiniband_verbs")
        if not found or not _VERBS.fullmatch(found[0]):
            where = f"pod {pod.namespace}/{pod.name}"
            field = f"annotations[{keys.DEVICE_ALLOCATED}].rdma"
            raise KoordError(where, field, bus, "the PCI address of an RDMA device of this node")
        return f"/dev/infiniband/{found[0]}"


def _functions(card: AllocatedDevice) -> list[str]:
    virtual = card.extension.vfs if card.extension else []
    return [function.bus_id for function in virtual] or [card.id]
