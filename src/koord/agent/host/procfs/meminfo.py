# SPDX-License-Identifier: Apache-2.0
"""Memory of the machine and of its NUMA nodes, and the huge pages set aside."""

from __future__ import annotations

import re
from dataclasses import dataclass

from koord.agent.host import files
from koord.base.errors import KoordError

_KIB = 1024
_NODE = re.compile(r"node(\d{1,9})", re.ASCII)
# Eighteen digits fit 63 bits, and int() never refuses them for their length.
_LINE = re.compile(
    r"^([^:\n]*):[ \t]*(\d{1,18})(?:[ \t]+(kB)[ \t]*|[ \t][^\n]*)?$", re.MULTILINE | re.ASCII
)


def read_meminfo(proc: str) -> dict[str, int]:
    """``/proc/meminfo`` by name: bytes where the line says kB, else the number as it is.

    Raises:
        KoordError: unreadable.
    """
    return parse_meminfo(files.read_bytes(f"{proc}/meminfo"))


def parse_meminfo(text: bytes) -> dict[str, int]:
    """Lines ``Name: 123 kB``; those of another form are left out, the first of a name counts."""
    found: dict[str, int] = {}
    for name, number, kib in _LINE.findall(text.decode("ascii", "replace")):
        found.setdefault(name.strip(), int(number) * (_KIB if kib else 1))
    return found


def require(meminfo: dict[str, int], name: str, path: str) -> int:
    """One number.

    Raises:
        KoordError: the file does not have it.
    """
    if name not in meminfo:
        raise KoordError(path, name, "no such line", "a number of kB")
    return meminfo[name]


def used_bytes(meminfo: dict[str, int], path: str) -> int:
    """MemTotal - MemAvailable. Rule: docs/reference/measuring.md#node-usage.

    Raises:
        KoordError: one of them is missing.
    """
    return require(meminfo, "MemTotal", path) - require(meminfo, "MemAvailable", path)


def numa_used_bytes(meminfo: dict[str, int], path: str) -> int:
    """Memory of a NUMA node that cannot be had back at once, at least 0.

    Rule: docs/reference/measuring.md#numa-nodes.

    Raises:
        KoordError: a number is missing.
    """
    free = sum(
        require(meminfo, name, path)
        for name in ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
    )
    return max(0, require(meminfo, "MemTotal", path) - free)


def numa_nodes(sys: str) -> list[int]:
    """Ids of the NUMA nodes, ascending, without those that only a generic initiator makes.

    Ids may have gaps, as on machines whose middle socket is empty.

    Raises:
        KoordError: the directory cannot be listed.
    """
    directory = f"{sys}/devices/system/node"
    found = sorted(int(m[1]) for n in files.names(directory) if (m := _NODE.fullmatch(n)))
    initiators = _ids(f"{directory}/has_generic_initiator")
    real = _ids(f"{directory}/has_cpu") | _ids(f"{directory}/has_memory")
    return [node for node in found if node not in initiators or node in real]


def _ids(path: str) -> set[int]:
    from koord.kernels.cpuset import CPUSet

    try:
        return set(CPUSet.parse(files.read_text(path)))
    except (KoordError, ValueError):
        return set()


def read_numa_meminfo(sys: str, node: int) -> dict[str, int]:
    """``meminfo`` of a NUMA node, without the prefix of its lines.

    Raises:
        KoordError: unreadable.
    """
    text = files.read_bytes(f"{sys}/devices/system/node/node{node}/meminfo")
    return parse_meminfo(text.replace(f"Node {node} ".encode(), b""))


@dataclass(frozen=True, slots=True)
class HugePages:
    """Huge pages of one size on one NUMA node.

    Attributes:
        node: the NUMA node.
        page_bytes: size of a page.
        total, free: how many.
    """

    node: int
    page_bytes: int
    total: int
    free: int


_HUGE = re.compile(r"hugepages-(\d{1,12})kB", re.ASCII)


def read_huge_pages(sys: str) -> list[HugePages]:
    """The huge pages of every NUMA node and size; sizes that the kernel lacks are not listed.

    Raises:
        KoordError: a count cannot be read.
    """
    found = []
    for node in numa_nodes(sys):
        directory = f"{sys}/devices/system/node/node{node}/hugepages"
        for name in files.names(directory):
            if size := _HUGE.fullmatch(name):
                total = files.read_int(f"{directory}/{name}/nr_hugepages")
                free = files.read_int(f"{directory}/{name}/free_hugepages")
                found.append(HugePages(node, int(size[1]) * _KIB, total, free))
    return found
