# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesFitPlus: a strategy a resource, such as packing GPUs while spreading CPUs.

Rule: docs/reference/load.md#noderesourcesfitplus. Of the resources that the configuration names,
those that the pod asks for count; CPU and memory as ``nonzero`` counts them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from koord.controllers.cluster.node_table import CPU, MEMORY, Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import (
    SCORED_CPU,
    SCORED_MEMORY,
    Normalization,
    Plugin,
)
from koord.controllers.scheduler.plugins.noderesources.request_columns import (
    evaluate_rows,
    memo_key,
)
from koord.kernels.placement_board import LEAST, MOST, RoomScore

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.config.args_koord import NodeResourcesFitPlusArgs
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows

    # A kernel a resource, with the resource's weight.
    Kernels = list[tuple[RoomScore, int]]

_SCORED_AMOUNTS = {"cpu": SCORED_CPU, "memory": SCORED_MEMORY}
_STRATEGIES = {"LeastAllocated": LEAST, "MostAllocated": MOST}


class NodeResourcesFitPlus(Plugin):
    """Scores each configured resource that the pod requests by a strategy of its own."""

    name = "NodeResourcesFitPlus"
    reads = PodField.NONE
    kernels_by_requests = True
    depends = Aspect.NODE | Aspect.PODS | Aspect.RESERVATIONS
    applies_by_shape = True
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: NodeResourcesFitPlusArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.args: NodeResourcesFitPlusArgs = args
        self._key = memo_key(self.name)

    def applies(self, cycle: Cycle) -> bool:
        """Not to a pod that asks for nothing that counts: all nodes would get 100."""
        return bool(self._kernels(cycle.shape))

    def generation(self, cycle: Cycle) -> Hashable:
        """Overlays that differ between pods of a shape."""
        return cycle.overlay_generation

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """0 to 100; 100 everywhere for a pod that asks for nothing that counts."""
        kernels = self._kernels(cycle.shape)
        if not kernels:
            return np.full(len(cycle.table.open[rows]), 100, np.int64)

        def weighed(*columns: Any) -> NDArray[np.int64]:
            total: Any = sum(kernel.score(*columns) * weight for kernel, weight in kernels)
            return total // sum(weight for _, weight in kernels)  # type: ignore[no-any-return]

        return evaluate_rows(cycle, rows, weighed)

    def score_kernel(self, shape: PodShape) -> RoomScore | None:
        """The kernel that gives the whole answer of :meth:`score`, where one resource counts."""
        kernels = self._kernels(shape)
        return kernels[0][0] if len(kernels) == 1 and kernels[0][1] > 0 else None

    def score_kernel_amounts(self, names: Sequence[str]) -> Sequence[str]:
        """Of the one resource that counts."""
        return [_SCORED_AMOUNTS.get(name, name) for name in self.args.resources if name in names]

    def _kernels(self, shape: PodShape) -> Kernels:
        columns = self.handle.table.resources_key
        kept: tuple[object, Kernels] | None = shape.memo.get(self._key)
        if kept is None or kept[0] is not columns:
            kept = shape.memo[self._key] = columns, self._build(shape)
        return kept[1]

    def _build(self, shape: PodShape) -> Kernels:
        counted = {"cpu": shape.nonzero[CPU], "memory": shape.nonzero[MEMORY]}
        kernels = []
        for name, strategy in sorted(self.args.resources.items()):
            if shape.request.get(name, 0) <= 0:
                continue
            request = counted.get(name, shape.request[name])
            column = (self.handle.table.resource(name), request, 1, name in counted)
            kernels.append((RoomScore(_STRATEGIES[strategy.type], [column], []), strategy.weight))
        return kernels
