# SPDX-License-Identifier: Apache-2.0
"""What the node-resource controller counts, under the original's names.

Rule: docs/reference/manager.md#metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import resources as names

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from koord.base.metrics import Metric
    from koord.controllers.manager.metrics import ManagerMetrics

_MILLI = 1000
_MOST_COLUMNS = 8


class NodeResourceMetrics:
    """The controller's series.

    Args:
        metrics: the manager's.
    """

    def __init__(self, metrics: ManagerMetrics) -> None:
        self.reconciled = metrics.counted(
            "slo_controller_node_resource_reconcile_count", "Nodes looked at."
        )
        self._plugins: Metric = metrics.counter(
            "slo_controller_node_resource_run_plugin_status",
            "Steps of plugins.",
            ("plugin", "status", "reason"),
        )
        self._offered: Metric = metrics.internal.gauge(
            "slo_controller_node_extended_resource_allocatable_internal",
            "What nodes offer beside their own; CPU in cores, memory in bytes.",
            ("node", "resource", "unit"),
        )
        self._children: dict[tuple[str, str, str], Metric] = {}
        self._nodes: set[str] = set()
        # Told of far more often than anybody reads them.
        self._untold: dict[str, tuple[int, int, int, int]] = {}
        self._columns: list[tuple[list[str], NDArray[np.int64]]] = []
        metrics.before_read.append(self._set_gauges)

    def ran(self, plugin: str, status: str, step: str) -> None:
        """A plugin went through a step."""
        # Looking up a child by its labels costs more than counting.
        child = self._children.get((plugin, status, step))
        if child is None:
            child = self._children[plugin, status, step] = self._plugins.labels(
                plugin, status, step
            )
        child.inc()

    def offers(
        self, node: str, batch_milli: int, batch_bytes: int, mid_milli: int, mid_bytes: int
    ) -> None:
        """What a node offers; 0 for nothing."""
        self._spread_columns()
        self._untold[node] = batch_milli, batch_bytes, mid_milli, mid_bytes

    def offers_of(self, nodes: list[str], amounts: NDArray[np.int64]) -> None:
        """The same of many nodes, int64 ``[4, nodes]``: batch and mid, milli-cores and bytes."""
        self._columns.append((nodes, amounts))
        if len(self._columns) >= _MOST_COLUMNS:
            self._spread_columns()

    def _spread_columns(self) -> None:
        for nodes, amounts in self._columns:
            self._untold.update(zip(nodes, map(tuple, amounts.T.tolist()), strict=True))
        self._columns.clear()

    def _set_gauges(self) -> None:
        self._spread_columns()
        for node, (batch_milli, batch_bytes, mid_milli, mid_bytes) in self._untold.items():
            self._nodes.add(node)
            for cpu, milli, memory, size in (
                (names.BATCH_CPU, batch_milli, names.BATCH_MEMORY, batch_bytes),
                (names.MID_CPU, mid_milli, names.MID_MEMORY, mid_bytes),
            ):
                self._offered.labels(node, cpu, "integer").set(milli / _MILLI)
                self._offered.labels(node, memory, "byte").set(size)
        self._untold.clear()

    def forget(self, node: str) -> None:
        """A node is gone."""
        self._spread_columns()
        self._untold.pop(node, None)
        if node not in self._nodes:
            return
        self._nodes.discard(node)
        for cpu, memory in (
            (names.BATCH_CPU, names.BATCH_MEMORY),
            (names.MID_CPU, names.MID_MEMORY),
        ):
            self._offered.remove(node, cpu, "integer")
            self._offered.remove(node, memory, "byte")
