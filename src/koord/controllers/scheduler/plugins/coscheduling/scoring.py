# SPDX-License-Identifier: Apache-2.0
"""Scores nodes by how near they are to pods with the same selector.

Rule: docs/reference/gangs.md#nearness-score.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.api.protocol import keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.plugins.coscheduling.state.network_topology import (
        NetworkTopologyCache,
    )


def selector_of(shape: PodShape) -> str:
    """The ``network-topology-selector`` of pods of a shape, ``""`` for none."""
    return shape.annotations.get(keys.NETWORK_TOPOLOGY_SELECTOR, "")


class SelectorPodCounts:
    """How many pods of each selector are on each row; a PodListener's account."""

    def __init__(self) -> None:
        self._counts: dict[str, dict[int, int]] = {}

    def add(self, row: int, pod: PodInfo) -> None:
        """A pod counts on a row."""
        selector = selector_of(pod.shape)
        if selector:
            rows = self._counts.setdefault(selector, {})
            rows[row] = rows.get(row, 0) + 1

    def remove(self, row: int, pod: PodInfo) -> None:
        """The inverse of :meth:`add`."""
        selector = selector_of(pod.shape)
        if selector:
            rows = self._counts[selector]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
            if not rows:
                del self._counts[selector]

    def on(self, selector: str) -> dict[int, int]:
        """By row, pods of a selector; rows without any are not named."""
        return self._counts.get(selector, {}) if selector else {}


class NetworkProximity:
    """Ranks rows. Keeps the tree's shape as columns.

    Args:
        table: the nodes.
        topology: the tree.
    """

    def __init__(self, table: NodeTable, topology: NetworkTopologyCache) -> None:
        self._table = table
        self._topology = topology
        self._key: tuple[int, int] = (-1, -1)
        # By level from the node upward and row, the number of the place; -1 for rows outside.
        self._above: NDArray[np.intp] = np.zeros((0, 0), np.intp)
        self._places = 0

    def ranks(self, existing: dict[int, int], rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """By row, its place among the rows, the best 0.

        Best is whose place holds most pods already, then whose place has fewest of the rows, both
        layer by layer from the node upward; then the first by name. Nodes outside the tree come
        last.

        Args:
            existing: by row, pods to be near to.
            rows: the candidates.
        """
        self._refresh()
        sort_keys: list[NDArray[np.int64]] = [self._table.rank[rows]]
        held = np.zeros(self._table.size, np.int64)
        held[list(existing)] = list(existing.values())
        of_rows = self._above[:, rows]
        for level in of_rows[::-1]:
            slots = np.bincount(level[level >= 0], minlength=self._places + 1)
            sort_keys.append(slots[level])
        for level, everywhere in zip(of_rows[::-1], self._above[::-1], strict=True):
            inside = everywhere >= 0
            pods = np.bincount(everywhere[inside], held[inside], self._places + 1).astype(np.int64)
            sort_keys.append(-pods[level])
        if len(of_rows):
            sort_keys.append((of_rows[0] < 0).astype(np.int64))
        ranks = np.empty(len(rows), np.int64)
        ranks[np.lexsort(sort_keys)] = np.arange(len(rows))
        return ranks

    def _refresh(self) -> None:
        network = self._topology.network()
        key = (self._topology.version, self._table.size)
        if self._key == key:
            return
        self._key = key
        levels = len(network.layers) + 1 if network is not None else 0
        self._above = np.full((levels, self._table.size), -1, np.intp)
        if network is None:
            return
        self._places = len(network.places)
        for name, place in network.nodes.items():
            row = self._table.row(name)
            if row is not None:
                self._above[:, row] = [above.number for above in place.upward()]
