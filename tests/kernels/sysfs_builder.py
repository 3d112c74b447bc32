# SPDX-License-Identifier: Apache-2.0
"""Lays out the part of ``/sys`` that tells a machine's CPUs, from a description of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from koord.kernels.cpuset import CPUSet


@dataclass(frozen=True)
class Thread:
    """A CPU as the kernel numbers it; None leaves the file out."""

    cpu: int
    core: int | None = 0
    socket: int | None = 0
    node: int | None = 0
    l3: int | None = 0
    online: bool = True


@dataclass(frozen=True)
class Style:
    """Which of the kernel's equivalent files exist."""

    lists: bool = True
    masks: bool = True
    siblings: bool = True
    old_names: bool = False
    l3_ids: bool = True
    online_file: bool = True
    present_file: bool = True
    node_directory: bool = True


def write_sysfs(root: Path, threads: Iterable[Thread], style: Style | None = None) -> Path:
    """Writes ``root/sys`` and returns ``root``."""
    machine, style = list(threads), style or Style()
    cpus = root / "sys/devices/system/cpu"
    cpus.mkdir(parents=True)
    if style.online_file:
        _write(cpus / "online", str(CPUSet.from_ids(t.cpu for t in machine if t.online)))
    if style.present_file:
        _write(cpus / "present", str(CPUSet.from_ids(t.cpu for t in machine)))
    for thread in machine:
        _write_cpu(cpus / f"cpu{thread.cpu}", thread, machine, style)
    if style.node_directory:
        for node in {t.node for t in machine} - {None}:
            members = _where(machine, lambda t, node=node: t.node == node)
            _write_set(
                root / f"sys/devices/system/node/node{node}", "cpulist", "cpumap", members, style
            )
    return root


def _write_cpu(directory: Path, thread: Thread, machine: list[Thread], style: Style) -> None:
    directory.mkdir()
    if not style.online_file and thread.cpu > 0:
        _write(directory / "online", str(int(thread.online)))
    if not thread.online:
        return
    topology = directory / "topology"
    _write_number(topology / "physical_package_id", thread.socket)
    _write_number(topology / "core_id", thread.core)
    if style.siblings and thread.core is not None:
        prefix = "thread_siblings" if style.old_names else "core_cpus"
        place = _place(thread)
        siblings = _where(machine, lambda t: _place(t) == place)
        _write_set(topology, f"{prefix}_list", prefix, siblings, style)
    if thread.l3 is not None:
        cache = directory / "cache/index3"
        _write(cache / "level", "3")
        if style.l3_ids:
            _write_number(cache / "id", thread.l3)
        shared = _where(machine, lambda t: t.l3 == thread.l3)
        _write_set(cache, "shared_cpu_list", "shared_cpu_map", shared, style)


def _place(thread: Thread) -> tuple[int | None, int | None, int | None]:
    return thread.socket, thread.node, thread.core


def _where(machine: list[Thread], condition: Callable[[Thread], bool]) -> CPUSet:
    return CPUSet.from_ids(t.cpu for t in machine if t.online and condition(t))


def _write_set(directory: Path, list_name: str, mask_name: str, cpus: CPUSet, style: Style) -> None:
    if style.lists:
        _write(directory / list_name, str(cpus))
    if style.masks:
        _write(directory / mask_name, cpus.mask())


def _write_number(path: Path, number: int | None) -> None:
    if number is not None:
        _write(path, str(number))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
