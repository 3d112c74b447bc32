# SPDX-License-Identifier: Apache-2.0
"""What one simulated machine is made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from koord.api.protocol import resources as res
from koord.api.protocol.topology import CPUInfo
from koord.base.rng import derive
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.simulator.nodes.pools import NodePool, NodePools

_KI = 1024


@dataclass(frozen=True)
class SimulatedGPU:
    """One card and where it sits."""

    minor: int
    uuid: str
    memory_bytes: int
    numa_node: int
    socket: int
    pcie: str
    bus: str


@dataclass(frozen=True)
class SimulatedMachine:
    """One machine.

    Attributes:
        name: of the node.
        pool: what it is one of.
        index: its number among all machines, from 0; addresses stem from it.
        seed: of all its identities.
    """

    name: str
    pool: NodePool
    index: int
    seed: int

    @property
    def address(self) -> str:
        """The machine's own IP."""
        return f"172.{20 + (self.index >> 16)}.{self.index >> 8 & 255}.{self.index & 255}"

    @property
    def pod_prefix(self) -> str:
        """The first three numbers of its pods' IPs."""
        return f"10.{128 + (self.index >> 8)}.{self.index & 255}"

    @property
    def numa_nodes(self) -> int:
        """How many NUMA nodes there are."""
        return self.pool.sockets * self.pool.numa_nodes_per_socket

    @cached_property
    def memory_bytes(self) -> int:
        """All memory, a whole number of KiB for each NUMA node."""
        total = Quantity.parse(self.pool.memory).value(Rounding.DOWN)
        return total // (_KI * self.numa_nodes) * (_KI * self.numa_nodes)

    @cached_property
    def cpus(self) -> tuple[CPUInfo, ...]:
        """The logical CPUs by id, numbered as Linux does: first threads first, then the second."""
        cores = self.pool.cpu // self.pool.threads_per_core
        return tuple(
            CPUInfo(
                id=cpu,
                core=cpu % cores,
                socket=cpu % cores * self.pool.sockets // cores,
                node=cpu % cores * self.numa_nodes // cores,
            )
            for cpu in range(self.pool.cpu)
        )

    @cached_property
    def gpus(self) -> tuple[SimulatedGPU, ...]:
        """The cards by minor."""
        return tuple(self._gpus())

    @cached_property
    def capacity(self) -> dict[str, str]:
        """What the kubelet reports as capacity."""
        amounts = {
            "cpu": str(self.pool.cpu),
            "memory": f"{self.memory_bytes // _KI}Ki",
            "ephemeral-storage": str(self.pool.ephemeral_storage),
            "hugepages-1Gi": "0",
            "hugepages-2Mi": "0",
            "pods": str(self.pool.max_pods),
        }
        if self.gpus:
            amounts["nvidia.com/gpu"] = str(len(self.gpus))
            amounts |= self._shared_gpus()
        return amounts

    def _shared_gpus(self) -> dict[str, str]:
        """The cards as Koordinator's manager adds them up on the Node; a card is 100 percent."""
        percent = str(100 * len(self.gpus))
        memory = sum(card.memory_bytes for card in self.gpus)
        return {
            res.GPU: percent,
            res.GPU_CORE: percent,
            res.GPU_MEMORY_RATIO: percent,
            res.GPU_MEMORY: f"{memory // _KI}Ki",
            res.GPU_SHARED: percent,
        }

    @cached_property
    def allocatable(self) -> dict[str, str]:
        """The capacity without what the kubelet keeps for the system."""
        amounts = dict(self.capacity)
        for name, text in self.pool.kubelet_reserved.items():
            left = Quantity.parse(amounts.get(name, "0")) - Quantity.parse(text)
            amounts[name] = str(max(left, Quantity()))
        return amounts

    def identity(self, what: str) -> str:
        """A UUID that stays the same for a machine and a seed."""
        high, low = (derive(self.seed, self.name, what, part) for part in ("high", "low"))
        text = f"{high:016x}{low:016x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-8{text[17:20]}-{text[20:]}"

    def _gpus(self) -> Iterator[SimulatedGPU]:
        gpus = self.pool.gpus
        if gpus is None:
            return
        memory = Quantity.parse(gpus.memory).value(Rounding.DOWN)
        for minor in range(gpus.count):
            spread = minor * self.numa_nodes // gpus.count
            node = gpus.numa_nodes[minor] if gpus.numa_nodes else spread
            yield SimulatedGPU(
                minor=minor,
                uuid=f"GPU-{self.identity(f'gpu{minor}')}",
                memory_bytes=memory,
                numa_node=node,
                socket=node // self.pool.numa_nodes_per_socket,
                pcie=f"pci{node:04x}:{0x10 + minor // 2:02x}",
                bus=f"{node:04x}:{0x11 + minor:02x}:00.0",
            )


def machines(pools: NodePools, seed: int) -> list[SimulatedMachine]:
    """Every machine of every pool, in order."""
    found: list[SimulatedMachine] = []
    for pool in pools.pools:
        digits = max(3, len(str(pool.count)))
        for number in range(1, pool.count + 1):
            found.append(
                SimulatedMachine(f"{pool.name}-{number:0{digits}}", pool, len(found), seed)
            )
    return found
