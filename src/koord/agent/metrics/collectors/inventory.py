# SPDX-License-Identifier: Apache-2.0
"""What is no series: processor, memory of NUMA nodes, other devices, storage.

Rule: docs/reference/measuring.md#static-facts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.host.devices import block
from koord.agent.host.devices.rdma import read_rdma
from koord.agent.host.devices.xpu import read_xpus
from koord.agent.host.kernel.features import Feature
from koord.agent.host.procfs import cpuinfo, meminfo
from koord.agent.metrics.collector import CollectionRound, Collector, NUMAMemory
from koord.agent.metrics.samples import Samples
from koord.agent.states.snapshot import Timestamped

if TYPE_CHECKING:
    from koord.agent.host.roots import HostRoots
    from koord.agent.metrics.options import MetricsOptions


class ProcessorCollector(Collector):
    """Vendor, model, flags, and the cache ways that can be given out."""

    name = "cpu-info"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.cpu_info

    def collect(self, now: CollectionRound) -> Samples:
        """Reads; raises KoordError."""
        roots, facts = now.machine.roots, now.facts
        facts.cpu = Timestamped(cpuinfo.read_cpu_info(roots), now.now_seconds)
        facts.cbm_mask = Timestamped(cpuinfo.read_cbm_mask(roots.resctrl), now.now_seconds)
        return Samples(now.now_ms)


class NUMAInfoCollector(Collector):
    """Memory and huge pages of each NUMA node."""

    name = "numa-info"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.cpu_info

    def collect(self, now: CollectionRound) -> Samples:
        """Reads; raises KoordError where one node cannot be read: half a list would mislead."""
        now.facts.numa = Timestamped(numa_memory(now.machine.roots), now.now_seconds)
        return Samples(now.now_ms)


def numa_memory(roots: HostRoots) -> tuple[NUMAMemory, ...]:
    """Memory of the NUMA nodes by id; raises KoordError."""
    huge = meminfo.read_huge_pages(roots.sys)
    return tuple(
        NUMAMemory(
            node=node,
            meminfo=meminfo.read_numa_meminfo(roots.sys, node),
            huge_pages=tuple(pages for pages in huge if pages.node == node),
        )
        for node in meminfo.numa_nodes(roots.sys)
    )


class StorageCollector(Collector):
    """Block devices and what is mounted, read anew when the mounts or the devices change."""

    name = "storage"
    gate = "BlkIOReconcile"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.storage
        self._seen: object = None

    def collect(self, now: CollectionRound) -> Samples:
        """Reads; raises KoordError."""
        roots, storage = now.machine.roots, now.facts.storage
        seen = block.signature(roots.sys, roots.proc)
        if storage.value is None or seen != self._seen:
            found = block.read_storage(roots.sys, roots.proc)
            now.facts.storage = Timestamped(found, now.now_seconds)
            self._seen = seen
        else:
            now.facts.storage = Timestamped(storage.value, now.now_seconds)
        return Samples(now.now_ms)


class XPUCollector(Collector):
    """Accelerators of device-infos files."""

    name = "xpu"
    gate = "Accelerators"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.used

    def collect(self, now: CollectionRound) -> Samples:
        """Reads; raises KoordError where one file is malformed, and what was known stays."""
        found = read_xpus(now.machine.roots.xpu_device_infos)
        now.facts.xpus = Timestamped(tuple(found), now.now_seconds)
        return Samples(now.now_ms)


class RDMACollector(Collector):
    """RDMA network functions."""

    name = "rdma"
    gate = "RDMADevices"
    needs = frozenset({Feature.RDMA})

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.cpu_info

    def collect(self, now: CollectionRound) -> Samples:
        """Reads; raises KoordError."""
        now.facts.rdma = Timestamped(tuple(read_rdma(now.machine.roots.sys)), now.now_seconds)
        return Samples(now.now_ms)
