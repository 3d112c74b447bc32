# SPDX-License-Identifier: Apache-2.0
"""What the targets of a phase may still use, in columns, one row a target.

Rule: docs/reference/descheduling-plugins.md#a-pass-over-a-pool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.descheduler.predicates.fit_columns import FitColumns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.plugins.loadaware.measured_nodes import MeasuredNode
    from koord.controllers.descheduler.predicates.node_fit import NodeFit


class TargetLoads:
    """Places pods on targets for as long as a phase lasts.

    Args:
        targets: in the order in which pods try them; every one has the same resources.
        node_fit: whether pods fit.
        prod: whether the load of prod pods counts, or that of all.
    """

    def __init__(self, targets: Sequence[MeasuredNode], node_fit: NodeFit, *, prod: bool) -> None:
        self._loads = [target.load(prod=prod) for target in targets]
        self._fit = FitColumns([target.node for target in targets], node_fit)
        first = self._loads[0] if self._loads else None
        names = [name for name in first.high if name in first.usage] if first else []
        self._left = {
            name: np.array([load.high[name] - load.usage[name] for load in self._loads], np.int64)
            for name in names
        }

    def place(self, pod: Pod, used: Mapping[str, int]) -> bool:
        """Whether a target takes the pod without becoming high; the usage stays counted there.

        Args:
            pod: which.
            used: what it uses.
        """
        rows = np.ones(len(self._loads), np.bool_)
        for name, left in self._left.items():
            rows &= left >= used.get(name, 0)
        row = self._fit.first(pod, rows)
        if row is None:
            return False
        counted = {name: amount for name, amount in used.items() if name in self._left}
        self._loads[row].add(counted)
        for name, amount in counted.items():
            self._left[name][row] -= amount
        return True
