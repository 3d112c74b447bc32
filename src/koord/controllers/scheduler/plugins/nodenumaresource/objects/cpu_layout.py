# SPDX-License-Identifier: Apache-2.0
"""The CPUs of a machine as its NodeResourceTopology describes them."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from koord.api.protocol import annotation, keys
from koord.api.protocol.topology import CPUTopology
from koord.base.errors import KoordError
from koord.kernels.cpuset import CPUSet
from koord.kernels.topology import Topology

_FIELD = annotation.field_of(keys.CPU_TOPOLOGY)


@dataclass(frozen=True, slots=True, eq=False)
class CPULayout:
    """CPUs, and what is often asked about them.

    ``threads`` divides the number of threads of every core, so a request under required FullPCPUs
    must be a multiple of it; ``uniform``: every core has exactly that many.
    """

    topology: Topology
    zone_cpus: dict[int, CPUSet]
    threads: int
    uniform: bool


def layout_of(text: str, owner: str) -> CPULayout | None:
    """The machine in the text of ``node.koordinator.sh/cpu-topology``; None without a CPU.

    Equal texts give the same object: a cluster has few models of machine.

    Raises:
        KoordError: malformed, or no machine can look like that.
    """
    found = _parsed(text)
    if isinstance(found, KoordError):
        raise KoordError(owner, found.field, found.value, found.expected)
    return found


@lru_cache(maxsize=1024)
def _parsed(text: str) -> CPULayout | KoordError | None:
    try:
        detail = annotation.parse(text, CPUTopology, "", _FIELD).detail
        if not detail:
            return None
        topology = Topology.from_cpus(
            [cpu.id for cpu in detail],
            core=[cpu.core for cpu in detail],
            socket=[cpu.socket for cpu in detail],
            node=[cpu.node for cpu in detail],
        )
    except KoordError as error:
        return error.copy()
    except ValueError as error:
        return KoordError.wrap("", _FIELD, error)
    return _describe(topology)


def _describe(topology: Topology) -> CPULayout:
    zones: dict[int, list[int]] = {}
    threads: Counter[int] = Counter()
    for cpu in topology.cpus:
        if cpu.node is not None:
            zones.setdefault(cpu.node, []).append(cpu.cpu)
        # A CPU of unknown core is a core of its own.
        threads[-1 - cpu.cpu if cpu.core is None else cpu.core] += 1
    return CPULayout(
        topology,
        {zone: CPUSet.from_ids(zones[zone]) for zone in sorted(zones)},
        math.gcd(*threads.values()),
        len(set(threads.values())) == 1,
    )
