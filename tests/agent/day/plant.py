# SPDX-License-Identifier: Apache-2.0
"""The machine of a simulated day: cgroups that come and go, counters that follow the clock."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from koord.agent.executor.writers.cgroup_files import NativeCgroupFiles
from koord.agent.states.pod_state import PodState
from koord.kernels.cgroup import CATALOGUE, Write, Written
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import KubeQos
from koord.kernels.quantity import Rounding
from tests.agent.machine_tree import GIB, MIB, TICKS_PER_SECOND, Group, MachineTree

CPUS = "0-3"
_NO_LIMIT = "9223372036854771712"
KNOBS = {
    "cpu.shares": {Version.V1: "1024", Version.V2: "39"},
    "cpu.cfs_burst_us": {Version.V1: "0", Version.V2: "0"},
    "cpu.bvt_warp_ns": {Version.V1: "0", Version.V2: "0"},
    "memory.limit_in_bytes": {Version.V1: _NO_LIMIT, Version.V2: "max"},
    "memory.min": {Version.V1: "0", Version.V2: "0"},
    "memory.low": {Version.V1: "0", Version.V2: "0"},
    "memory.high": {Version.V1: _NO_LIMIT, Version.V2: "max"},
    "cpuset.cpus": {Version.V1: CPUS, Version.V2: CPUS},
    "cpu.cfs_quota_us": {Version.V1: "-1", Version.V2: "max 100000"},
}
_COUNTERS = ("cpuacct.usage", "memory.stat", "memory.usage_in_bytes", "cpu.stat", "memory.current")


class PlantFiles(NativeCgroupFiles):
    """Plain files; a quota that is written leaves the period of ``cpu.max``, as in the kernel."""

    def write_leveled(
        self, levels: Sequence[Sequence[Write]], now_seconds: float
    ) -> list[list[Written]]:
        answers = super().write_leveled(levels, now_seconds)
        for write in (each for level in levels for each in level):
            path = Path(self._hierarchy.path, self._hierarchy.path_of(*write[:2]))
            if path.name == "cpu.max" and path.exists() and len(path.read_text().split()) == 1:
                path.write_text(f"{path.read_text().strip()} 100000\n")
        return answers


class Plant:
    """Everything of the machine that is not the agent.

    Attributes:
        tree: its files.
        originals: what files said that the agent may write, by path below the root.
    """

    def __init__(self, root: Path, version: Version, draw: random.Random) -> None:
        self.tree, self._draw = MachineTree(root, version), draw
        self.originals: dict[Path, str] = {}
        self.machine = self.tree.machine()
        self._groups: dict[str, Group] = {}
        self._busy = [0, 0, 0, 0]
        for qos in KubeQos:
            self.make(self.machine.layout.qos(qos))
        settings = {"min_free_kbytes": "67584\n", "watermark_scale_factor": "10\n"}
        for name, text in settings.items():
            place = self.tree.write(f"proc/sys/vm/{name}", text)
            self.originals[place] = text.strip()
        self.pressed = False

    def make(self, directory: str, given: Mapping[str, str] = MappingProxyType({})) -> None:
        """A new cgroup, whose CPUs are its parent's, as the container runtime makes it.

        Args:
            directory: relative.
            given: texts of files that the kubelet sets.
        """
        self._groups[directory] = Group()
        self.tree.group(directory, Group())
        for resource, values in KNOBS.items():
            place = self.file(resource, directory)
            text = given.get(resource, values[self.tree.version])
            self.originals[place] = text
            above = self.file(resource, directory.rpartition("/")[0])
            if resource == "cpuset.cpus" and "/" in directory:
                text = above.read_text().strip()
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"{text}\n")

    def start(self, pod: PodState) -> None:
        """Cgroups of a pod and its containers."""
        self.make(pod.directory, self._given(pod, len(pod.containers)))
        for each in pod.containers:
            self.make(each.directory, self._given(pod, 1))

    def _given(self, pod: PodState, containers: int) -> dict[str, str]:
        """What the kubelet sets for some containers of a pod together."""
        limits = pod.pod.spec.containers[0].resources.limits
        millis = limits["cpu"].milli(Rounding.UP) if "cpu" in limits else 0
        memory = limits["memory"].value(Rounding.UP) if "memory" in limits else 0
        # The kubelet goes by limits and requests, which are the same here; it knows no label.
        shares, quota = max(2, millis * 1024 // 1000), millis * 100 or -1
        found = {} if quota < 0 else {"cpu.cfs_quota_us": str(containers * quota)}
        if memory > 0:
            found["memory.limit_in_bytes"] = str(containers * memory)
        if self.tree.version is Version.V2:
            found = {name: f"{text} 100000" if name.startswith("cpu") else text
                     for name, text in found.items()}  # fmt: skip
            return found | ({} if millis else {"cpu.shares": "1"})
        return found | {"cpu.shares": str(2 if shares == 2 else containers * shares)}

    def end(self, pod: PodState) -> None:
        """They go, those beneath first."""
        for directory in (*(each.directory for each in pod.containers), pod.directory):
            self._groups.pop(directory, None)
            self.tree.remove(directory)
        self.originals = {place: text for place, text in self.originals.items() if place.exists()}

    def file(self, resource: str, directory: str) -> Path:
        """Where a value lies."""
        row = CATALOGUE[resource]
        found = row.v2 if self.tree.version is Version.V2 else row.v1
        assert found is not None
        return self.tree.root / "sys/fs/cgroup" / found.directory / directory / found.name

    def advance(self, seconds: int) -> None:
        """Counters of a while."""
        for cpu in range(4):
            self._busy[cpu] += int(self._draw.uniform(0.05, 0.9) * seconds * TICKS_PER_SECOND)
        self.tree.stat(self._busy)
        available = GIB if self.pressed else self._draw.randint(6, 9) * GIB
        self.tree.meminfo(total=16 * GIB, free=available // 2, available=available)
        for directory, group in self._groups.items():
            group.usage_ns += int(self._draw.uniform(0.0, 0.7) * seconds * 1e9)
            group.anon = self._draw.randint(1, 400) * MIB
            periods = seconds * 10
            group.periods += periods
            group.throttled += self._draw.choice((0, 0, periods // 2))
            self._count(directory, group)

    def _count(self, directory: str, group: Group) -> None:
        for (subsystem, name), text in self.tree._files(group).items():
            if name in _COUNTERS:
                self.tree.write(f"sys/fs/cgroup/{subsystem}/{directory}/{name}", text)

    def truncate(self) -> None:
        """A file that is measured says nothing until it is written again."""
        names = ["proc/stat", "proc/meminfo"]
        for directory in self._groups:
            names += [
                str(self.file(each, directory).relative_to(self.tree.root))
                for each in ("cpu.stat", "memory.stat")
            ]
        self.tree.write(self._draw.choice(names), "")

    def wrong(self) -> Iterator[str]:
        """Files outside of what may ever stand in them."""
        for directory in self._groups:
            said = {name: self._said(name, directory) for name in KNOBS}
            quota, burst = _limit(said["cpu.cfs_quota_us"]), int(said["cpu.cfs_burst_us"])
            if quota != -1 and quota < 1000:
                yield f"{directory} quota {quota}"
            if burst < 0:
                yield f"{directory} burst {burst}"
            if not set(_cpus(said["cpuset.cpus"])) or not _cpus(said["cpuset.cpus"]) <= {
                0,
                1,
                2,
                3,
            }:
                yield f"{directory} cpus {said['cpuset.cpus']!r}"
            for name in ("memory.limit_in_bytes", "memory.min", "memory.low", "memory.high"):
                if said[name].startswith("-") and said[name] != "-1":
                    yield f"{directory} {name} {said[name]}"
            if not -1 <= int(said["cpu.bvt_warp_ns"]) <= 2:
                yield f"{directory} bvt {said['cpu.bvt_warp_ns']}"

    def changed(self) -> dict[str, tuple[str, str]]:
        """Files that do not say what they said before the agent came: what, and what before."""
        return {
            str(place.relative_to(self.tree.root)): (place.read_text().strip(), before)
            for place, before in self.originals.items()
            if _shown(place.name, place.read_text().strip()) != _shown(place.name, before)
        }

    def _said(self, resource: str, directory: str) -> str:
        return self.file(resource, directory).read_text().strip()


def _shown(name: str, text: str) -> str:
    """As the kernel would show it: one word for no limit of memory; v2: CPUs of the parent."""
    if name == "cpuset.cpus":
        return text or CPUS
    if name not in ("memory.limit_in_bytes", "memory.high"):
        return text
    return "max" if text in ("-1", "max") or int(text) >= int(_NO_LIMIT) else text


def _limit(text: str) -> int:
    word = text.split()[0]
    return -1 if word == "max" else int(word)


def _cpus(text: str) -> set[int]:
    found: set[int] = set()
    for part in (text or CPUS).split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found
