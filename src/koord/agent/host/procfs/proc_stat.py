# SPDX-License-Identifier: Apache-2.0
"""CPU time of the machine and of each CPU, from /proc/stat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from koord.agent.host import files
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIELDS = 8  # the name and seven numbers
_BUSY = (1, 2, 3, 6, 7)  # user, nice, system, irq, softirq: not idle, iowait, steal


@dataclass(frozen=True, slots=True, eq=False)
class CPUTicks:
    """Busy clock ticks since the machine started.

    Attributes:
        total: all CPUs, as the kernel's own line of the sum says.
        cpus: int64, ids of the CPUs that are online, as listed.
        ticks: int64, a value a CPU.
    """

    total: int
    cpus: NDArray[np.int64]
    ticks: NDArray[np.int64]


def read_cpu_ticks(proc: str) -> CPUTicks:
    """Ticks spent in user, nice, system, irq and softirq.

    Rule: docs/reference/measuring.md#node-usage.

    Raises:
        KoordError: no line ``cpu``, one of too few fields, a bad number. A bad line of a single CPU
            is left out.
    """
    path = f"{proc}/stat"
    return parse_cpu_ticks(files.read_bytes(path), path)


def parse_cpu_ticks(text: bytes, path: str = "/proc/stat") -> CPUTicks:
    """The same from the file's text; see :func:`read_cpu_ticks`."""
    total: int | None = None
    cpus: dict[int, int] = {}
    # The lines behind those of the CPUs hold thousands of interrupt counts.
    for line in text.partition(b"\nintr")[0].splitlines():
        fields = line.split()
        if fields and fields[0] == b"cpu":
            total = _busy(fields, path)
        elif fields and files.is_count(number := fields[0].removeprefix(b"cpu")):
            try:
                cpus[int(number)] = _busy(fields, path)
            except KoordError:
                continue
    if total is None:
        raise KoordError(path, "cpu", "no such line", "the line of all CPUs")
    ids = np.fromiter(cpus, np.int64, len(cpus))
    return CPUTicks(total, ids, np.fromiter(cpus.values(), np.int64, len(cpus)))


def _busy(fields: list[bytes], path: str) -> int:
    name = fields[0].decode("ascii", "replace")
    if len(fields) < _FIELDS:
        raise KoordError(path, name, f"{len(fields)} fields", f"at least {_FIELDS}")
    numbers = [fields[index] for index in _BUSY]
    if not all(map(files.is_count, numbers)):
        raise KoordError(path, name, b" ".join(fields[1:_FIELDS]), "clock ticks")
    busy = sum(map(int, numbers))
    if busy >= 1 << 63:
        raise KoordError(path, name, busy, "less than 2^63 ticks")
    return busy
