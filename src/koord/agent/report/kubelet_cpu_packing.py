# SPDX-License-Identifier: Apache-2.0
"""The CPUs that the kubelet takes for a number of them.

Rule: docs/reference/reports.md#reserved-cpus.
"""

from __future__ import annotations

from collections import Counter
from operator import attrgetter
from typing import TYPE_CHECKING

from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.protocol.topology import CPUInfo

    Level = Callable[[CPUInfo], int]

_SOCKET, _NODE, _CORE = attrgetter("socket"), attrgetter("node"), attrgetter("core")


def packed_cpus(cpus: Sequence[CPUInfo], count: int) -> CPUSet:
    """So many CPUs as the kubelet takes them: whole sockets, NUMA nodes, then cores, then threads.

    The smallest come first, then the lowest. A socket or core is whole if it has as many CPUs as
    an average one, so that none is on a machine of which some CPUs are offline.

    Args:
        cpus: those online, none of them taken.
        count: how many; none are given where there are fewer, or it is below 1.
    """
    if not 0 < count <= len(cpus):
        return CPUSet()
    taken: set[int] = set()
    levels: list[Level] = []
    for level in (_SOCKET, _NODE, _CORE):
        levels.append(level)
        totals = Counter(map(level, cpus))
        whole = None if level is _NODE else len(cpus) // len(totals)
        for group in _groups(_free(cpus, taken), levels):
            is_whole = len(group) == (totals[level(group[0])] if whole is None else whole)
            if is_whole and len(taken) + len(group) <= count:
                taken.update(cpu.id for cpu in group)
    threads = [cpu.id for group in _groups(_free(cpus, taken), levels) for cpu in group]
    return CPUSet.from_ids([*taken, *threads[: count - len(taken)]])


def _free(cpus: Sequence[CPUInfo], taken: set[int]) -> list[CPUInfo]:
    return [cpu for cpu in cpus if cpu.id not in taken]


def _groups(free: list[CPUInfo], levels: Sequence[Level]) -> list[list[CPUInfo]]:
    """CPUs by the last of the levels, within the order of the levels above."""
    level, above = levels[-1], levels[:-1]
    members: dict[int, list[CPUInfo]] = {}
    for cpu in sorted(free, key=attrgetter("id")):
        members.setdefault(level(cpu), []).append(cpu)
    order: dict[int, None] = {}
    for parent in _groups(free, above) if above else [free]:
        inside = {level(cpu) for cpu in parent}
        order.update(dict.fromkeys(sorted(inside, key=lambda each: (len(members[each]), each))))
    return [members[each] for each in order]
