# SPDX-License-Identifier: Apache-2.0
"""Cgroups of pods and containers as a kubelet and a runtime make them, on either version."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from koord.kernels.cgroup import Hierarchy, Reader, Write, Writer
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import Driver, KubeQos, qos_directory

V1_HIERARCHIES = ("cpu", "cpuacct", "cpuset", "memory", "blkio")
V2_CONTROLLERS = ("cpu", "cpuset", "memory", "io")
HANDED_DOWN = " ".join(f"+{name}" for name in V2_CONTROLLERS)


@dataclass
class Tree:
    """A cgroup tree with the directories that every kubelet has.

    Args:
        root: as the agent gets it.
        driver: whose names.
    """

    root: Path
    driver: Driver = Driver.SYSTEMD

    def __post_init__(self) -> None:
        self.version = Version.V2 if (self.root / "cgroup.procs").exists() else Version.V1
        for qos in KubeQos:
            self.make(qos_directory(self.driver, qos).strip("/"))
        self.hierarchy = Hierarchy(self.root, self.version)
        self._reader = Reader(self.hierarchy, kept_max=0)

    @property
    def parts(self) -> list[Path]:
        """The roots of what holds a directory of the tree."""
        if self.version is Version.V2:
            return [self.root]
        return [self.root / name for name in V1_HIERARCHIES]

    def make(self, directory: str) -> None:
        """Makes a directory and those above it."""
        for part in self.parts:
            folder = part
            for name in directory.split("/"):
                if self.version is Version.V2:
                    (folder / "cgroup.subtree_control").write_text(HANDED_DOWN)
                folder = folder / name
                folder.mkdir(exist_ok=True)
                if part.name == "cpuset":
                    _inherit_cpuset(folder)

    def remove(self, directory: str) -> None:
        """Removes a directory and all beneath, once the processes in it are gone."""
        for part in self.parts:
            folders = [part / directory, *(part / directory).rglob("*")]
            for folder in sorted((f for f in folders if f.is_dir()), reverse=True):
                with contextlib.suppress(FileNotFoundError):
                    folder.rmdir()

    def enter(self, directory: str) -> None:
        """Moves the calling process into a directory."""
        for part in self.parts:
            (part / directory / "cgroup.procs").write_text(str(os.getpid()))

    def write(self, directory: str, **values: str | int) -> None:
        """Writes resources in v1 units; a dot in a name is two underscores."""
        requests = [
            Write(name.replace("__", "."), directory, value) for name, value in values.items()
        ]
        for result in Writer(self.hierarchy).write(requests, time.monotonic()):
            if result.message:
                raise OSError(result.errno, result.message)

    def number(self, directory: str, resource: str, column: str = "value") -> int:
        """A number as it is now, in v1 units."""
        table = self._reader.read([directory], [resource])[resource]
        if table.error[0]:
            raise OSError(int(table.error[0]), f"{directory} {resource} {table.messages}")
        return int(table[column][0])

    def cpus(self, directory: str) -> str:
        """The CPU list that holds for a directory."""
        return self._reader.read([directory], ["cpuset.cpus"])["cpuset.cpus"].texts[0]

    def text(self, directory: str, resource: str) -> str:
        """A file's text, as the kernel gives it."""
        path = self.hierarchy.path_of(resource, directory)
        return self.hierarchy.read_text(path).decode()

    def pids(self, directory: str) -> set[int]:
        """Processes of a directory itself."""
        return {int(line) for line in self.text(directory, "cgroup.procs").split()}

    def all_pids(self, directory: str) -> set[int]:
        """Processes of a directory and those beneath."""
        folder = self.parts[0] / directory
        return {
            int(line)
            for file in folder.rglob("cgroup.procs")
            for line in file.read_text(encoding="ascii").split()
        }


def _inherit_cpuset(folder: Path) -> None:
    # A v1 cpuset takes no process before it has CPUs and memory nodes.
    for name in ("cpuset.cpus", "cpuset.mems"):
        if not (folder / name).read_text(encoding="ascii").strip():
            (folder / name).write_text((folder.parent / name).read_text(encoding="ascii"))
