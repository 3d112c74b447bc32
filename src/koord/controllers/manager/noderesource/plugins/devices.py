# SPDX-License-Identifier: Apache-2.0
"""GPUDeviceResource and RDMADeviceResource: a node's cards as resources, GPUs as labels too.

Rule: docs/reference/node-resources.md#gpu-and-rdma-resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.api.protocol import resources as names
from koord.base.errors import KoordError
from koord.controllers.manager.noderesource.plugins.plugin import differing
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from koord.api.kinds.device import Device, DeviceInfo
    from koord.api.kinds.node import Node
    from koord.controllers.manager.noderesource.plugins.plugin import (
        CalculatedResources,
        DesiredNode,
        NodeInputs,
    )

GPU_RESOURCES = (
    names.GPU, names.GPU_CORE, names.NPU_CORE, names.NPU_CPU, names.NPU_DVPP,
    names.GPU_MEMORY, names.GPU_MEMORY_RATIO, names.GPU_SHARED,
)  # fmt: skip
# Each label of a Device, and its older name on nodes.
GPU_LABELS = {
    keys.GPU_VENDOR: "",
    keys.GPU_MODEL: keys.GPU_MODEL_OLD,
    keys.GPU_DRIVER_VERSION: keys.GPU_DRIVER_OLD,
}
_NVIDIA = ("", "nvidia")
_WHOLE = 100
_ZERO = Quantity()


class GPUDeviceResource:
    """What the GPUs of a node's Device add up to.

    Args:
        shared: also how many cards may be shared (gate ``EnableSyncGPUSharedResource``).
        old_labels: also labels under their names from before Koordinator 1.0.
    """

    name = "GPUDeviceResource"

    def __init__(self, *, shared: bool = False, old_labels: bool = True) -> None:
        self._shared = shared
        self._old_labels = old_labels

    def calculate(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Adds resources and labels, or takes them away where no GPU is left.

        Raises:
            KoordError: the node has no allocatable resources yet.
        """
        _need_allocatable(seen.node)
        healthy = _healthy(seen.device, "gpu")
        if seen.device is None or not healthy:
            result.amounts.update(dict.fromkeys(GPU_RESOURCES))
        else:
            result.amounts.update(self._sums(seen.device, healthy))
        self._label(seen, result)

    def reset(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Nothing: what is there stays."""

    def prepare(self, node: Node, result: CalculatedResources, wanted: DesiredNode) -> None:
        """The resources and labels as calculated; what was not stays on the node."""
        for name in GPU_RESOURCES:
            if name in result.amounts:
                wanted.resources[name] = result.amounts[name]
        wanted.labels.update(result.labels)

    def meta_due(self, node: Node, wanted: DesiredNode) -> bool:
        """Whether any label differs."""
        return bool(differing(node.metadata.labels, wanted.labels))

    def _sums(self, device: Device, healthy: list[DeviceInfo]) -> dict[str, Quantity | None]:
        sums: dict[str, Quantity | None] = {}
        for card in healthy:
            for name, amount in card.resources.items():
                sums[name] = (sums.get(name) or _ZERO) + amount
        if device.metadata.labels.get(keys.GPU_VENDOR, "") in _NVIDIA:
            sums[names.GPU] = sums.get(names.GPU_CORE) or _ZERO
        on = self._shared
        sums[names.GPU_SHARED] = Quantity.from_value(_WHOLE * len(healthy)) if on else None
        return {name: sums[name] for name in GPU_RESOURCES if name in sums}

    def _label(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Labels follow the Device; they go only with its last GPU, broken ones included.

        A driver's own DaemonSet may select nodes by them, and has to stay while it mends the cards.
        """
        has = seen.node.metadata.labels
        gpus = [] if seen.device is None else [d for d in seen.device.spec.devices
                                               if d.type == "gpu"]  # fmt: skip
        gone = not gpus and (seen.had_gpus or _shows_gpus(seen.node))
        told = seen.device.metadata.labels if seen.device is not None and gpus else {}
        for key, old in GPU_LABELS.items():
            text = told.get(key)
            if text is not None:
                result.labels[key] = text
            elif gone:
                result.labels[key] = None
            if not old:
                continue
            # An older name with another value is not of our making.
            mine = has.get(old) is not None and has.get(old) == has.get(key)
            if text is not None and self._old_labels:
                result.labels[old] = text
            elif mine and (gone or not self._old_labels):
                result.labels[old] = None


class RDMADeviceResource:
    """A hundred for each healthy RDMA card, whatever the card itself says."""

    name = "RDMADeviceResource"

    def calculate(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Adds the amount, or takes it away where no card is left.

        Raises:
            KoordError: the node has no allocatable resources yet.
        """
        _need_allocatable(seen.node)
        count = len(_healthy(seen.device, "rdma"))
        result.amounts[names.RDMA] = Quantity.from_value(_WHOLE * count) if count else None

    def reset(self, seen: NodeInputs, result: CalculatedResources) -> None:
        """Nothing: what is there stays."""

    def prepare(self, node: Node, result: CalculatedResources, wanted: DesiredNode) -> None:
        """The amount as calculated."""
        if names.RDMA in result.amounts:
            wanted.resources[names.RDMA] = result.amounts[names.RDMA]

    def meta_due(self, node: Node, wanted: DesiredNode) -> bool:
        """Never: there are no labels."""
        return False


def has_gpus(device: Device) -> bool:
    """Whether a Device lists a GPU, healthy or not."""
    return any(card.type == "gpu" for card in device.spec.devices)


def _need_allocatable(node: Node) -> None:
    if not node.status.allocatable:
        raise KoordError(node.title, "status.allocatable", None, "what the kubelet reports")


def _healthy(device: Device | None, kind: str) -> list[DeviceInfo]:
    cards = device.spec.devices if device is not None else []
    return [card for card in cards if card.type == kind and card.health]


def _shows_gpus(node: Node) -> bool:
    return any(name in node.status.allocatable for name in GPU_RESOURCES)
