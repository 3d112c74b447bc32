# SPDX-License-Identifier: Apache-2.0
"""The look at the kernel behind each feature: nothing where it is there, else one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.host import files
from koord.agent.host.kernel import core_sched
from koord.agent.host.kernel.features import Feature, Features
from koord.agent.host.procfs import cpuinfo
from koord.base.errors import KoordError
from koord.kernels.cgroup import CATALOGUE
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.agent.host.roots import HostRoots
    from koord.kernels.cgroup import File, Hierarchy

    Probe = Callable[[HostRoots, Hierarchy], str]


def _file_of(hierarchy: Hierarchy, resource: str) -> File | None:
    row = CATALOGUE[resource]
    return row.v2 if hierarchy.version == Version.V2 else row.v1


def group_file(*resources: str) -> Probe:
    """Whether a cgroup has these files: looked for in the kubepods directory, then in the root.

    Before a kubelet came there is no such directory; then in any other that the root holds, for
    most files are there in all but the root.
    """

    def probe(_: HostRoots, hierarchy: Hierarchy) -> str:
        for resource in resources:
            file = _file_of(hierarchy, resource)
            if file is None:
                return f"cgroup v{hierarchy.version.value} has no {resource}"
            top = "/".join(part for part in (hierarchy.path, file.directory) if part)
            kubepods = f"{top}/{hierarchy.kubepods}"
            if files.exists(kubepods):
                places, where = [kubepods, top], f"in {kubepods}"
            else:
                places = [top, *(f"{top}/{name}" for name in files.directories(top))]
                where = f"in any cgroup of {top}, and no {kubepods}: no kubelet is there"
            if not any(files.exists(f"{place}/{file.name}") for place in places):
                return f"no {file.name} {where}"
        return ""

    return probe


def _page_cache_limit(roots: HostRoots, hierarchy: Hierarchy) -> str:
    if reason := group_file("memory.pagecache_limit.size")(roots, hierarchy):
        return reason
    return _missing_directory(f"{roots.sys}/kernel/mm/pagecache_limit/enabled")


def _cold_pages(roots: HostRoots, hierarchy: Hierarchy) -> str:
    for name in ("scan_period_in_seconds", "use_hierarchy"):
        if reason := _missing_directory(f"{roots.sys}/kernel/mm/kidled/{name}"):
            return reason
    return group_file("memory.idle_page_stats")(roots, hierarchy)


def _core_scheduling(roots: HostRoots, _: Hierarchy) -> str:
    return core_sched.missing(roots)


def _perf(roots: HostRoots, hierarchy: Hierarchy) -> str:
    # A cpu with hardware counters shows up as an event source; its name differs by processor.
    sources = files.names(f"{roots.sys}/bus/event_source/devices")
    if not any(name.startswith(("cpu", "armv8", "apple_")) for name in sources):
        return "this processor, or what it is virtualised by, offers no hardware counters"
    if hierarchy.version == Version.V1:
        return _missing_directory(f"{hierarchy.path}/perf_event")
    return ""


def _resctrl(roots: HostRoots, _: Hierarchy) -> str:
    if not cpuinfo.read_cpu_info(roots).controls_cache:
        return "the processor's flags lack cat_l3 or mba"
    return _missing_directory(roots.resctrl)


def _monitoring(roots: HostRoots, _: Hierarchy) -> str:
    info = cpuinfo.read_cpu_info(roots)
    if not info.monitors_cache:
        return "the processor's flags lack cqm_llc, cqm_occup_llc, cqm_mbm_total or cqm_mbm_local"
    return "" if info.vendor else f"no rules for processors of {info.vendor_id}"


def _net_cls(roots: HostRoots, hierarchy: Hierarchy) -> str:
    if hierarchy.version == Version.V2:
        return "cgroup v2 has no net_cls: packets are told apart by the cgroup of their socket"
    return group_file("net_cls.classid")(roots, hierarchy)


def _nvml(roots: HostRoots, _: Hierarchy) -> str:
    return _missing_directory(f"{roots.proc}/driver/nvidia/version")


def _rdma(roots: HostRoots, _: Hierarchy) -> str:
    directory = f"{roots.sys}/class/infiniband"
    return "" if files.names(directory) else f"nothing in {directory}"


def _missing_directory(path: str) -> str:
    return "" if files.exists(path) else f"no {path}"


PROBES: Mapping[Feature, Probe] = {
    Feature.CPU_BURST: group_file("cpu.cfs_burst_us"),
    Feature.BVT: group_file("cpu.bvt_warp_ns"),
    Feature.CPU_IDLE: group_file("cpu.idle"),
    Feature.CORE_SCHED: _core_scheduling,
    Feature.MEMORY_QOS: group_file("memory.min", "memory.low", "memory.high"),
    Feature.WMARK: group_file("memory.wmark_ratio"),
    Feature.PAGE_CACHE_LIMIT: _page_cache_limit,
    Feature.COLD_PAGES: _cold_pages,
    Feature.PSI: group_file("cpu.pressure", "memory.pressure", "io.pressure"),
    Feature.PERF: _perf,
    Feature.RESCTRL: _resctrl,
    Feature.RESCTRL_MONITOR: _monitoring,
    Feature.BLKIO_THROTTLE: group_file("blkio.throttle.read_bps_device"),
    Feature.BLKIO_COST: group_file("blkio.cost.qos"),
    Feature.NET_CLS: _net_cls,
    Feature.NVML: _nvml,
    Feature.RDMA: _rdma,
}
"""One probe a feature; a KoordError of a probe is a reason too."""


def probe_features(roots: HostRoots, hierarchy: Hierarchy) -> Features:
    """Looks for every feature; what cannot be looked at counts as missing, with that reason."""
    missing = {}
    for feature, probe in PROBES.items():
        try:
            reason = probe(roots, hierarchy)
        except KoordError as error:
            reason = str(error)
        if reason:
            missing[feature] = reason
    return Features(missing)
