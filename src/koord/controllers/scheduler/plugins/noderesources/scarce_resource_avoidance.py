# SPDX-License-Identifier: Apache-2.0
"""ScarceResourceAvoidance: pods that request nothing scarce stay away from nodes that have it.

Rule: docs/reference/load.md#scarceresourceavoidance. Of the resources that a node has and the pod
does not ask for, the share that is not scarce.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from koord.controllers.cluster.node_table import PODS, Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.plugins.noderesources import resource_kinds
from koord.controllers.scheduler.plugins.noderesources.request_columns import memo_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.scheduler.config.args_koord import ScarceResourceAvoidanceArgs
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows

    # Columns that the pod does not ask for, and of those the scarce ones.
    Columns = tuple[NDArray[np.bool_], NDArray[np.bool_]]


class ScarceResourceAvoidance(Plugin):
    """Scores nodes lower whose scarce resources the pod does not request."""

    name = "ScarceResourceAvoidance"
    reads = PodField.NONE
    depends = Aspect.NODE
    applies_by_shape = True
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: ScarceResourceAvoidanceArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._scarce = frozenset(args.resources)
        self._key = memo_key(self.name)

    def applies(self, cycle: Cycle) -> bool:
        """Not without scarce resources: all nodes would get 100."""
        return bool(self._scarce)

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """0 to 100; 100 where nothing is left over, or nothing scarce."""
        other, scarce = self._columns(cycle)
        offered = cycle.table.allocatable[:, rows] > 0
        left = np.count_nonzero(offered & other[:, None], axis=0)
        hit = np.count_nonzero(offered & scarce[:, None], axis=0)
        return np.where(hit > 0, (left - hit) * 100 // np.maximum(left, 1), 100)

    def _columns(self, cycle: Cycle) -> Columns:
        resources, shape = cycle.table.resources, cycle.shape
        kept: tuple[object, Columns] | None = shape.memo.get(self._key)
        if kept is None or kept[0] is not cycle.table.resources_key:
            other = [
                shape.request.get(name, 0) <= 0 and (index < PODS or resource_kinds.is_scalar(name))
                for index, name in enumerate(resources)
            ]
            scarce = [
                counts and name in self._scarce
                for counts, name in zip(other, resources, strict=True)
            ]
            both = np.array(other), np.array(scarce)
            kept = shape.memo[self._key] = cycle.table.resources_key, both
        return kept[1]
