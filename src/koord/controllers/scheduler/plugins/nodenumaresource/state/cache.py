# SPDX-License-Identifier: Apache-2.0
"""The state of every node by row, kept true to the node table and the NodeResourceTopologies."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.controllers.cluster.node_table import Aspect
from koord.controllers.scheduler.plugins.nodenumaresource.objects.allocation_annotation import (
    NUMAAllocation,
)
from koord.controllers.scheduler.plugins.nodenumaresource.objects.node_topology import (
    NodeTopologies,
    NodeTopology,
)
from koord.controllers.scheduler.plugins.nodenumaresource.state.columns import NUMAColumns
from koord.controllers.scheduler.plugins.nodenumaresource.state.node_allocations import (
    NodeAllocations,
)
from koord.controllers.scheduler.plugins.reservation.matched_reservation import (
    PLUGIN as RESERVATION,
)
from koord.controllers.scheduler.plugins.reservation.matched_reservation import holders

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo

log = logging.getLogger(__name__)

LABELS = (keys.CPU_BIND_POLICY, keys.NUMA_ALLOCATE_STRATEGY, keys.NUMA_TOPOLOGY_POLICY)
"""All of a Node's labels that count."""
_NOTHING = NodeTopology()
_NODE = int(Aspect.NODE)  # what is compared for every placed pod should be a plain number


class _CachedNode:
    """What is known of one row, and from which objects."""

    __slots__ = ("labels_read", "node", "nrt", "owners", "state")

    def __init__(self) -> None:
        self.node: Node | None = None
        self.nrt: NodeResourceTopology | None = None
        self.labels_read: tuple[str | None, ...] = ()
        self.state = NodeAllocations(_NOTHING)
        self.owners: set[str] = set()


class NUMACache:
    """The topology of every node by row, and what pods hold of it.

    Args:
        table: the nodes.
        plugin: under which name pods keep their allocation.
        topologies: makes the topologies of nodes.
        nrt_of: the NodeResourceTopology of a node's name.
    """

    def __init__(
        self,
        table: NodeTable,
        plugin: str,
        topologies: NodeTopologies,
        nrt_of: Callable[[str], NodeResourceTopology | None],
    ) -> None:
        self.table = table
        self.columns = NUMAColumns()
        self._plugin = plugin
        self._topologies = topologies
        self._nrt_of = nrt_of
        self._rows: list[_CachedNode] = []
        self._version = self._nodes = -1
        self._uncounted: set[int] = set()
        self._constrained: set[int] = set()

    @property
    def constrained(self) -> bool:
        """Whether some node may refuse pods that neither bind CPUs nor ask for alignment."""
        return bool(self._constrained)

    def sync(self) -> None:
        """Takes over what changed about nodes since the last call; cheap if nothing did."""
        if self._nodes == self.table.nodes_version:
            return
        self._nodes = self.table.nodes_version
        changes = self.table.changes(self._version) if self._version >= 0 else None
        # Nothing is touched below: who looks at a node's kind depends on the node as well.
        self._version = self.table.version
        if changes is None:
            for row in range(self.table.size):
                self._sync_row(row)
            return
        for row, aspects in changes.items():
            if aspects & _NODE:
                self._sync_row(row)

    def state(self, row: int) -> NodeAllocations:
        """What pods hold of a row."""
        try:
            return self._rows[row].state
        except IndexError:
            self._rows.extend(_CachedNode() for _ in range(row + 1 - len(self._rows)))
            return self._rows[row].state

    def unknown(self, name: str) -> bool:
        """Whether a node has no NodeResourceTopology, whether or not the node is there."""
        return self._nrt_of(name) is None

    def reported(self, name: str) -> tuple[NodeTopology, NodeTopology] | None:
        """A NodeResourceTopology came, changed or went.

        Returns:
            What the node was and what it is; None if that makes no difference.
        """
        self.sync()
        row = self.table.row(name)
        if row is None:
            return None
        before = self.state(row).topology
        if not self._describe(row):
            return None
        self.table.touch(row, Aspect.NUMA)
        return before, self.state(row).topology

    def added(self, row: int, pod: PodInfo) -> None:
        """Counts what a pod holds."""
        held = pod.allocations.get(self._plugin)
        if isinstance(held, NUMAAllocation) and held:
            self.sync()
            self.state(row).add(pod.uid, held)
            self._note_owner(row, pod)
            self._uncounted.add(row)

    def removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse of :meth:`added`."""
        self.sync()
        if self.state(row).release(pod.uid):
            self._rows[row].owners.discard(pod.uid)
            self._uncounted.add(row)

    def shared(self, row: int) -> list[tuple[PodInfo, dict[str, PodInfo]]]:
        """The reserve pods of a row that have owners there: what these hold counts twice."""
        if row >= len(self._rows) or not self._rows[row].owners:
            return []
        return list(holders(self.table.pods[row]))

    def differs(self, row: int) -> bool:
        """Whether a row's account differs from what its pods hold, counted anew."""
        self.sync()
        state, fresh = self.state(row), NodeAllocations(self.state(row).topology)
        for uid, pod in self.table.pods[row].items():
            held = pod.allocations.get(self._plugin)
            if isinstance(held, NUMAAllocation) and held:
                fresh.add(uid, held)
        return state.pods != fresh.pods or state.holdings() != fresh.holdings()

    def count(self) -> NUMAColumns:
        """The columns, true for every row."""
        for row in self._uncounted:
            self.columns.count(row, self._rows[row].state)
        self._uncounted.clear()
        return self.columns

    def _sync_row(self, row: int) -> None:
        node = self.table.nodes[row]
        self.state(row)
        known = self._rows[row]
        if known.node is node and node is not None:
            return
        before, known.node = known.node, node
        if node is None or before is None or before.metadata.name != node.metadata.name:
            self._reset_row(row)
        if node is not None:
            self._describe(row)

    def _reset_row(self, row: int) -> None:
        """Another node has the row: counts the pods that the table has there."""
        known = self._rows[row]
        known.nrt, known.labels_read = None, ()
        known.state = NodeAllocations(_NOTHING)
        known.owners.clear()
        self.columns.describe(row, _NOTHING)
        self._constrained.discard(row)
        self._uncounted.add(row)
        for uid, pod in self.table.pods[row].items():
            held = pod.allocations.get(self._plugin)
            if isinstance(held, NUMAAllocation) and held:
                known.state.add(uid, held)
                self._note_owner(row, pod)

    def _note_owner(self, row: int, pod: PodInfo) -> None:
        reserved = pod.allocations.get(RESERVATION)
        if reserved is not None and (reserved.uid or reserved.pre_allocated):
            self._rows[row].owners.add(pod.uid)

    def _describe(self, row: int) -> bool:
        """Reads the topology of a row's node; True if it is another one now."""
        self.state(row)
        known, node = self._rows[row], self.table.nodes[row]
        if node is None:
            return False
        nrt = self._nrt_of(node.metadata.name)
        labels, notes = node.metadata.labels, node.metadata.annotations
        labels_read = (*map(labels.get, LABELS), notes.get(keys.RESOURCE_AMPLIFICATION_RATIO))
        if nrt is known.nrt and labels_read == known.labels_read:
            return False
        known.nrt, known.labels_read = nrt, labels_read
        topology, problems = self._topologies.of(node, nrt)
        for line in dict.fromkeys(problems):
            log.warning("part of the node's topology is ignored: %s", line)
        if topology is known.state.topology:
            return False
        known.state.move_to(topology)
        self.columns.describe(row, topology)
        if self.columns.constrained[row]:
            self._constrained.add(row)
        else:
            self._constrained.discard(row)
        self._uncounted.add(row)
        return True
