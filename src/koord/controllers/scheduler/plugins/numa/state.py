# SPDX-License-Identifier: Apache-2.0
"""What pods hold of one node's CPUs and zones, changed in place."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from koord.controllers.scheduler.plugins.numa import amounts
from koord.controllers.scheduler.plugins.numa.allocation import Allocation
from koord.controllers.scheduler.plugins.numa.amounts import Table
from koord.controllers.scheduler.plugins.numa.machine import Machine
from koord.kernels.cpuset import CPUSet
from koord.kernels.numa import ZoneStatus
from koord.kernels.topology import CPUState


class NodeState:
    """The pods of one node and what they hold.

    A pod's allocation is kept as it was added, also while the node has no topology or lacks some
    of its CPUs and zones; what the machine does not have counts nowhere.
    """

    __slots__ = ("_key", "cpus", "machine", "pods", "used")

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.pods: dict[str, Allocation] = {}
        self.cpus: CPUState | None = None
        self.used: Table = {}
        self._key: Hashable = None
        self.move_to(machine)

    def move_to(self, machine: Machine) -> None:
        """Takes the node for another machine; the pods stay."""
        self.machine = machine
        self.cpus = CPUState(machine.topology) if machine.topology else None
        self.used = {}
        self._key = None
        for uid, allocation in self.pods.items():
            self._hold(uid, allocation)

    def add(self, uid: str, allocation: Allocation) -> bool:
        """Gives a pod what it was allocated; False, and nothing is changed, if it has something."""
        if uid in self.pods:
            return False
        self.pods[uid] = allocation
        self._hold(uid, allocation)
        self._key = None
        return True

    def release(self, uid: str) -> bool:
        """Takes everything back from a pod; False if it has nothing."""
        allocation = self.pods.pop(uid, None)
        if allocation is None:
            return False
        if self.cpus is not None:
            self.cpus.release(uid)
        amounts.subtract(self.used, self._known(allocation))
        self._key = None
        return True

    def bound_by_zone(self, given_back: CPUSet) -> dict[int, int]:
        """How many CPUs pods hold in each zone of the machine, some given back before counting."""
        layout, cpus = self.machine.layout, self.cpus
        if layout is None or cpus is None or not self.pods:
            return {}
        held = cpus.allocated()
        # A CPU that several pods hold stays in use when one of them gives it back.
        held -= CPUSet.from_ids(cpu for cpu in held & given_back if cpus.ref_count(cpu) == 1)
        return {
            zone: len(held & layout.zone_cpus[zone])
            for zone in self.machine.amounts
            if zone in layout.zone_cpus
        }

    def statuses(self) -> dict[int, ZoneStatus]:
        """Which zones hold pods of their own, and pods that lie on several."""
        if self.cpus is None:
            return {}
        return {
            zone: ZoneStatus(self.cpus.numa_status(zone).value) for zone in self.machine.amounts
        }

    def key(self) -> Hashable:
        """Equal for two states of one machine only if they answer every question alike."""
        if self._key is None:
            held = self.cpus.fingerprint() if self.cpus is not None else b""
            self._key = (held, amounts.key_of(self.used))
        return self._key

    def _hold(self, uid: str, allocation: Allocation) -> None:
        if self.cpus is not None and allocation.cpus:
            self.cpus.add(uid, allocation.cpus, allocation.exclusive)
        amounts.add(self.used, self._known(allocation))

    def _known(self, allocation: Allocation) -> Mapping[int, Mapping[str, int]]:
        there = self.machine.amounts
        if all(zone in there for zone in allocation.zones):
            return allocation.zones
        return {zone: row for zone, row in allocation.zones.items() if zone in there}
