# SPDX-License-Identifier: Apache-2.0
"""Texts of cgroup and ``/proc`` files as numbers, and the numbers of cgroup v1 as those of v2.

Pure functions over ``str`` or ``bytes``: nothing is opened. Each raises ValueError, naming the
field, when the text is not what the kernel writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from koord._native.core import cgroup as _native

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

#: Columns of ``memory.idle_page_stats`` from here on count as cold.
COLD_BOUNDARY = 5

milli_cpu_to_quota_us = _native.milli_cpu_to_quota_us
milli_cpu_to_shares = _native.milli_cpu_to_shares
shares_to_weight = _native.shares_to_weight
weight_to_shares = _native.weight_to_shares


class Version(IntEnum):
    """The two layouts of the cgroup file system."""

    V1 = 1
    V2 = 2


class CpuStat(NamedTuple):
    """Enforcement periods, how many of them were throttled, and for how long."""

    periods: int
    throttled: int
    throttled_ns: int

    def throttled_ratio(self, before: CpuStat) -> float:
        """Throttled periods over periods since an earlier reading; 0 when no period passed."""
        periods = self.periods - before.periods
        return (self.throttled - before.throttled) / periods if periods > 0 else 0.0


class MemoryStat(NamedTuple):
    """Bytes of a cgroup and its children; ``cache`` and ``rss`` are file and anon on v2."""

    cache: int
    rss: int
    inactive_file: int
    active_file: int
    inactive_anon: int
    active_anon: int
    unevictable: int

    @property
    def usage(self) -> int:
        """Memory that cannot be dropped: anonymous and unevictable."""
        return self.inactive_anon + self.active_anon + self.unevictable

    @property
    def usage_with_page_cache(self) -> int:
        """The same with the page cache."""
        return self.usage + self.active_file + self.inactive_file


class PressureLine(NamedTuple):
    """Shares of time in percent over three windows, and the stalled time since boot."""

    avg10: float
    avg60: float
    avg300: float
    total_us: int


class Pressure(NamedTuple):
    """A PSI file; ``full`` is all zeros where the kernel does not write that line."""

    some: PressureLine
    full: PressureLine
    full_supported: bool


class IdlePageStats(NamedTuple):
    """``memory.idle_page_stats``: bytes a row and a bucket of idle time, and the scan."""

    version: str
    page_scans: int
    slab_scans: int
    scan_period_seconds: int
    use_hierarchy: bool
    buckets: list[int]
    rows: dict[str, list[int]]


class ProcStat(NamedTuple):
    """The head of ``/proc/PID/stat``."""

    command: str
    state: str
    parent: int
    group: int


def parse_int64(field: str, text: str | bytes, when_max: int = -1) -> int:
    """One decimal int64; ``max`` gives `when_max`. `field` goes into the error."""
    return _native.parse_int64(field, text, when_max)


def parse_memory_limit(text: str | bytes) -> int:
    """``memory.limit_in_bytes`` or ``memory.max``; -1 when there is no limit."""
    return _native.parse_memory_limit(text)


def parse_key_values(text: str | bytes) -> dict[str, str]:
    """The first two fields of each line; shorter lines are skipped, later ones win."""
    return _native.parse_key_values(text)


def parse_cpu_stat(text: str | bytes, version: Version) -> CpuStat:
    """``cpu.stat``."""
    return CpuStat(*_native.parse_cpu_stat(text, version))


def parse_cpu_usage_ns(text: str | bytes, version: Version) -> int:
    """Nanoseconds of CPU time, from ``cpuacct.usage`` (v1) or ``cpu.stat`` (v2)."""
    return _native.parse_cpu_usage_ns(text, version)


def parse_cpu_max(text: str | bytes) -> tuple[int, int]:
    """``cpu.max``: quota (-1 for none) and period in microseconds."""
    return _native.parse_cpu_max_quota(text), _native.parse_cpu_max_period(text)


def parse_memory_stat(text: str | bytes, version: Version) -> MemoryStat:
    """``memory.stat``."""
    return MemoryStat(*_native.parse_memory_stat(text, version))


def parse_numa_stat(text: str | bytes, version: Version) -> dict[int, int]:
    """``memory.numa_stat``: pages of 4 KiB by node; on v2 anonymous and file pages added."""
    return dict(_native.parse_numa_stat(text, version))


def parse_pressure(text: str | bytes) -> Pressure:
    """``cpu.pressure`` and its siblings."""
    some, full, full_supported = _native.parse_pressure(text)
    return Pressure(PressureLine(*some), PressureLine(*full), full_supported)


def parse_idle_page_stats(text: str | bytes) -> IdlePageStats:
    """``memory.idle_page_stats`` of kernels with kidled."""
    return IdlePageStats(*_native.parse_idle_page_stats(text))


def cold_bytes(text: str | bytes, boundary: int = COLD_BOUNDARY) -> int:
    """Bytes of inactive file pages idle for `boundary` buckets or more."""
    return _native.cold_bytes(text, boundary)


def parse_proc_stat(text: str | bytes) -> ProcStat:
    """``/proc/PID/stat``; the command ends at the last closing parenthesis."""
    return ProcStat(*_native.parse_proc_stat(text))


def parse_ids(text: str | bytes) -> NDArray[np.int32]:
    """``tasks``, ``cgroup.threads`` or ``cgroup.procs``: the ids in file order."""
    return _native.parse_ids(text)


def ids_to_add(text: str | bytes, wanted: Iterable[int]) -> NDArray[np.int32]:
    """The wanted ids that such a file does not hold, ascending, each once."""
    return _native.ids_to_add(text, list(wanted))


def parse_device_values(text: str | bytes) -> dict[tuple[int, int], int]:
    """``blkio.throttle.*`` and ``blkio.cost.weight``: values by (major, minor)."""
    return {(major, minor): value for major, minor, value in _native.parse_device_values(text)}


def parse_sched_features(text: str | bytes) -> tuple[dict[str, bool], list[str]]:
    """``sched_features``: switches by name, and names that stand there with both signs."""
    return _native.parse_sched_features(text)
