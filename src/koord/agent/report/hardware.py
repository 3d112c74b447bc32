# SPDX-License-Identifier: Apache-2.0
"""What of the machine goes into its NodeResourceTopology."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.host.procfs.cpuinfo import read_cbm_mask, read_cpu_info
from koord.agent.metrics.collectors.inventory import numa_memory
from koord.agent.report.topology_object import NodeHardware, ZoneMemory
from koord.api.protocol.topology import CPUBasicInfo, CPUInfo
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.agent.host.machine import Machine
    from koord.agent.metrics.collector import NUMAMemory

_2MI, _1GI = 2 << 20, 1 << 30


def read_hardware(machine: Machine, *, huge_pages: bool = False) -> NodeHardware:
    """Reads it once.

    Args:
        machine: found at start.
        huge_pages: whether they are told (gate HugePageReport); they are no plain memory anyway.

    Raises:
        KoordError: a file that is missing or makes no sense.
    """
    info = read_cpu_info(machine.roots)
    return NodeHardware(
        cpus=[
            CPUInfo(id=cpu.cpu, core=cpu.core or 0, socket=cpu.socket or 0, node=cpu.node or 0)
            for cpu in machine.topology.cpus
            if cpu.online
        ],
        basic=CPUBasicInfo(
            cpu_model=info.model,
            hyper_thread_enabled=bool(info.hyperthreads),
            turbo_enabled=bool(info.turbo),
            cat_l3_cbm_mask=read_cbm_mask(machine.roots.resctrl),
            vendor_id=info.vendor_id,
        ),
        zones=_zones(machine, huge_pages),
    )


def _zones(machine: Machine, huge_pages: bool) -> dict[int, ZoneMemory]:
    try:
        nodes = numa_memory(machine.roots)
    except KoordError:
        nodes = ()
    if not nodes:
        # A kernel without NUMA: all memory is in one zone.
        return {0: ZoneMemory(machine.memory_bytes)}
    return {node.node: _zone(node, huge_pages) for node in nodes}


def _zone(node: NUMAMemory, huge_pages: bool) -> ZoneMemory:
    held = dict.fromkeys((_2MI, _1GI), 0)
    for pages in node.huge_pages:
        held[pages.page_bytes] = held.get(pages.page_bytes, 0) + pages.page_bytes * pages.total
    told = held if huge_pages else {}
    return ZoneMemory(
        memory_bytes=node.meminfo.get("MemTotal", 0) - sum(held.values()),
        huge_2mi_bytes=told.get(_2MI, 0),
        huge_1gi_bytes=told.get(_1GI, 0),
    )
