# SPDX-License-Identifier: Apache-2.0
"""The Device of this node: its accelerators and RDMA cards.

Rule: docs/reference/reports.md#device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.agent.host.gpus import NOT_WATCHED
from koord.agent.report.publisher import metadata_changes
from koord.agent.report.topology import owner
from koord.api import codec
from koord.api.kinds.device import (
    Device,
    DeviceInfo,
    DeviceSpec,
    DeviceTopology,
    VirtualFunction,
    VirtualFunctionGroup,
)
from koord.api.kinds.meta import Condition, ObjectMeta
from koord.api.protocol import annotation, keys
from koord.api.protocol.nodes import HONOR, PREFER
from koord.api.protocol.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA
from koord.api.protocol.topology import GPUPartition
from koord.base.errors import KoordError
from koord.kernels.quantity import Format, Quantity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from koord.agent.host.gpus import GPU
    from koord.agent.host.rdma import RDMADevice
    from koord.agent.host.xpu import XPUDevice
    from koord.agent.metrics.collector import Facts
    from koord.api.kinds.node import Node

HEALTH = "Health"
HEALTHY, UNHEALTHY = "DeviceHealthy", "DeviceUnhealthy"
_WHOLE = Quantity.from_value(100)
_SHORT = {"gpu-core": GPU_CORE, "gpu-memory": GPU_MEMORY}


def device_object(node: Node, facts: Facts, now: datetime) -> Device | None:
    """The object as it should be; None where the node has no device and never had one.

    Other accelerators win over NVIDIA's GPUs, as both would be of type gpu.

    Raises:
        KoordError: an accelerator whose file says something that makes no sense.
    """
    labels = {keys.MANAGED_BY: "Koordinator"}
    annotations: dict[str, str] = {}
    if facts.xpus.value:
        xpus = sorted(facts.xpus.value, key=lambda xpu: xpu.uuid)
        devices = [_xpu(xpu, now) for xpu in xpus]
        _describe_xpus(xpus, labels, annotations)
    else:
        devices = [_gpu(gpu, now) for gpu in facts.gpus.value]
        _describe_gpus(facts, labels)
    devices += [_rdma(card, now) for card in facts.rdma.value]
    if not devices:
        return None
    return Device(
        metadata=ObjectMeta(
            name=node.metadata.name,
            labels=labels,
            annotations=annotations,
            owner_references=[owner(node)],
        ),
        spec=DeviceSpec(devices=sorted(devices, key=lambda each: (each.type, each.minor or 0))),
    )


def device_changes(there: Device, wanted: Device) -> dict[str, Any] | None:
    """What to patch; a condition whose status is the same keeps its time."""
    kept = {
        (each.id, each.type, condition.type): condition
        for each in there.spec.devices
        for condition in each.conditions
    }
    for device in wanted.spec.devices:
        for condition in device.conditions:
            before = kept.get((device.id, device.type, condition.type))
            if before is not None and before.status == condition.status:
                condition.last_transition_time = before.last_transition_time
    metadata = metadata_changes(there, wanted)
    change: dict[str, Any] = {"metadata": metadata} if metadata else {}
    if there.spec != wanted.spec:
        change["spec"] = codec.to_document(wanted.spec)
    return change or None


def _health(reason: str, message: str, now: datetime) -> tuple[bool, list[Condition]]:
    """Whether a device may be used, and its condition; an empty reason is well."""
    well = reason in ("", NOT_WATCHED)
    condition = Condition(
        type=HEALTH,
        status="True" if well else "False",
        reason=reason or HEALTHY,
        message=message,
        last_transition_time=now,
    )
    return well, [condition]


def _gpu(gpu: GPU, now: datetime) -> DeviceInfo:
    well, conditions = _health(gpu.unhealthy, "", now)
    topology = None
    if gpu.node >= 0 and gpu.pcie_root and gpu.bus_id:
        topology = DeviceTopology(-1, gpu.node, gpu.pcie_root, gpu.bus_id)
    return DeviceInfo(
        type="gpu",
        id=gpu.uuid,
        minor=gpu.minor,
        health=well,
        resources={
            GPU_CORE: _WHOLE,
            GPU_MEMORY: Quantity.from_value(gpu.memory_bytes, Format.BINARY_SI),
            GPU_MEMORY_RATIO: _WHOLE,
        },
        topology=topology,
        conditions=conditions,
    )


def _describe_gpus(facts: Facts, labels: dict[str, str]) -> None:
    if not facts.gpus.value:
        return
    labels[keys.GPU_VENDOR] = "nvidia"
    models = {gpu.model for gpu in facts.gpus.value}
    if len(models) == 1:
        labels[keys.GPU_MODEL] = models.pop().removeprefix("NVIDIA ").replace(" ", "-")
    if facts.gpu_driver:
        labels[keys.GPU_DRIVER_VERSION] = facts.gpu_driver


def _xpu(xpu: XPUDevice, now: datetime) -> DeviceInfo:
    resources = {GPU_MEMORY_RATIO: _WHOLE}
    for name, amount in xpu.resources.items():
        try:
            resources[_SHORT.get(name, name)] = Quantity.parse(amount)
        except ValueError as error:
            raise KoordError.wrap(f"device {xpu.uuid}", f"resources[{name}]", error) from None
    status = xpu.status
    ill = status is not None and not status.healthy
    reason = (status.err_code or UNHEALTHY) if ill and status else ""
    well, conditions = _health(reason, status.err_message if status else "", now)
    return DeviceInfo(
        type="gpu",
        id=xpu.uuid,
        minor=_number(xpu, "minor", xpu.minor),
        health=well,
        resources=resources,
        topology=_xpu_topology(xpu),
        conditions=conditions,
    )


def _xpu_topology(xpu: XPUDevice) -> DeviceTopology | None:
    place = xpu.topology
    if place is None or place.node_id == "":
        return None
    socket = -1 if place.socket_id == "" else _number(xpu, "topology.socketID", place.socket_id)
    node = _number(xpu, "topology.nodeID", place.node_id)
    return DeviceTopology(socket, node, place.pcie_id, place.bus_id)


def _describe_xpus(
    xpus: Sequence[XPUDevice], labels: dict[str, str], annotations: dict[str, str]
) -> None:
    first = xpus[0]
    labels[keys.GPU_VENDOR], labels[keys.GPU_MODEL] = first.vendor, first.model
    if first.topology is None or not first.topology.p2p_links:
        return
    honor = first.topology.must_honor_partition
    labels[keys.GPU_PARTITION_POLICY] = HONOR if honor else PREFER
    partitions: dict[int, list[GPUPartition]] = {}
    for xpu in xpus:
        own = _number(xpu, "minor", xpu.minor)
        for link in xpu.topology.p2p_links if xpu.topology else []:
            peers = [_number(xpu, "topology.p2pLinks", peer) for peer in link.peer_minors]
            minors = sorted({own, *peers})
            same = partitions.setdefault(len(minors), [])
            if all(each.minors != minors for each in same):
                same.append(GPUPartition(minors=minors, allocation_score=1))
    table = {str(size): partitions[size] for size in sorted(partitions)}
    annotations[keys.GPU_PARTITIONS] = annotation.text(table)


def _rdma(card: RDMADevice, now: datetime) -> DeviceInfo:
    well, conditions = _health("", "", now)
    functions = [VirtualFunction(minor=-1, bus_id=bus) for bus in sorted(card.virtual)]
    return DeviceInfo(
        type="rdma",
        id=card.bus_id,
        minor=card.minor,
        health=well,
        resources={RDMA: _WHOLE},
        topology=DeviceTopology(-1, card.node, card.pcie_root, card.bus_id),
        vf_groups=[VirtualFunctionGroup(vfs=functions)] if functions else [],
        conditions=conditions,
    )


def _number(xpu: XPUDevice, field: str, value: str | int) -> int:
    try:
        return int(value)
    except ValueError:
        raise KoordError(f"device {xpu.uuid}", field, value, "a number") from None
