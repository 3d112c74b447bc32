# SPDX-License-Identifier: Apache-2.0
"""Which CPUs pods share, and which are held back.

Rule: docs/reference/reports.md#share-pools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.agent.report.kubelet_cpu_packing import packed_cpus
from koord.api.protocol.node_reservation import reserved_cpus
from koord.api.protocol.qos import QoSClass
from koord.api.protocol.topology import CPUInfo, CPUSharedPool
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.api.protocol.node_reservation import NodeReservation


class BoundCPUs(NamedTuple):
    """A pod that is bound to CPUs by its annotation."""

    qos: QoSClass
    cpus: str


class CPUPools(NamedTuple):
    """Shared CPUs by NUMA node, sorted by socket and node."""

    shared: list[CPUSharedPool]  #: for LS pods
    best_effort: list[CPUSharedPool]


def shared_pools(
    cpus: Sequence[CPUInfo], bound: Iterable[BoundCPUs], by_kubelet: CPUSet, kept: CPUSet
) -> CPUPools:
    """What is left to share.

    Args:
        cpus: of the machine, those that are online.
        bound: pods bound by koord; of these only LSE pods keep their CPUs from best effort.
        by_kubelet: what the kubelet's static policy gave out.
        kept: reserved for the node, and exclusive to system pods; a pool stays, if empty.
    """
    shared = CPUSet.from_ids(cpu.id for cpu in cpus) - by_kubelet
    best_effort = shared
    for pod in bound:
        held = readable_cpus(pod.cpus)
        shared = shared - held
        if pod.qos is QoSClass.LSE:
            best_effort = best_effort - held
    return CPUPools(_by_node(cpus, shared, kept), _by_node(cpus, best_effort, kept))


def kept_cpus(cpus: Sequence[CPUInfo], reservation: NodeReservation | None) -> CPUSet:
    """The CPUs that a node reservation holds back: those it names, else as many, packed.

    None where it asks for more than there are.
    """
    named, count = reserved_cpus(reservation)
    if named:
        return readable_cpus(named)
    return packed_cpus(cpus, count)


def readable_cpus(text: str) -> CPUSet:
    """The CPUs of a list that somebody else wrote; none where it makes no sense."""
    try:
        return CPUSet.parse_wire(text)
    except ValueError:
        return CPUSet()


def _by_node(cpus: Sequence[CPUInfo], chosen: CPUSet, kept: CPUSet) -> list[CPUSharedPool]:
    sockets: dict[int, int] = {}
    members: dict[int, list[int]] = {}
    for cpu in cpus:
        if cpu.id in chosen:
            sockets.setdefault(cpu.node, cpu.socket)
            members.setdefault(cpu.node, []).append(cpu.id)
    pools = [
        CPUSharedPool(socket=sockets[node], node=node, cpuset=str(CPUSet.from_ids(ids) - kept))
        for node, ids in members.items()
    ]
    return sorted(pools, key=lambda pool: (pool.socket, pool.node))
