# SPDX-License-Identifier: Apache-2.0
"""A whole machine as files: /proc, /sys and a cgroup tree of either version, from a description."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from koord.agent.host import machine as machines
from koord.agent.host.machine import Machine
from koord.agent.host.roots import HostRoots
from koord.kernels.cgroup_parse import Version
from koord.kernels.cgroup_path import Driver
from tests.kernels.sysfs_builder import Thread, write_sysfs

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
TICKS_PER_SECOND = 100
TIER = {
    Driver.SYSTEMD: "kubepods.slice/kubepods-besteffort.slice",
    Driver.CGROUPFS: "kubepods/besteffort",
}


@dataclass
class Group:
    """Counters and figures of one cgroup, in v1 units."""

    usage_ns: int = 0
    anon: int = 0  # inactive_anon + active_anon, half each
    unevictable: int = 0
    file: int = 0  # inactive_file + active_file, half each
    periods: int = 0
    throttled: int = 0
    cpus: str = "0-3"
    quota: int = -1
    pages: dict[int, int] = field(default_factory=dict)
    pressure: tuple[float, float] | None = None

    @property
    def used(self) -> int:
        return self.anon // 2 * 2 + self.unevictable


class MachineTree:
    """Files below ``root``; every method writes at once, so a test moves time by hand."""

    def __init__(
        self, root: Path, version: Version = Version.V1, driver: Driver = Driver.SYSTEMD
    ) -> None:
        self.root, self.version, self.driver = root, version, driver
        self.roots = HostRoots().beneath(str(root))
        threads = [Thread(cpu, core=cpu, node=cpu // 2, socket=cpu // 2) for cpu in range(4)]
        write_sysfs(root, threads)
        self.stat([0, 0, 0, 0])
        self.meminfo(total=16 * GIB, free=4 * GIB, available=8 * GIB)
        for node in (0, 1):
            self.numa(node, total=8 * GIB, free=2 * GIB, file=1 * GIB, slab=0)
        self.write("proc/cpuinfo", "vendor_id\t: GenuineIntel\nmodel name\t: Fast\nflags\t: fpu\n")
        self.write("proc/1/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
        self.group("", Group())
        self.group(self.tier, Group())

    @property
    def tier(self) -> str:
        return TIER[self.driver]

    def machine(self) -> Machine:
        return machines.find(
            self.roots,
            driver=self.driver,
            ticks_per_second=TICKS_PER_SECOND,
            version=self.version,
        )

    def write(self, path: str, text: str) -> Path:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # A cgroup file keeps its inode: kept descriptors must see the new text.
        target.write_text(text)
        return target

    def stat(self, busy_ticks: list[int]) -> None:
        """Busy ticks a CPU, all as user time; idle and iowait are large and do not count."""
        total = sum(busy_ticks)
        lines = [f"cpu  {total} 0 0 99999 777 0 0 55 0 0"]
        lines += [f"cpu{cpu} {busy} 0 0 9999 77 0 0 5 0 0" for cpu, busy in enumerate(busy_ticks)]
        self.write("proc/stat", "\n".join([*lines, "intr 12345 0 0 9", "ctxt 5", ""]))

    def meminfo(self, total: int, free: int, available: int) -> None:
        figures = {"MemTotal": total, "MemFree": free, "MemAvailable": available}
        lines = [f"{name}: {value // KIB:>12} kB\n" for name, value in figures.items()]
        self.write("proc/meminfo", "".join([*lines, "HugePages_Total: 0\n"]))

    def numa(self, node: int, total: int, free: int, file: int, slab: int) -> None:
        figures = {
            "MemTotal": total, "MemFree": free, "Active(file)": file // 2,
            "Inactive(file)": file // 2, "SReclaimable": slab,
        }  # fmt: skip
        lines = [f"Node {node} {name}: {value // KIB} kB\n" for name, value in figures.items()]
        self.write(f"sys/devices/system/node/node{node}/meminfo", "".join(lines))

    def group(self, directory: str, group: Group) -> None:
        """Lays out, or changes, a cgroup."""
        for (subsystem, name), text in self._files(group).items():
            parts = ["sys/fs/cgroup", subsystem, directory, name]
            self.write("/".join(part for part in parts if part), text)

    def remove(self, directory: str) -> None:
        """Takes a cgroup away; those beneath it first."""
        subsystems = [""] if self.version == Version.V2 else ["cpu", "cpuacct", "memory", "cpuset"]
        for subsystem in subsystems:
            path = self.root / "sys/fs/cgroup" / subsystem / directory
            for file in sorted(path.iterdir()) if path.is_dir() else ():
                file.unlink()
            if path.is_dir():
                path.rmdir()

    def _files(self, group: Group) -> dict[tuple[str, str], str]:
        files = self._v2(group) if self.version == Version.V2 else self._v1(group)
        if group.pressure:
            some, full = group.pressure
            text = (
                f"some avg10={some} avg60=0.00 avg300=0.00 total=1\n"
                f"full avg10={full} avg60=0.00 avg300=0.00 total=1\n"
            )
            where = "" if self.version == Version.V2 else "cpuacct"
            files |= {(where, f"{word}.pressure"): text for word in ("cpu", "memory", "io")}
        return files

    def _v1(self, group: Group) -> dict[tuple[str, str], str]:
        nodes = " ".join(f"N{node}={count}" for node, count in group.pages.items())
        total = sum(group.pages.values())
        return {
            ("cpuacct", "cpuacct.usage"): f"{group.usage_ns}\n",
            ("memory", "memory.stat"): _memory_stat(group, "total_", "cache", "rss"),
            ("memory", "memory.numa_stat"): f"total={total} {nodes}\nfile=0 N0=0\n",
            ("memory", "memory.usage_in_bytes"): f"{group.used + group.file}\n",
            ("cpu", "cpu.stat"): (
                f"nr_periods {group.periods}\nnr_throttled {group.throttled}\nthrottled_time 0\n"
            ),
            ("cpu", "cpu.cfs_quota_us"): f"{group.quota}\n",
            ("cpu", "cpu.cfs_period_us"): "100000\n",
            ("cpuset", "cpuset.cpus"): f"{group.cpus}\n",
        }

    def _v2(self, group: Group) -> dict[tuple[str, str], str]:
        anon = " ".join(f"N{node}={count * 4096}" for node, count in group.pages.items())
        file = " ".join(f"N{node}=0" for node in group.pages)
        quota = "max" if group.quota == -1 else str(group.quota)
        return {
            ("", "memory.stat"): _memory_stat(group, "", "file", "anon"),
            ("", "memory.numa_stat"): f"anon {anon}\nfile {file}\n",
            ("", "memory.current"): f"{group.used + group.file}\n",
            ("", "cpu.stat"): (
                f"usage_usec {group.usage_ns // 1000}\nnr_periods {group.periods}\n"
                f"nr_throttled {group.throttled}\nthrottled_usec 0\n"
            ),
            ("", "cpu.max"): f"{quota} 100000\n",
            ("", "cpuset.cpus.effective"): f"{group.cpus}\n",
        }


def _memory_stat(group: Group, prefix: str, cache: str, rss: str) -> str:
    figures = {
        cache: group.file, rss: group.anon, "inactive_file": group.file // 2,
        "active_file": group.file // 2, "inactive_anon": group.anon // 2,
        "active_anon": group.anon // 2, "unevictable": group.unevictable,
    }  # fmt: skip
    return "".join(f"{prefix}{name} {value}\n" for name, value in figures.items())
