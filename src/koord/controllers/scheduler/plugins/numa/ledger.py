# SPDX-License-Identifier: Apache-2.0
"""The state of every node by row, kept true to the node table and the NodeResourceTopologies."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.controllers.cluster.nodes import Aspect
from koord.controllers.scheduler.plugins.numa.allocation import Allocation
from koord.controllers.scheduler.plugins.numa.columns import Columns
from koord.controllers.scheduler.plugins.numa.machine import Machine, Machines
from koord.controllers.scheduler.plugins.numa.state import NodeState
from koord.controllers.scheduler.plugins.reservation.offer import PLUGIN as RESERVATION
from koord.controllers.scheduler.plugins.reservation.offer import holders

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.node import Node
    from koord.api.kinds.topology import NodeResourceTopology
    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.cluster.pods import PodInfo

log = logging.getLogger(__name__)

LABELS = (keys.CPU_BIND_POLICY, keys.NUMA_ALLOCATE_STRATEGY, keys.NUMA_TOPOLOGY_POLICY)
"""All of a Node's labels that count."""
_NOTHING = Machine()
_NODE = int(Aspect.NODE)  # what is compared for every placed pod should be a plain number


class _Row:
    """What is known of one row, and from which objects."""

    __slots__ = ("node", "nrt", "owners", "state", "words")

    def __init__(self) -> None:
        self.node: Node | None = None
        self.nrt: NodeResourceTopology | None = None
        self.words: tuple[str | None, ...] = ()
        self.state = NodeState(_NOTHING)
        self.owners: set[str] = set()


class Ledger:
    """Rows, their machines and what pods hold of them.

    Args:
        table: the nodes.
        plugin: under which name pods keep their allocation.
        machines: makes machines.
        topology: the NodeResourceTopology of a node's name.
    """

    def __init__(
        self,
        table: NodeTable,
        plugin: str,
        machines: Machines,
        topology: Callable[[str], NodeResourceTopology | None],
    ) -> None:
        self.table = table
        self.columns = Columns()
        self._plugin = plugin
        self._machines = machines
        self._topology = topology
        self._rows: list[_Row] = []
        self._version = self._nodes = -1
        self._uncounted: set[int] = set()
        self._special: set[int] = set()

    @property
    def special(self) -> bool:
        """Whether some node may refuse pods that neither bind CPUs nor ask for alignment."""
        return bool(self._special)

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
                self._look_at(row)
            return
        for row, aspects in changes.items():
            if aspects & _NODE:
                self._look_at(row)

    def state(self, row: int) -> NodeState:
        """What pods hold of a row."""
        try:
            return self._rows[row].state
        except IndexError:
            self._rows.extend(_Row() for _ in range(row + 1 - len(self._rows)))
            return self._rows[row].state

    def unknown(self, name: str) -> bool:
        """Whether no NodeResourceTopology tells of a node, whether or not the node is there."""
        return self._topology(name) is None

    def reported(self, name: str) -> tuple[Machine, Machine] | None:
        """A NodeResourceTopology came, changed or went.

        Returns:
            What the node was and what it is; None if that makes no difference.
        """
        self.sync()
        row = self.table.row(name)
        if row is None:
            return None
        before = self.state(row).machine
        if not self._describe(row):
            return None
        self.table.touch(row, Aspect.NUMA)
        return before, self.state(row).machine

    def added(self, row: int, pod: PodInfo) -> None:
        """Counts what a pod holds."""
        held = pod.allocations.get(self._plugin)
        if isinstance(held, Allocation) and held:
            self.sync()
            self.state(row).add(pod.uid, held)
            self._own(row, pod)
            self._uncounted.add(row)

    def removed(self, row: int, pod: PodInfo) -> None:
        """The exact inverse of :meth:`added`."""
        self.sync()
        if self.state(row).release(pod.uid):
            self._rows[row].owners.discard(pod.uid)
            self._uncounted.add(row)

    def shared(self, row: int) -> list[tuple[PodInfo, dict[str, PodInfo]]]:
        """The reserve pods of a row that have owners there: these are on the books twice."""
        if row >= len(self._rows) or not self._rows[row].owners:
            return []
        return list(holders(self.table.pods[row]))

    def differs(self, row: int) -> bool:
        """Whether a row's account is another than its pods make, counted anew."""
        self.sync()
        state, fresh = self.state(row), NodeState(self.state(row).machine)
        for uid, pod in self.table.pods[row].items():
            held = pod.allocations.get(self._plugin)
            if isinstance(held, Allocation) and held:
                fresh.add(uid, held)
        return state.pods != fresh.pods or state.holdings() != fresh.holdings()

    def count(self) -> Columns:
        """The columns, true for every row."""
        for row in self._uncounted:
            self.columns.count(row, self._rows[row].state)
        self._uncounted.clear()
        return self.columns

    def _look_at(self, row: int) -> None:
        node = self.table.nodes[row]
        self.state(row)
        known = self._rows[row]
        if known.node is node and node is not None:
            return
        before, known.node = known.node, node
        if node is None or before is None or before.metadata.name != node.metadata.name:
            self._start_over(row)
        if node is not None:
            self._describe(row)

    def _start_over(self, row: int) -> None:
        """Another node has the row: what counts there is what the table says."""
        known = self._rows[row]
        known.nrt, known.words = None, ()
        known.state = NodeState(_NOTHING)
        known.owners.clear()
        self.columns.describe(row, _NOTHING)
        self._special.discard(row)
        self._uncounted.add(row)
        for uid, pod in self.table.pods[row].items():
            held = pod.allocations.get(self._plugin)
            if isinstance(held, Allocation) and held:
                known.state.add(uid, held)
                self._own(row, pod)

    def _own(self, row: int, pod: PodInfo) -> None:
        seat = pod.allocations.get(RESERVATION)
        if seat is not None and (seat.uid or seat.pre_allocated):
            self._rows[row].owners.add(pod.uid)

    def _describe(self, row: int) -> bool:
        """Works out a row's machine; True if it is another one now."""
        self.state(row)
        known, node = self._rows[row], self.table.nodes[row]
        if node is None:
            return False
        nrt = self._topology(node.metadata.name)
        labels, notes = node.metadata.labels, node.metadata.annotations
        words = (*map(labels.get, LABELS), notes.get(keys.RESOURCE_AMPLIFICATION_RATIO))
        if nrt is known.nrt and words == known.words:
            return False
        known.nrt, known.words = nrt, words
        machine, problems = self._machines.of(node, nrt)
        for line in dict.fromkeys(problems):
            log.warning("part of the node's topology is ignored: %s", line)
        if machine is known.state.machine:
            return False
        known.state.move_to(machine)
        self.columns.describe(row, machine)
        if self.columns.special[row]:
            self._special.add(row)
        else:
            self._special.discard(row)
        self._uncounted.add(row)
        return True
