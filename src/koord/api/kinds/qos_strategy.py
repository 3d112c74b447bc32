# SPDX-License-Identifier: Apache-2.0
"""What each QoS class gets on a node: CPU, memory, block I/O, cache and network quality."""

from __future__ import annotations

from typing import Annotated

from koord.api.schema import IntOrString, NonNegative, Percent, Positive, Schema
from koord.api.wirestruct import WireStruct


class CPUQOS(WireStruct):
    """CPU quality of a class.

    Attributes:
        groupIdentity: bvt.warp_ns of the cgroup, -1 (yields) to 2 (preempts).
        schedIdle: cpu.idle of the cgroup, 0 or 1.
        coreExpeller: keep lower classes off the sibling thread.
    """

    enable: bool | None = None
    group_identity: int | None = None
    sched_idle: int | None = None
    core_expeller: bool | None = None


class MemoryQOS(WireStruct):
    """Memory quality of a class.

    Attributes:
        minLimitPercent: memory.min in percent of the request.
        lowLimitPercent: memory.low in percent of the request.
        throttlingPercent: memory.high in percent of the limit, 0 for never.
        wmarkRatio: where background reclaim starts, in percent of the limit or memory.high.
        wmarkScalePermill: width of the reclaim band, in per mille.
        wmarkMinAdj: shift of the global watermark for the class, in percent.
        priority: order in which the kernel's OOM killer takes groups, 0 first.
        pageCacheLimitSize: bytes of page cache, at most the limit; beats the percentage.
    """

    enable: bool | None = None
    min_limit_percent: NonNegative | None = None
    low_limit_percent: NonNegative | None = None
    throttling_percent: NonNegative | None = None
    wmark_ratio: Percent | None = None
    wmark_scale_permill: Annotated[int | None, Schema(minimum=1, maximum=1000)] = None
    wmark_min_adj: Annotated[int | None, Schema(minimum=-25, maximum=50)] = None
    priority_enable: int | None = None
    priority: int | None = None
    oom_kill_group: int | None = None
    page_cache_enable: bool | None = None
    page_cache_reclaim_sync: bool | None = None
    page_cache_limit_percent: Percent | None = None
    page_cache_limit_size: int | None = None


class IOCfg(WireStruct):
    """Limits and weight of one block device; 0 is no limit.

    Attributes:
        ioWeightPercent: weight relative to the other classes.
        readLatency: target in microseconds.
        writeLatency: target in microseconds.
    """

    read_iops: NonNegative | None = None
    write_iops: NonNegative | None = None
    read_bps: NonNegative | None = None
    write_bps: NonNegative | None = None
    io_weight_percent: Annotated[int | None, Schema(minimum=1, maximum=100)] = None
    read_latency: int | None = None
    write_latency: int | None = None
    read_latency_percent: Percent | None = None
    write_latency_percent: Percent | None = None
    enable_user_model: bool | None = None
    model_read_bps: Positive | None = None
    model_write_bps: Positive | None = None
    model_read_seq_iops: Positive | None = None
    model_write_seq_iops: Positive | None = None
    model_read_rand_iops: Positive | None = None
    model_write_rand_iops: Positive | None = None


class BlockCfg(WireStruct):
    """A ``device``, ``volumegroup`` or ``podvolume`` and what is set on it."""

    name: str = ""
    type: str = ""
    io_cfg: IOCfg | None = None


class BlkIOQOS(WireStruct):
    """Block I/O quality of a class."""

    enable: bool | None = None
    blocks: list[BlockCfg] = []


class ResctrlQOS(WireStruct):
    """Last-level cache ways and memory bandwidth of a class, in percent on Intel and AMD.

    Attributes:
        catRangeStartPercent: where the class's part of the cache begins.
        catRangeEndPercent: where it ends.
        mbaPercent: share of the memory bandwidth; 100 is no limit.
    """

    enable: bool | None = None
    cat_range_start_percent: Percent | None = None
    cat_range_end_percent: Percent | None = None
    mba_percent: Percent | None = None


class NetworkQOS(WireStruct):
    """Network quality of a class; a number is a percentage, text a bandwidth in bits per second."""

    enable: bool | None = None
    ingress_request: Annotated[IntOrString | None, Schema(default=0)] = None
    ingress_limit: Annotated[IntOrString | None, Schema(default=100)] = None
    egress_request: Annotated[IntOrString | None, Schema(default=0)] = None
    egress_limit: Annotated[IntOrString | None, Schema(default=100)] = None


class ResourceQOS(WireStruct):
    """All qualities of one class."""

    cpu_qos: CPUQOS | None = None
    memory_qos: MemoryQOS | None = None
    blkio_qos: BlkIOQOS | None = None
    resctrl_qos: ResctrlQOS | None = None
    network_qos: NetworkQOS | None = None


class ResourceQOSPolicies(WireStruct):
    """By which means quality is enforced.

    Attributes:
        cpuPolicy: groupIdentity (default) or coreSched.
        netQOSPolicy: tc (default) or terway-qos.
    """

    cpu_policy: str | None = None
    net_qos_policy: str | None = None


class ResourceQOSStrategy(WireStruct):
    """The qualities of every class; ``cgroupRoot`` uses block I/O only."""

    policies: ResourceQOSPolicies | None = None
    lsr_class: ResourceQOS | None = None
    ls_class: ResourceQOS | None = None
    be_class: ResourceQOS | None = None
    system_class: ResourceQOS | None = None
    cgroup_root: ResourceQOS | None = None
