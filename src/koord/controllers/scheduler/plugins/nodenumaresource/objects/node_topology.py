# SPDX-License-Identifier: Apache-2.0
"""What the scheduler knows of one node's CPUs and zones, from NodeResourceTopology and Node.

Nodes that differ in name only share one `Machine`, so what was found out about one holds for all.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar
from weakref import WeakValueDictionary

from koord.api.kinds.topology import ZONE_TYPE_NODE
from koord.api.protocol import keys, nodes
from koord.api.protocol.node_reservation import node_reservation
from koord.api.protocol.resources import CPU
from koord.api.protocol.topology import kubelet_cpu_manager_policy, pod_cpu_allocs
from koord.base.errors import KoordError
from koord.controllers.scheduler.plugins.nodenumaresource.objects import amounts
from koord.controllers.scheduler.plugins.nodenumaresource.objects.amounts import MILLI, ZoneAmounts
from koord.controllers.scheduler.plugins.nodenumaresource.objects.cpu_layout import (
    CPULayout,
    layout_of,
)
from koord.kernels import numa
from koord.kernels.cpuset import CPUSet
from koord.kernels.numa import Frame, TopologyPolicy, Zones, ZoneTable
from koord.kernels.topology import NUMAStrategy, Topology

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology, Zone

_O = TypeVar("_O")
_T = TypeVar("_T")

_NO_CPUS = CPUSet()
_MOST_ZONE_ID = 1023
_MOST_ZONES = 64
# Far beyond any real machine; keep products and sums within 64 bits.
_LARGEST_AMOUNT = 1 << 50


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class NodeTopology:
    """One kind of node.

    ``amounts`` is what zones offer to pods, amplified, in base units and CPU in milli; ``total``
    the same in native form, None where there are no zones.
    ``zone_ratio`` is the CPU amplification that zones count with, ``node_ratio`` that of the node
    as a whole; ``invalid_ratio``: the node's annotation cannot be read.
    """

    layout: CPULayout | None = None
    reserved: CPUSet = _NO_CPUS
    max_ref_count: int = 1
    kubelet_policy: str = ""
    bind_policy: str = nodes.NONE
    strategy: str = NUMAStrategy.LEAST_ALLOCATED
    numa_policy: TopologyPolicy = TopologyPolicy.NONE
    amounts: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    total: ZoneTable | None = None
    ratios: Mapping[str, float] = field(default_factory=dict)
    zone_ratio: float = 1.0
    node_ratio: float = 1.0
    invalid_ratio: bool = False

    @property
    def cpu_topology(self) -> Topology | None:
        """The CPUs; None where the node reports none or nonsense."""
        return self.layout.topology if self.layout else None

    @property
    def threads(self) -> int:
        """What a number of whole cores' CPUs is a multiple of; 1 where there is no topology."""
        return self.layout.threads if self.layout else 1


class NodeTopologies:
    """Reads the topologies of nodes; the same object for the same content."""

    def __init__(
        self, default_strategy: str, *, compatible: bool = False, max_ref_count: int = 1
    ) -> None:
        """Takes what nodes without a label of their own get.

        Args:
            default_strategy: the NUMA allocate strategy.
            compatible: whether only those reported policy names count that Koordinator knows.
            max_ref_count: how many pods may hold a CPU; 0 counts as 1.
        """
        self._default_strategy = default_strategy
        self._compatible = compatible
        self._max_ref_count = max(1, max_ref_count)
        self._known: WeakValueDictionary[Hashable, NodeTopology] = WeakValueDictionary()

    def of(
        self, node: Node | None, nrt: NodeResourceTopology | None
    ) -> tuple[NodeTopology, list[str]]:
        """The topology of a node, and one line for every part that could not be read.

        A part that cannot be read counts as if it were not there.
        """
        reader = _TopologyReader()
        layout = reader.layout(nrt)
        reserved = reader.reserved(nrt)
        kubelet = reader.read(nrt, kubelet_cpu_manager_policy)
        policy, options = (kubelet.policy, kubelet.options) if kubelet else ("", {})
        ratios, node_ratios, reported = reader.ratios(node, nrt)
        zones = reader.zones(nrt, layout, reserved, {} if reported else ratios)
        fields = {
            "layout": layout,
            "reserved": reserved,
            "max_ref_count": self._max_ref_count,
            "kubelet_policy": policy,
            "bind_policy": nodes.cpu_bind_policy(node, policy, options) if node else nodes.NONE,
            "strategy": self._strategy(node),
            "numa_policy": reader.policy(node, nrt, self._compatible),
            "ratios": ratios,
            "zone_ratio": ratios.get(CPU, 1.0),
            "node_ratio": node_ratios.get(CPU, 1.0),
            "invalid_ratio": reader.invalid_ratio,
        }
        plain = tuple(value for name, value in fields.items() if name not in ("layout", "ratios"))
        key = (id(layout), plain, tuple(sorted(ratios.items())), amounts.key_of(zones))
        topology = self._known.get(key)
        if topology is None:
            total = _native_table(zones)
            topology = NodeTopology(amounts=zones, total=total, **fields)  # type: ignore[arg-type]
            self._known[key] = topology
        return topology, reader.problems

    def _strategy(self, node: Node | None) -> str:
        name = nodes.numa_allocate_strategy(node, self._default_strategy) if node else ""
        # Any other word is as good as none to the original, which asks for MostAllocated only.
        known = name in tuple(NUMAStrategy)
        return NUMAStrategy(name) if known else NUMAStrategy.LEAST_ALLOCATED


def _native_table(zones: ZoneAmounts) -> ZoneTable | None:
    if not zones:
        return None
    names = {name for row in zones.values() for name in row}
    return Frame(Zones(zones), names).table(zones)


class _TopologyReader:
    """Reads the parts, and keeps a line of each that it cannot read."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.invalid_ratio = False

    def read(self, obj: _O | None, accessor: Callable[[_O], _T]) -> _T | None:
        if obj is None:
            return None
        try:
            return accessor(obj)
        except KoordError as error:
            self.problems.append(str(error))
            return None

    def layout(self, nrt: NodeResourceTopology | None) -> CPULayout | None:
        text = nrt.metadata.annotations.get(keys.CPU_TOPOLOGY) if nrt else None
        if nrt is None or text is None:
            return None
        return self.read(nrt, lambda nrt: layout_of(text, nrt.title))

    def reserved(self, nrt: NodeResourceTopology | None) -> CPUSet:
        """Every CPU that is not the scheduler's to give."""
        if nrt is None:
            return _NO_CPUS
        cpus = _NO_CPUS
        for alloc in self.read(nrt, pod_cpu_allocs) or ():
            if alloc.managed_by_kubelet and alloc.uid:
                cpus |= self._cpus(nrt, keys.POD_CPU_ALLOCS, alloc.cpuset)
        kubelet = self.read(nrt, kubelet_cpu_manager_policy)
        if kubelet is not None:
            cpus |= self._cpus(nrt, keys.CPU_MANAGER_POLICY, kubelet.reserved_cpus)
        reservation = self.read(nrt, node_reservation)
        if reservation is not None:
            cpus |= self._cpus(nrt, keys.NODE_RESERVATION, reservation.reserved_cpus)
        system = self.read(nrt, nodes.system_qos_resource)  # type: ignore[arg-type]
        if system is not None and system.exclusive:
            cpus |= self._cpus(nrt, keys.SYSTEM_QOS_RESOURCE, system.cpuset)
        return cpus

    def _cpus(self, nrt: NodeResourceTopology, key: str, text: str) -> CPUSet:
        def parse(nrt: NodeResourceTopology) -> CPUSet:
            try:
                return CPUSet.parse_wire(text)
            except ValueError as error:
                raise KoordError.wrap(nrt.title, f"annotations[{key}]", error) from None

        return self.read(nrt, parse) or _NO_CPUS

    def ratios(
        self, node: Node | None, nrt: NodeResourceTopology | None
    ) -> tuple[dict[str, float], dict[str, float], bool]:
        """Ratios that zones count with, ratios of the node, and whether zones have theirs in."""
        of_node = self.read(node, _sound_ratios)
        self.invalid_ratio = of_node is None and node is not None
        of_node = of_node or {}
        reported = nrt is not None and keys.RESOURCE_AMPLIFICATION_RATIO in nrt.metadata.annotations
        of_zones = self.read(nrt, _sound_ratios) if reported else of_node
        return of_zones or {}, of_node, reported

    def policy(
        self, node: Node | None, nrt: NodeResourceTopology | None, compatible: bool
    ) -> TopologyPolicy:
        label = node.metadata.labels.get(keys.NUMA_TOPOLOGY_POLICY) if node else ""
        if node is not None and label:
            try:
                return TopologyPolicy.parse(label)
            except ValueError as error:
                field_name = f"labels[{keys.NUMA_TOPOLOGY_POLICY}]"
                self.problems.append(str(KoordError.wrap(node.title, field_name, error)))
        if nrt is None:
            return TopologyPolicy.NONE
        try:
            return numa.reported_policy(nrt.topology_policies, compatible=compatible)
        except ValueError as error:
            self.problems.append(str(KoordError.wrap(nrt.title, "topologyPolicies", error)))
            return TopologyPolicy.NONE

    def zones(
        self,
        nrt: NodeResourceTopology | None,
        layout: CPULayout | None,
        reserved: CPUSet,
        ratios: Mapping[str, float],
    ) -> ZoneAmounts:
        """What every zone offers, CPUs that are not to be given taken off, amplified."""
        table: ZoneAmounts = {}
        for zone in nrt.zones if nrt else ():
            number = numa.zone_id(zone.name) if zone.type == ZONE_TYPE_NODE else None
            if nrt is None or number is None:
                continue
            row = self.read(nrt, lambda nrt, zone=zone: _zone_row(nrt, zone))  # type: ignore[misc]
            if row is None or number > _MOST_ZONE_ID or len(table) == _MOST_ZONES:
                continue
            of_zone = layout.zone_cpus.get(number, _NO_CPUS) if layout else _NO_CPUS
            if row.get(CPU):
                row[CPU] -= MILLI * len(of_zone & reserved)
            table[number] = {name: amplify(value, ratios.get(name)) for name, value in row.items()}
        return {zone: table[zone] for zone in sorted(table)}


def amplify(amount: int, ratio: float | None) -> int:
    """The amount times the ratio, rounded up; ratios up to 1 change nothing."""
    if ratio is None or ratio <= 1.0:
        return amount
    return math.ceil(amount * ratio)


def _sound_ratios(obj: Node | NodeResourceTopology) -> dict[str, float]:
    ratios = nodes.amplification_ratios(obj)  # type: ignore[arg-type]
    for name, ratio in ratios.items():
        if not 0 <= ratio <= nodes.LARGEST_RATIO:
            field_name = f"annotations[{keys.RESOURCE_AMPLIFICATION_RATIO}].{name}"
            raise KoordError(obj.title, field_name, ratio, f"from 1 to {nodes.LARGEST_RATIO}")
    return ratios


def _zone_row(nrt: NodeResourceTopology, zone: Zone) -> dict[str, int]:
    offered = {
        resource.name: resource.allocatable
        for resource in zone.resources
        if resource.allocatable is not None
    }
    where = f"zones[{zone.name}].resources"
    try:
        row = amounts.amounts_of(offered)
    except ValueError as error:
        raise KoordError.wrap(nrt.title, where, error) from None
    for name, amount in row.items():
        if not 0 <= amount <= _LARGEST_AMOUNT:
            expected = f"from 0 to {_LARGEST_AMOUNT}"
            raise KoordError(nrt.title, f"{where}.{name}", amount, expected)
    return row
