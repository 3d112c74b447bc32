# SPDX-License-Identifier: Apache-2.0
"""A cgroup v1 tree of a kernel with group identity, watermarks and memory priorities (Anolis).

Only what other kernels lack, or refuse: a new directory has these files, with the kernel's ranges.
"""

from __future__ import annotations

import errno
from collections.abc import Callable

from tests.standins.model import Directory, File, Fixed, Integer, Said, refuse

# Rule: docs/reference/cgroup.md#files.
_CPU: dict[str, tuple[int, int, int]] = {
    "cpu.bvt_warp_ns": (-1, 2, 0),
    "cpu.idle": (0, 1, 0),
    "cpu.cfs_quota_us": (-1, 2**40, -1),
    # Whatever the quota beside it.
    "cpu.cfs_burst_us": (0, 100_000_000, 0),
}
_MEMORY: dict[str, tuple[int, int, int]] = {
    "memory.wmark_ratio": (0, 100, 0),
    "memory.wmark_scale_factor": (1, 1000, 50),
    "memory.wmark_min_adj": (-25, 50, 0),
    "memory.priority": (0, 12, 0),
    "memory.use_priority_oom": (0, 1, 0),
    "memory.oom.group": (0, 1, 0),
}
_BYTES = ("memory.min", "memory.low", "memory.high")
_PAGE = 4096
_MOST = 2**63 - 1


class Bytes(Integer):
    """A size: kept in whole pages, ``max`` for what is beyond all memory."""

    def __init__(self, value: int) -> None:
        super().__init__(0, _MOST, value)

    def read(self) -> str:
        """See `File`."""
        return "max\n" if self.value >= _MOST // _PAGE * _PAGE else f"{self.value}\n"

    def write(self, text: str) -> None:
        """See `File`."""
        super().write(str(_MOST) if text.strip() == "max" else text)
        self.value = self.value // _PAGE * _PAGE


class Group:
    """A directory of one hierarchy."""

    def __init__(self, files: Callable[[], dict[str, File]]) -> None:
        self._make = files
        self.files = files()
        self.children: dict[str, Group] = {}

    def entries(self) -> dict[str, Directory | File]:
        """See `Directory`."""
        return {**self.files, **self.children}

    def mkdir(self, name: str) -> None:
        """A child with files of its own."""
        if name in self.entries():
            raise refuse(errno.EEXIST)
        self.children[name] = Group(self._make)

    def rmdir(self, name: str) -> None:
        """A child without children."""
        if name not in self.children:
            raise refuse(errno.ENOENT)
        if self.children[name].children:
            raise refuse(errno.EBUSY)
        del self.children[name]


def hierarchies() -> Directory:
    """``cpu``, ``cpuset``, ``cpuacct`` and ``memory``, as they are mounted beneath one root."""
    return Fixed(
        {
            "cpu": Group(lambda: _integers(_CPU)),
            "cpuset": Group(_procs),
            "cpuacct": Group(_procs),
            "memory": Group(_memory),
        }
    )


def _integers(ranges: dict[str, tuple[int, int, int]]) -> dict[str, File]:
    return {name: Integer(*limits) for name, limits in ranges.items()} | _procs()


def _memory() -> dict[str, File]:
    sizes: dict[str, File] = {name: Bytes(_MOST if name == "memory.high" else 0) for name in _BYTES}
    return _integers(_MEMORY) | sizes


def _procs() -> dict[str, File]:
    return {"cgroup.procs": Said(""), "tasks": Said("")}
