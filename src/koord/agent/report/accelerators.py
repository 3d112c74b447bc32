# SPDX-License-Identifier: Apache-2.0
"""Accelerators of device-infos files as entries of a Device, its labels and its partitions.

Rule: docs/reference/reports.md#other-accelerators. What makes no sense in a file is left out and
told; the other cards are reported.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.agent.report.conditions import condition
from koord.api.kinds.device import DeviceInfo, DeviceTopology
from koord.api.protocol import annotation, keys
from koord.api.protocol.nodes import HONOR, PREFER
from koord.api.protocol.resources import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO
from koord.api.protocol.topology import GPUPartition
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from koord.agent.host.devices.xpu import P2PLink, XPUDevice

    LogLine = Callable[[str], None]

_WHOLE = Quantity.from_value(100)
_SHORT = {"gpu-core": GPU_CORE, "gpu-memory": GPU_MEMORY}
_DIGITS = re.compile(r"[0-9]{1,10}", re.ASCII)
_MOST = (1 << 31) - 1
_UNKNOWN = -1


def entries(xpus: Sequence[XPUDevice], now: datetime, log_line: LogLine) -> list[DeviceInfo]:
    """The cards by UUID; one without a minor is left out, as is an amount that is no quantity.

    Args:
        xpus: as the files list them.
        now: of conditions that are new.
        log_line: gets a line about each thing that was left out.
    """
    found = []
    for xpu in sorted(xpus, key=lambda each: each.uuid):
        minor = _number(xpu.minor)
        if minor is None:
            log_line(_line(xpu, "minor", xpu.minor, "a number; the card is not reported"))
        else:
            found.append(_entry(xpu, minor, now, log_line))
    return found


def labels_of(xpus: Sequence[XPUDevice]) -> dict[str, str]:
    """Vendor, model and partition policy, of the first card that the files list."""
    first = xpus[0]
    found = {keys.GPU_VENDOR: first.vendor, keys.GPU_MODEL: first.model}
    if first.topology is not None and first.topology.p2p_links is not None:
        honor = first.topology.must_honor_partition
        found[keys.GPU_PARTITION_POLICY] = HONOR if honor else PREFER
    return found


def annotations_of(xpus: Sequence[XPUDevice], log_line: LogLine) -> dict[str, str]:
    """Each set of linked cards once, by their number; empty where no cards are linked."""
    partitions: dict[int, list[GPUPartition]] = {}
    seen: set[tuple[int, ...]] = set()
    for xpu in xpus:
        links = xpu.topology.p2p_links if xpu.topology else None
        own = _number(xpu.minor)
        for link in links or () if own is not None else ():
            minors = _linked(xpu, own, link, log_line)
            if minors and minors not in seen:
                seen.add(minors)
                same = partitions.setdefault(len(minors), [])
                same.append(GPUPartition([*minors], link.type, allocation_score=1))
    table = {str(size): partitions[size] for size in sorted(partitions)}
    return {keys.GPU_PARTITIONS: annotation.text(table)} if table else {}


def _linked(xpu: XPUDevice, own: int | None, link: P2PLink, log_line: LogLine) -> tuple[int, ...]:
    """The minors of a card and of those that a link leads to, ascending; empty without a link."""
    text = str(link.peer_minor)
    if own is None or not text or not link.type:
        log_line(_line(xpu, "topology.p2pLinks", text, "peerMinor and type; the link is left out"))
        return ()
    minors = {own}
    for part in text.split(","):
        peer = _number(part)
        if peer is None:
            log_line(_line(xpu, "topology.p2pLinks.peerMinor", text, "minors with commas between"))
        else:
            minors.add(peer)
    return tuple(sorted(minors))


def _entry(xpu: XPUDevice, minor: int, now: datetime, log_line: LogLine) -> DeviceInfo:
    resources = {GPU_MEMORY_RATIO: _WHOLE}
    for name, amount in xpu.resources.items():
        try:
            resources[_SHORT.get(name, name)] = Quantity.parse(str(amount))
        except ValueError:
            log_line(_line(xpu, f"resources[{name}]", amount, "a quantity; it is left out"))
    status = xpu.status
    conditions = []
    if status is not None and status.healthy:
        conditions.append(condition("", "", now, healthy=True))
    elif status is not None:
        conditions.append(condition(status.err_code, status.err_message, now))
    return DeviceInfo(
        type="gpu",
        id=xpu.uuid,
        minor=minor,
        health=status is None or status.healthy,
        resources=resources,
        topology=_topology(xpu, log_line),
        conditions=conditions,
    )


def _topology(xpu: XPUDevice, log_line: LogLine) -> DeviceTopology | None:
    place = xpu.topology
    if place is None:
        return None
    node = _number(place.node_id)
    if node is None and place.node_id not in ("", _UNKNOWN, str(_UNKNOWN)):
        log_line(_line(xpu, "topology.nodeID", place.node_id, "a number; the NUMA node is unknown"))
    return DeviceTopology(_UNKNOWN, _UNKNOWN if node is None else node, place.pcie_id, place.bus_id)


def _number(value: str | int) -> int | None:
    """A number from 0 that the API can hold; None for anything else."""
    text = str(value)
    return int(text) if _DIGITS.fullmatch(text) and int(text) <= _MOST else None


def _line(xpu: XPUDevice, field: str, value: str | int, expected: str) -> str:
    return str(KoordError(f"device {xpu.uuid}", field, value, expected))
