# SPDX-License-Identifier: Apache-2.0
"""A machine drawn as a tree of sockets, NUMA nodes and L3 domains with a box for every core."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from rich.text import Text
from rich.tree import Tree

from koord.kernels.cpuset import CPUSet
from koord.kernels.topology import CPU, Topology

# Of the 100 columns that a tree may take, what labels and branches leave.
_CORES_WIDTH = 78


def draw(topology: Topology) -> Iterator[Text | Tree]:
    """The lines and trees that show the machine, from the whole to the offline rest."""
    yield Text(_headline(topology), style="bold")
    online = [cpu for cpu in topology.cpus if cpu.online]
    width = len(str(max(cpu.cpu for cpu in online)))
    sockets_of = {
        node: sorted({_order(cpu.socket) for cpu in members})
        for node, members in _by(online, "node")
    }
    for socket, members in _by(online, "socket"):
        tree = Tree(_label("socket", socket, _counted(members)))
        for node, in_node in _by(members, "node"):
            others = [other for other in sockets_of[node] if other != _order(socket)]
            branch = tree.add(_label("node", node, _elsewhere(others)))
            for l3, under in _by(in_node, "l3"):
                branch.add(_cores(l3, under, width))
        yield tree
    offline = CPUSet.from_ids(cpu.cpu for cpu in topology.cpus if not cpu.online)
    if offline:
        yield Text(f"offline: {offline}", style="dim")


def _headline(topology: Topology) -> str:
    summary = topology.summary()
    parts = [
        _count(summary.sockets, "socket"),
        _count(summary.nodes, "NUMA node"),
        _count(summary.l3, "L3 domain"),
        _count(summary.cores, "core"),
    ]
    told = [part for part in parts if part]
    if summary.threads_per_core is not None:
        told.append(f"at most {_count(summary.threads_per_core, 'thread')} a core")
    return f"{_count(summary.cpus, 'CPU')} online" + (": " + ", ".join(told) if told else "")


def _cores(l3: int | None, cpus: list[CPU], width: int) -> Text:
    """One box a core; lines are folded under the first box."""
    label = f"L3 {'?' if l3 is None else l3}".ljust(7)
    boxes = [
        "[" + " ".join(str(cpu.cpu).rjust(width) for cpu in threads) + "]"
        for _, threads in groupby(sorted(cpus, key=_core), key=_core)
    ]
    lines = [""]
    for box in boxes:
        if lines[-1] and len(lines[-1]) + len(box) + 1 > _CORES_WIDTH:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + box
    text = Text(label, style="dim")
    text.append(("\n" + " " * len(label)).join(lines), style="not dim cyan")
    return text


def _core(cpu: CPU) -> tuple[bool, int]:
    """CPUs of unknown cores are cores of their own, after the others."""
    return cpu.core is None, cpu.cpu if cpu.core is None else cpu.core


def _label(name: str, number: int | None, rest: str) -> Text:
    text = Text(f"{name} {'?' if number is None else number}", style="bold")
    return text.append(f"  {rest}" if rest else "", style="not bold dim")


def _counted(cpus: list[CPU]) -> str:
    cores = len({cpu.core for cpu in cpus if cpu.core is not None})
    told = [_count(cores or None, "core"), _count(len(cpus), "CPU")]
    return ", ".join(part for part in told if part)


def _elsewhere(sockets: list[tuple[bool, int]]) -> str:
    names = ["?" if unknown else str(socket) for unknown, socket in sockets]
    return f"also on socket {', '.join(names)}" if names else ""


def _count(number: int | None, noun: str) -> str:
    if number is None:
        return ""
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _order(number: int | None) -> tuple[bool, int]:
    """Sorts what is not known last."""
    return number is None, number or 0


def _by(cpus: Iterable[CPU], field: str) -> list[tuple[int | None, list[CPU]]]:
    """The CPUs grouped by one of their numbers, ascending, unknown last."""
    groups: dict[int | None, list[CPU]] = {}
    for cpu in cpus:
        groups.setdefault(getattr(cpu, field), []).append(cpu)
    return sorted(groups.items(), key=lambda group: _order(group[0]))
