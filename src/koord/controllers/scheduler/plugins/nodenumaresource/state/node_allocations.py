# SPDX-License-Identifier: Apache-2.0
"""What pods hold of one node's CPUs and zones, changed in place."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from koord.controllers.scheduler.plugins.nodenumaresource.objects import amounts
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import (
    ReadOnlyZoneAmounts,
    ZoneAmounts,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import NodeTopology
from koord.kernels.cpuset import CPUSet
from koord.kernels.numa import ZoneStatus, ZoneTable
from koord.kernels.topology import BindPolicy, CPUState

_NO_CPUS = CPUSet()


class NodeAllocations:
    """The pods of one node and what they hold.

    A pod's allocation is kept as it was added, also while the node has no topology or lacks some
    of its CPUs and zones; what the node does not have counts nowhere.
    """

    __slots__ = ("_counts", "_key", "_left", "cpus", "pods", "topology", "used")

    def __init__(self, topology: NodeTopology) -> None:
        self.topology = topology
        self.pods: dict[str, NUMAAllocation] = {}
        self.cpus: CPUState | None = None
        self.used: ZoneAmounts = {}
        self._key: Hashable = None
        self._left: ZoneTable | None = None
        self._counts: dict[str, dict[int | None, int]] = {}
        self.move_to(topology)

    def move_to(self, topology: NodeTopology) -> None:
        """Takes over another topology of the node; the pods stay."""
        self.topology = topology
        self.cpus = CPUState(topology.cpu_topology) if topology.cpu_topology else None
        self.used = {}
        self._changed()
        for uid, allocation in self.pods.items():
            self._hold(uid, allocation)

    def add(self, uid: str, allocation: NUMAAllocation) -> bool:
        """Gives a pod what it was allocated; False, and nothing is changed, if it has something."""
        if uid in self.pods:
            return False
        self.pods[uid] = allocation
        self._hold(uid, allocation)
        self._changed()
        return True

    def release(self, uid: str) -> bool:
        """Takes everything back from a pod, as if it had never come; False if it has nothing."""
        allocation = self.pods.pop(uid, None)
        if allocation is None:
            return False
        if self.cpus is not None:
            self.cpus.release(uid)
            if any(map(self.cpus.ref_count, allocation.cpus)):
                # Its exclusive policy has replaced that of the reserve pod that stays there.
                self.move_to(self.topology)
                return True
        amounts.subtract(self.used, self._known(allocation))
        self._changed()
        return True

    def bindable(self, policy: str = "") -> dict[int | None, int]:
        """How many CPUs each zone can give, kept until something changes; not to be changed.

        Args:
            policy: a bind policy that must be kept to; empty for none.
        """
        counts = self._counts.get(policy)
        if counts is None:
            counts = self._counts[policy] = self.count(policy)
        return counts

    def count(
        self, policy: str, preferred: CPUSet = _NO_CPUS, within: CPUSet | None = None
    ) -> dict[int | None, int]:
        """The same with CPUs given back, or out of some CPUs only."""
        counts: dict[int | None, int] = {}
        if self.cpus is None:
            return counts
        for zone, number in self.cpus.count_available(
            bind=policy or BindPolicy.DEFAULT,
            required=bool(policy),
            max_ref_count=self.topology.max_ref_count,
            reserved=self.topology.reserved or None,
            preferred=preferred or None,
            within=within,
        ):
            counts[zone] = counts.get(zone, 0) + number
        return counts

    def left(
        self, given_back: CPUSet = _NO_CPUS, reusable: ReadOnlyZoneAmounts | None = None
    ) -> ZoneTable | None:
        """What zones have left; None without zones.

        Args:
            given_back: CPUs that count as free where CPUs in use are amplified.
            reusable: amounts in use that count as free.
        """
        plain = not given_back and not reusable
        if plain and self._left is not None:
            return self._left
        topology, total = self.topology, self.topology.total
        if total is None:
            return None
        back = None
        if reusable:
            there = {zone: reusable[zone] for zone in topology.amounts if zone in reusable}
            back = total.frame.table(there)
        bound = self.bound_by_zone(given_back) if topology.zone_ratio > 1 else None
        left = total.available(
            total.frame.table(self.used), back, bound_cpus=bound, cpu_ratio=topology.zone_ratio
        )
        if plain:
            self._left = left
        return left

    def plain_left(self, zone: int) -> dict[str, int]:
        """What one zone has left where CPUs are not amplified and nothing is given back."""
        used = self.used.get(zone)
        row = self.topology.amounts[zone]
        if used is None:
            return {name: max(0, amount) for name, amount in row.items()}
        return {name: max(0, amount - used.get(name, 0)) for name, amount in row.items()}

    def bound(self, given_back: CPUSet) -> CPUSet:
        """The CPUs that pods hold once some are given back, each of them by one pod."""
        cpus = self.cpus
        if cpus is None or not self.pods:
            return CPUSet()
        held = cpus.allocated()
        if not given_back:
            return held
        # A CPU that several pods hold stays in use when one of them gives it back.
        return held - CPUSet.from_ids(cpu for cpu in held & given_back if cpus.ref_count(cpu) == 1)

    def bound_by_zone(self, given_back: CPUSet) -> dict[int, int]:
        """How many CPUs of each zone of the node :meth:`bound` has."""
        layout = self.topology.layout
        held = self.bound(given_back)
        if layout is None or not held:
            return {}
        return {
            zone: len(held & layout.zone_cpus[zone])
            for zone in self.topology.amounts
            if zone in layout.zone_cpus
        }

    def statuses(self) -> dict[int, ZoneStatus]:
        """Which zones hold pods of their own, and pods that lie on several."""
        if self.cpus is None:
            return {}
        return {
            zone: ZoneStatus(self.cpus.numa_status(zone).value) for zone in self.topology.amounts
        }

    def key(self) -> Hashable:
        """Equal for two states of one kind of node only where every pod gets the same from both."""
        if self._key is None:
            self._key = self.holdings()
        return self._key

    def holdings(self) -> Hashable:
        """What :meth:`key` keeps, calculated anew: CPUs in use and amounts by zone."""
        held = self.cpus.fingerprint() if self.cpus is not None else b""
        return held, amounts.key_of(self.used)

    def _changed(self) -> None:
        self._key = self._left = None
        self._counts.clear()

    def _hold(self, uid: str, allocation: NUMAAllocation) -> None:
        if self.cpus is not None and allocation.cpus:
            self.cpus.add(uid, allocation.cpus, allocation.exclusive)
        amounts.add(self.used, self._known(allocation))

    def _known(self, allocation: NUMAAllocation) -> Mapping[int, Mapping[str, int]]:
        zones = self.topology.amounts
        if all(zone in zones for zone in allocation.zones):
            return allocation.zones
        return {zone: row for zone, row in allocation.zones.items() if zone in zones}
