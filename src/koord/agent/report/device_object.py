# SPDX-License-Identifier: Apache-2.0
"""The Device of this node: its accelerators and RDMA cards.

Rule: docs/reference/reports.md#device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.agent.host.devices.gpus import NOT_WATCHED
from koord.agent.report import accelerators
from koord.agent.report.conditions import condition
from koord.agent.report.publisher import metadata_changes
from koord.agent.report.topology_object import owner
from koord.api import codec
from koord.api.kinds.device import (
    Device,
    DeviceInfo,
    DeviceSpec,
    DeviceTopology,
    VirtualFunction,
    VirtualFunctionGroup,
)
from koord.api.kinds.meta import ObjectMeta
from koord.api.protocol import keys
from koord.api.protocol.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA
from koord.kernels.quantity import Format, Quantity

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from koord.agent.host.devices.gpus import GPU
    from koord.agent.host.devices.rdma import RDMADevice
    from koord.agent.metrics.collector import MachineInventory
    from koord.api.kinds.node import Node

_WHOLE = Quantity.from_value(100)
_NVIDIA = "nvidia"


def device_object(
    node: Node, facts: MachineInventory, now: datetime, log_line: Callable[[str], None]
) -> Device:
    """The object as it should be; without devices where the node has none.

    Other accelerators win over NVIDIA's GPUs, as both would be of type gpu.

    Args:
        node: who it belongs to.
        facts: what the node has.
        now: of conditions that are new.
        log_line: gets a line about each thing of an accelerator's file that makes no sense.
    """
    labels = {keys.MANAGED_BY: "Koordinator"}
    annotations: dict[str, str] = {}
    xpus = facts.xpus.value
    if xpus:
        devices = accelerators.entries(xpus, now, log_line)
        labels |= accelerators.labels_of(xpus)
        annotations = accelerators.annotations_of(xpus, log_line)
    else:
        devices = [_gpu(gpu, now) for gpu in facts.gpus.value]
        labels |= _gpu_labels(facts)
    devices += [_rdma(card) for card in facts.rdma.value]
    return Device(
        metadata=ObjectMeta(
            name=node.metadata.name,
            labels=labels,
            annotations=annotations,
            owner_references=[owner(node)],
        ),
        spec=DeviceSpec(devices=sorted(devices, key=lambda each: (each.type, each.minor or 0))),
    )


def device_changes(published: Device, wanted: Device) -> dict[str, Any] | None:
    """What to patch; a condition whose status is the same keeps its time."""
    kept = {
        (each.id, each.type, condition.type): condition
        for each in published.spec.devices
        for condition in each.conditions
    }
    for device in wanted.spec.devices:
        for each in device.conditions:
            before = kept.get((device.id, device.type, each.type))
            if before is not None and before.status == each.status:
                each.last_transition_time = before.last_transition_time
    metadata = metadata_changes(published, wanted, _own(published, wanted))
    change: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if published.spec != wanted.spec:
        # A merge patch with an empty document would change nothing.
        change["spec"] = {"devices": [], **codec.to_document(wanted.spec)}
    return change or None


def _own(published: Device, wanted: Device) -> dict[str, tuple[str, ...]]:
    """Labels and annotations that go with the devices that they tell of.

    Partitions of NVIDIA's GPUs are an operator's: koordlet tells of none.
    """
    labels = (keys.GPU_VENDOR, keys.GPU_MODEL, keys.GPU_DRIVER_VERSION)
    vendors = {each.metadata.labels.get(keys.GPU_VENDOR) for each in (published, wanted)}
    if vendors == {_NVIDIA}:
        return {"labels": labels}
    return {"labels": (*labels, keys.GPU_PARTITION_POLICY), "annotations": (keys.GPU_PARTITIONS,)}


def _gpu(gpu: GPU, now: datetime) -> DeviceInfo:
    topology = None
    if gpu.node >= 0 and gpu.pcie_root and gpu.bus_id:
        topology = DeviceTopology(-1, gpu.node, gpu.pcie_root, gpu.bus_id)
    healthy = gpu.unhealthy in ("", NOT_WATCHED)
    conditions = []
    if gpu.unhealthy:
        conditions.append(condition(gpu.unhealthy, _message(gpu), now, healthy=healthy))
    return DeviceInfo(
        type="gpu",
        id=gpu.uuid,
        minor=gpu.minor,
        health=healthy,
        resources={
            GPU_CORE: _WHOLE,
            GPU_MEMORY: Quantity.from_value(gpu.memory_bytes, Format.BINARY_SI),
            GPU_MEMORY_RATIO: _WHOLE,
        },
        topology=topology,
        conditions=conditions,
    )


def _message(gpu: GPU) -> str:
    if gpu.unhealthy == NOT_WATCHED:
        return "device does not support health checking"
    return f"Xid error detected on device, error code: {gpu.unhealthy.removeprefix('Xid')}"


def _gpu_labels(facts: MachineInventory) -> dict[str, str]:
    if not facts.gpus.value:
        return {}
    labels = {keys.GPU_VENDOR: _NVIDIA}
    models = {gpu.model for gpu in facts.gpus.value}
    if len(models) == 1:
        labels[keys.GPU_MODEL] = models.pop().removeprefix("NVIDIA ").replace(" ", "-")
    if facts.gpu_driver:
        labels[keys.GPU_DRIVER_VERSION] = facts.gpu_driver
    return labels


def _rdma(card: RDMADevice) -> DeviceInfo:
    functions = [VirtualFunction(minor=-1, bus_id=bus) for bus in sorted(card.virtual)]
    return DeviceInfo(
        type="rdma",
        id=card.bus_id,
        minor=card.minor,
        health=card.healthy,
        resources={RDMA: _WHOLE},
        topology=DeviceTopology(-1, card.node, card.pcie_root, card.bus_id),
        vf_groups=[VirtualFunctionGroup(vfs=functions)] if functions else [],
    )
