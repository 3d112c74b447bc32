# SPDX-License-Identifier: Apache-2.0
"""Hardware counters of cgroups by perf_event_open(2): cycles and instructions, read as one group.

A cgroup is counted on each CPU by itself, so a cgroup takes two descriptors a CPU while it is
counted. Counters are shared between all who count, so each is on the hardware only part of the
time; what it missed is filled in by the share of time that it ran.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.base.errors import Code, KoordError
from koord.base.faults import point

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType
    from typing import Self

_NUMBERS = {"x86_64": 298, "aarch64": 241}
_PID_CGROUP = 1 << 2
_CLOEXEC = 1 << 3
_ENABLED, _RUNNING, _GROUP = 1, 2, 8
_DISABLED = 1 << 0
_ATTRIBUTE_BYTES = 112  # PERF_ATTR_SIZE_VER5
_ENABLE = 0x2400
_WHOLE_GROUP = 1
_HEADER = struct.Struct("=QQQ")  # how many, enabled and running nanoseconds


@dataclass(frozen=True, slots=True)
class PerfEvent:
    """What is counted: type and config of ``struct perf_event_attr``."""

    type: int
    config: int


CYCLES = PerfEvent(0, 0)
INSTRUCTIONS = PerfEvent(0, 1)
CPI = (CYCLES, INSTRUCTIONS)


class PerfCounters:
    """The events of one cgroup on some CPUs, counting from when it is made; a context manager.

    Args:
        directory: the cgroup, in the perf_event hierarchy on v1.
        cpus: those that are online.
        events: read together; the first one leads.

    Raises:
        KoordError: the kernel refuses; nothing stays open.
    """

    def __init__(
        self, directory: str, cpus: Iterable[int], events: Sequence[PerfEvent] = CPI
    ) -> None:
        self._directory = directory
        self._events = len(events)
        self._leaders: list[int] = []
        with ExitStack() as opened:
            group = _open_directory(directory)
            opened.callback(os.close, group)
            members = ExitStack()
            opened.push(members)
            for cpu in cpus:
                self._leaders.append(_open_group(group, cpu, events, members, directory))
            self._held = members.pop_all()

    def read(self) -> list[float]:
        """A count an event, summed over the CPUs, each scaled to the whole time.

        Raises:
            KoordError: a counter cannot be read.
        """
        size = _HEADER.size + 8 * self._events
        readings = []
        for leader in self._leaders:
            try:
                readings.append(os.read(leader, size))
            except OSError as error:
                raise KoordError.wrap(self._directory, "perf counter", error) from None
        return scaled(readings, self._events, self._directory)

    def close(self) -> None:
        """Gives the descriptors back; doing it again does nothing."""
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def scaled(readings: Iterable[bytes], events: int, directory: str) -> list[float]:
    """Counts of groups as read(2) gives them: each scaled to the whole time, then added up.

    Raises:
        KoordError: a group cannot be on the hardware as a whole: it reads as end of file.
    """
    totals = [0.0] * events
    layout = struct.Struct(f"={events}Q")
    for data in readings:
        if len(data) < _HEADER.size + layout.size:
            raise KoordError(directory, "perf counter", "in error", "a counting group")
        _, enabled, running = _HEADER.unpack_from(data)
        scale = enabled / running if enabled and running else 1.0
        for index, count in enumerate(layout.unpack_from(data, _HEADER.size)):
            totals[index] += count * scale
    return totals


def pack_reading(enabled: int, running: int, counts: Sequence[int]) -> bytes:
    """What read(2) gives of a group: the inverse of what :func:`scaled` takes apart."""
    return _HEADER.pack(len(counts), enabled, running) + struct.pack(f"={len(counts)}Q", *counts)


def _open_directory(directory: str) -> int:
    try:
        return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise KoordError.wrap(directory, "", error) from None


def _open_group(
    group: int, cpu: int, events: Sequence[PerfEvent], held: ExitStack, directory: str
) -> int:
    leader = -1
    for event in events:
        descriptor = _open_event(event, group, cpu, leader, directory)
        held.callback(os.close, descriptor)
        leader = descriptor if leader < 0 else leader
    _switch_on(leader, directory)
    return leader


def _switch_on(leader: int, directory: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ioctl(leader, ctypes.c_ulong(_ENABLE), ctypes.c_ulong(_WHOLE_GROUP)) != 0:
        code = ctypes.get_errno()
        raise KoordError.wrap(directory, "perf", OSError(code, os.strerror(code)))


def _open_event(event: PerfEvent, group: int, cpu: int, leader: int, directory: str) -> int:
    point("host.perf.open")
    number = _NUMBERS.get(platform.machine())
    if number is None:
        raise KoordError(
            "perf", "machine", platform.machine(), " or ".join(_NUMBERS), Code.UNSUPPORTED
        )
    attribute = bytearray(_ATTRIBUTE_BYTES)
    flags = _DISABLED if leader < 0 else 0
    struct.pack_into("=IIQ", attribute, 0, event.type, _ATTRIBUTE_BYTES, event.config)
    struct.pack_into("=QQ", attribute, 32, _ENABLED | _RUNNING | _GROUP, flags)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    descriptor: int = libc.syscall(
        ctypes.c_long(number),
        (ctypes.c_char * _ATTRIBUTE_BYTES).from_buffer(attribute),
        ctypes.c_int(group),
        ctypes.c_int(cpu),
        ctypes.c_int(leader),
        ctypes.c_ulong(_PID_CGROUP | _CLOEXEC),
    )
    if descriptor >= 0:
        return descriptor
    code = ctypes.get_errno()
    raise KoordError(directory, f"perf counter on CPU {cpu}", _reason(code), "one that counts",
                     Code.UNSUPPORTED)  # fmt: skip


def _reason(code: int) -> str:
    if code in (errno.ENOENT, errno.EOPNOTSUPP):
        return "no such hardware counter"
    if code in (errno.EACCES, errno.EPERM):
        return "not permitted (CAP_PERFMON)"
    return os.strerror(code)
