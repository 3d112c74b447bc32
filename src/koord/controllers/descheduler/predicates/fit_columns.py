# SPDX-License-Identifier: Apache-2.0
"""Fit of pods on many nodes at once: what nodes have left in columns, one row a node.

Rule: docs/reference/descheduling.md#nodefit, as Koordinator's plugins ask it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koord.api import requests
from koord.controllers.descheduler.predicates.node_fit import may_run_on
from koord.controllers.descheduler.predicates.node_selection import node_affinity

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.predicates.node_fit import NodeFit

    Bools = NDArray[np.bool_]
    Ints = NDArray[np.int64]

_MOST_KEPT = 256
"""Sets of constraints for which answers are kept: some bytes a node each."""

_MOST_COLUMNS = 64
"""Resources that are kept in columns: pods may request names that nobody has heard of."""


class NodeFitColumns:
    """Fit on some nodes of a snapshot, by requests and constraints.

    Args:
        nodes: the rows.
        node_fit: what they have left.
    """

    def __init__(self, nodes: Sequence[Node], node_fit: NodeFit) -> None:
        self._nodes = nodes
        self._node_fit = node_fit
        self._left: dict[str, Ints] = {}
        # By constraints for each row: 1 for yes, -1 for no, 0 where nobody has asked yet.
        self._answers: dict[bytes, NDArray[np.int8]] = {}

    def first(self, pod: Pod, rows: Bools) -> int | None:
        """The first of the rows that takes the pod; None where none does.

        Args:
            pod: which.
            rows: those that are asked, a mask; changed.
        """
        for name, amount in self._node_fit.requested(pod).items():
            if name != requests.PODS:
                rows &= self._column(name) >= amount
        answers = self._answers_of(pod)
        rows &= answers >= 0
        while rows.size and rows[row := int(rows.argmax())]:
            if answers[row] == 0:
                answers[row] = 1 if may_run_on(pod, self._nodes[row]) else -1
            if answers[row] == 1:
                return row
            rows[row] = False
        return None

    def _column(self, name: str) -> Ints:
        if name not in self._left:
            if len(self._left) >= _MOST_COLUMNS:
                self._left.clear()
            left = [self._node_fit.free(node).get(name, 0) for node in self._nodes]
            self._left[name] = np.array(left, np.int64)
        return self._left[name]

    def _answers_of(self, pod: Pod) -> NDArray[np.int8]:
        spec = pod.spec
        key = msgspec.msgpack.encode((spec.node_selector, node_affinity(pod), spec.tolerations))
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) >= _MOST_KEPT:
                self._answers.clear()
            found = self._answers[key] = np.zeros(len(self._nodes), np.int8)
        return found
