# SPDX-License-Identifier: Apache-2.0
"""What strategies know of machines, as columns: a row a machine, written when its Node changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.agent.strategies import pod_resources
from koord.agent.strategies.cpusuppress.machine_cpus import classified
from koord.agent.strategies.cpusuppress.usage_columns import reserved_milli
from koord.api.protocol.resources import BATCH_CPU, BATCH_MEMORY, CPU, MEMORY, MID_CPU, MID_MEMORY
from koord.kernels.topology import Topology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.agent.states.pod_state import PodState
    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.simulator.nodes.machine import SimulatedMachine

CPU_NAMES = (CPU, MID_CPU, BATCH_CPU)
MEMORY_NAMES = (MEMORY, MID_MEMORY, BATCH_MEMORY)
"""Under which names classes ask for a resource; a pod's class is a place in these."""


class NodeRow(NamedTuple):
    """One Node: milli-cores and bytes; ``known`` is 0 where there is none.

    ``cpu_0`` and so on are allocatable, by :data:`CPU_NAMES` and :data:`MEMORY_NAMES`; what is not
    offered is -1.
    """

    known: int = 0
    cpu_milli: int = 0
    memory_bytes: int = 0
    reserved_milli: int = 0
    cpu_0: int = -1
    cpu_1: int = -1
    cpu_2: int = -1
    memory_0: int = -1
    memory_1: int = -1
    memory_2: int = -1


class HostCPUs(NamedTuple):
    """How many CPUs of a machine are whose, without those that are held back.

    Attributes:
        all: of the machine.
        lsr: that LSR pods hold.
        shared: that neither LSE nor LSR pods hold.
        best_effort: that BE pods may have unsuppressed.
    """

    all: int
    lsr: int
    shared: int
    best_effort: int


def node_row(node: Node) -> NodeRow:
    """The figures of a Node."""
    capacity, allocatable = node.status.capacity, node.status.allocatable
    offered = [pod_resources.amount(allocatable, name) for name in (*CPU_NAMES, *MEMORY_NAMES)]
    return NodeRow(
        1,
        pod_resources.amount(capacity, CPU) or 0,
        pod_resources.amount(capacity, MEMORY) or 0,
        reserved_milli(node),
        *(-1 if each is None else each for each in offered),
    )


def whole(machine: SimulatedMachine) -> HostCPUs:
    """The CPUs of a machine of which no pod holds any and nothing is held back."""
    count = machine.pool.cpu
    return HostCPUs(count, 0, count, count)


def host_cpus(
    machine: SimulatedMachine, reported: NodeResourceTopology, pods: Sequence[PodState]
) -> HostCPUs:
    """The CPUs of a machine.

    Args:
        reported: what its agent publishes.
        pods: those that are bound to CPUs.
    """
    cpus = machine.cpus
    topology = Topology.from_cpus(
        np.array([each.id for each in cpus]),
        core=np.array([each.core for each in cpus]),
        socket=np.array([each.socket for each in cpus]),
        node=np.array([each.node for each in cpus]),
    )
    found = classified(topology, reported, pods)
    return HostCPUs(found.count, len(found.lsr), len(found.shared), len(found.best_effort))
