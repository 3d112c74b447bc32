# SPDX-License-Identifier: Apache-2.0
"""Processes: which are in a cgroup, which cgroup one is in, how long it ran and waited."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.agent.host import files
from koord.base.errors import KoordError
from koord.kernels.cgroup_parse import Version, parse_ids

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from koord.kernels.cgroup import Hierarchy

# Hierarchies of v1 that a container runtime always puts a container into, best first.
_ID_FILES = ("memory", "cpu", "cpuset", "pids")


def processes(hierarchy: Hierarchy, directory: str) -> NDArray[np.int32]:
    """Ids of the processes that are in a cgroup itself, in the order of the file.

    Raises:
        KoordError: the cgroup is gone, or the file holds something else.
    """
    return _ids(hierarchy, "cgroup.procs", directory)


def threads(hierarchy: Hierarchy, directory: str) -> NDArray[np.int32]:
    """Ids of the threads that are in a cgroup itself; raises as :func:`processes`."""
    return _ids(hierarchy, "tasks", directory)


def _ids(hierarchy: Hierarchy, resource: str, directory: str) -> NDArray[np.int32]:
    path = hierarchy.path_of(resource, directory)
    try:
        return parse_ids(hierarchy.read_text(path))
    except (OSError, ValueError) as error:
        raise KoordError.wrap(path, "", error) from None


def cgroup_of(proc: str, pid: int, version: Version) -> str:
    """The cgroup of a process, relative to the hierarchy's root, without a slash at either end.

    Seen from a cgroup namespace the path may begin with ``..``; those components are left out.

    Raises:
        KoordError: the process has ended, or is in no hierarchy that tells.
    """
    path = f"{proc}/{pid}/cgroup"
    by_controller: dict[str, str] = {}
    for line in files.read_text(path).splitlines():
        fields = line.split(":", 2)
        if len(fields) == 3:  # number, controllers, path
            by_controller.update(dict.fromkeys(fields[1].split(","), fields[2]))
    wanted = ("",) if version == Version.V2 else (*_ID_FILES, "")
    for controller in wanted:
        if controller in by_controller:
            parts = by_controller[controller].split("/")
            return "/".join(part for part in parts if part not in ("", ".", ".."))
    raise KoordError(
        path, "", ",".join(sorted(by_controller)), "a hierarchy that containers are in"
    )


class SchedulerTimes(NamedTuple):
    """What the scheduler counted of one task.

    Attributes:
        run_ns: on a CPU.
        wait_ns: ready, and waiting for one.
        slices: how often it was put on a CPU.
    """

    run_ns: int
    wait_ns: int
    slices: int


def scheduler_times(proc: str, pid: int) -> SchedulerTimes:
    """``/proc/PID/schedstat``; of a process its main thread. See Linux sched-stats.rst.

    Raises:
        KoordError: the process has ended, the kernel keeps no such statistics, or a bad number.
    """
    path = f"{proc}/{pid}/schedstat"
    fields = files.read_bytes(path).split()
    if len(fields) < 3 or not all(map(files.is_count, fields[:3])):
        raise KoordError(path, "", b" ".join(fields), "three numbers")
    return SchedulerTimes(*map(int, fields[:3]))
