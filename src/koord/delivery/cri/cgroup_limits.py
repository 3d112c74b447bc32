# SPDX-License-Identifier: Apache-2.0
"""What a pod's cgroup lets a container have: more of it would keep the container from starting.

On cgroup v1 the kernel takes no quota above that of a directory above, and no CPUs that it lacks,
and runc then starts no container. On v2 it takes both.
Rule: docs/reference/delivery.md#what-a-kernel-refuses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.kernels.cgroup import Hierarchy
from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    import os

_MOST_DEPTH = 16


class CgroupLimits(NamedTuple):
    """Of one pod.

    Attributes:
        readable: whether its directories could be read; otherwise nothing is known.
        version: of the hierarchy.
        quota: and period of the directory above that has the least of it, microseconds; None
            where none has a quota.
        cpus, mems: CPUs and memory nodes that it has; None where no directory says.
    """

    readable: bool
    version: Version = Version.V1
    quota: tuple[int, int] | None = None
    cpus: CPUSet | None = None
    mems: CPUSet | None = None


class CgroupLimitReader:
    """Reads them.

    Args:
        root: where cgroups are mounted.
    """

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._hierarchy: Hierarchy | None
        try:
            self._hierarchy = Hierarchy(root)
        except OSError:
            self._hierarchy = None

    def of(self, cgroup_parent: str) -> CgroupLimits:
        """Those of a pod, by the parent of its cgroups as CRI says it."""
        hierarchy = self._hierarchy
        if hierarchy is None:
            return CgroupLimits(readable=False)
        if hierarchy.version is Version.V2:
            return CgroupLimits(readable=True, version=Version.V2)
        try:
            directory = directory_of(cgroup_parent)
            cpus, mems = self._ids("cpus", directory), self._ids("mems", directory)
            return CgroupLimits(True, Version.V1, self._quota(directory), cpus, mems)
        except (OSError, ValueError):
            return CgroupLimits(readable=False)

    def _text(self, path: str) -> str:
        assert self._hierarchy is not None
        return self._hierarchy.read_text(path).decode("ascii").strip()

    def _ids(self, kind: str, directory: str) -> CPUSet | None:
        # A directory that says nothing gets what is above it before a container is made.
        for above in directories_up(directory):
            if ids := CPUSet.parse(self._text(f"cpuset/{above}/cpuset.{kind}")):
                return ids
        return None

    def _quota(self, directory: str) -> tuple[int, int] | None:
        least: tuple[int, int] | None = None
        for above in directories_up(directory):
            quota, period = (
                int(self._text(f"cpu/{above}/cpu.cfs_{name}_us")) for name in ("quota", "period")
            )
            if quota > 0 and (least is None or quota * least[1] < least[0] * period):
                least = quota, period
        return least


def directories_up(directory: str) -> list[str]:
    """A directory and those above it, the hierarchy's own apart."""
    parts = directory.split("/")
    return ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def directory_of(cgroup_parent: str) -> str:
    """Path beneath a hierarchy: systemd's ``a-b.slice`` lies in ``a.slice``.

    Raises:
        ValueError: it is no path of a pod's cgroup.
    """
    bare = cgroup_parent.strip("/")
    parts = bare.split("/")
    if not bare or len(parts) > _MOST_DEPTH or not {"", ".", ".."}.isdisjoint(parts):
        raise ValueError(f"cgroup parent: got {cgroup_parent[:80]!r}, expected a path")
    if len(parts) > 1 or not bare.endswith(".slice"):
        return bare
    words = bare.removesuffix(".slice").split("-")
    if len(words) > _MOST_DEPTH:
        raise ValueError(f"cgroup parent: got {cgroup_parent[:80]!r}, expected a path")
    return "/".join("-".join(words[: n + 1]) + ".slice" for n in range(len(words)))
