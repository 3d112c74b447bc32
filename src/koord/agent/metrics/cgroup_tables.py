# SPDX-License-Identifier: Apache-2.0
"""The cgroups of all pods and containers, read as tables: a row a directory, a call a file name.

Files keep their descriptors from round to round. Collectors that are due together share what was
read: a file of a cgroup is read once a round, whoever asks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from koord.agent.host.process_limits import kept_descriptors
from koord.base.faults import point
from koord.kernels.cgroup import CATALOGUE, Directories, Reader
from koord.kernels.cgroup_parse import Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.agent.metrics.samples import Keys
    from koord.agent.states.pod_state import ContainerState, PodState
    from koord.base.clock import Clock
    from koord.kernels.cgroup import Hierarchy, Table

_CPU = ("cpuacct.usage", "cpu.stat")


@dataclass(frozen=True, slots=True, eq=False)
class CgroupRows:
    """Pods first, then the containers that have an id; the same object while the pods are the same.

    Attributes:
        pods: with one row each.
        containers: (pod, container), with one row each.
        directories: of both.
        all_directories, pod_directories: the same for readers, and those of pods.
        pod_of: int64, for each container the row of its pod.
        pod_keys: (uid,) a pod.
        container_keys: (id,) a container.
        container_pod_keys: (uid, id) a container.
        all_keys: the directory of each row, to tell counters apart.
    """

    pods: tuple[PodState, ...]
    containers: tuple[tuple[PodState, ContainerState], ...]
    directories: list[str]
    all_directories: Directories
    pod_directories: Directories
    pod_of: NDArray[np.int64]
    pod_keys: Keys
    container_keys: Keys
    container_pod_keys: Keys
    all_keys: Keys

    def split(self, column: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A column of all rows as those of pods and of containers."""
        return column[: len(self.pods)], column[len(self.pods) :]

    def with_pods(self, good: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Containers of a pod that could not be read do not count either."""
        if good.all():
            return good
        both = good.copy()
        both[len(self.pods) :] &= good[: len(self.pods)][self.pod_of]
        return both


def group_rows(pods: Sequence[PodState]) -> CgroupRows:
    """The rows of some pods; a container id or a UID that comes twice counts once."""
    by_uid = {pod.uid: pod for pod in pods}
    by_id = {c.id: (pod, c) for pod in by_uid.values() for c in pod.containers if c.id}
    rows = {uid: row for row, uid in enumerate(by_uid)}
    containers = tuple(by_id.values())
    directories = [pod.directory for pod in by_uid.values()]
    directories += [container.directory for _, container in containers]
    return CgroupRows(
        pods=tuple(by_uid.values()),
        containers=containers,
        directories=directories,
        all_directories=Directories(directories),
        pod_directories=Directories(directories[: len(by_uid)]),
        pod_of=np.array([rows[pod.uid] for pod, _ in containers], np.int64),
        pod_keys=tuple((uid,) for uid in by_uid),
        container_keys=tuple((container.id,) for _, container in containers),
        container_pod_keys=tuple((pod.uid, container.id) for pod, container in containers),
        all_keys=tuple((directory,) for directory in directories),
    )


@dataclass(frozen=True, slots=True, eq=False)
class CgroupReading:
    """One file of every row.

    Attributes:
        rows: whose.
        table: what the files say.
        good: a row, whether it could be read and parsed.
        at_seconds: monotonic time of the reading.
    """

    rows: CgroupRows
    table: Table
    good: NDArray[np.bool_]
    at_seconds: float

    def column(self, name: str = "value") -> NDArray[np.int64]:
        """A column of integers."""
        return self.table[name]


class CgroupTables:
    """Reads them; one for all collectors.

    Args:
        hierarchy: the tree.
        clock: tells when a file was read.
        kept_max: descriptors to keep at most; by default three quarters of what the process
            may keep; the executor has the others.
    """

    def __init__(self, hierarchy: Hierarchy, clock: Clock, kept_max: int | None = None) -> None:
        self._hierarchy = hierarchy
        self._clock = clock
        self._kept_max = kept_descriptors() * 3 // 4 if kept_max is None else kept_max
        self._keeping = Reader(hierarchy, self._kept_max)
        self._opening = Reader(hierarchy, 0)
        self._rows = group_rows(())
        self._of: object = ()
        self._round = float("-inf")
        self._read: dict[tuple[str, bool], CgroupReading] = {}
        self._files: dict[tuple[str, bool], int] = {}
        self._gone = 0
        self._together = _together(hierarchy.version)

    @property
    def kept(self) -> int:
        """Descriptors that are open now."""
        return self._keeping.kept

    @property
    def directories(self) -> list[str]:
        """Of the pods and containers of the newest round, pods first."""
        return list(self._rows.directories)

    def rows(self, pods: tuple[PodState, ...]) -> CgroupRows:
        """The rows of some pods: the same object while ``pods`` is the same object."""
        if pods is not self._of:
            before = set(self._rows.directories)
            self._of, self._rows = pods, group_rows(pods)
            self._forget(before.difference(self._rows.directories))
            self._read = {}
        return self._rows

    def read(
        self,
        pods: tuple[PodState, ...],
        round_seconds: float,
        resource: str,
        pods_only: bool = False,
    ) -> CgroupReading:
        """One file of every pod and container, or of every pod.

        Args:
            pods: of the round.
            round_seconds: when the round began, monotonic; what was read in it is not read again.
            resource: the file, by its name in the catalogue.
            pods_only: leaves containers out.
        """
        rows = self.rows(pods)
        if round_seconds != self._round:
            self._round, self._read = round_seconds, {}
        if (resource, pods_only) not in self._read:
            point("metrics.groups.read")
            directories = rows.pod_directories if pods_only else rows.all_directories
            at_seconds = self._clock.monotonic_seconds()
            together = self._together.get(resource, [resource])
            reader = self._reader((together[0], True), len(directories))
            for name, table in reader.read(directories, together).items():
                reading = CgroupReading(rows, table, table.error == 0, at_seconds)
                self._read[name, pods_only] = reading
        return self._read[resource, pods_only]

    def read_others(self, directories: list[str], resources: list[str]) -> dict[str, Table]:
        """Files of directories that are not, or not all, those of pods and containers."""
        names = (" ".join(resources), False)
        reader = self._reader(names, len(directories) * len(resources))
        return reader.read(directories, resources)

    def _reader(self, names: tuple[str, bool], files: int) -> Reader:
        """The one that keeps descriptors, if there are enough of them for all that is read.

        With fewer, each would be dropped before it is read again.
        """
        self._files[names] = files
        return self._keeping if sum(self._files.values()) <= self._kept_max else self._opening

    def _forget(self, gone: set[str]) -> None:
        # Descriptors of cgroups that are gone keep a little of each in the kernel's memory. Closing
        # means opening all that are left anew, which is little where few are left.
        self._gone += len(gone)
        if self._gone > len(self._rows.directories) // 4:
            self.close()

    def close(self) -> None:
        """Closes the descriptors; the next round opens them anew."""
        self._keeping.close_kept()
        self._gone = 0


def _together(version: Version) -> dict[str, list[str]]:
    """Of the counters that every round needs, those of one file: cgroup v2 has one for both."""
    files = [CATALOGUE[name].v2 if version is Version.V2 else CATALOGUE[name].v1 for name in _CPU]
    same = len({(file.directory, file.name) for file in files if file}) == 1
    return {name: list(_CPU) for name in _CPU} if same else {}
