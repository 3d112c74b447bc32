# SPDX-License-Identifier: Apache-2.0
"""NodeResourcesBalancedAllocation: nodes whose resources would be used to like fractions go first.

Rule: docs/reference/stock-plugins.md#other-scores. ``(1 - deviation) * 100``, truncated, over
requests as they are. Pods that ask for none of the resources are not scored, or they would all
gather on one node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, TypeAlias

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.config.args_kube_scheduler import (
    NodeResourcesBalancedAllocationArgs,
)
from koord.controllers.scheduler.framework.plugin import Normalization, Plugin
from koord.controllers.scheduler.plugins.noderesources import resource_kinds
from koord.controllers.scheduler.plugins.noderesources.request_columns import (
    evaluate_rows,
    memo_key,
)
from koord.kernels.placement_board import BALANCED, RoomScore

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import Rows


# Of so many kernels the place among the columns is kept.
_KINDS = 256

_KindKernel: TypeAlias = "tuple[list[int], RoomScore]"
"""The places among the arguments' resources that count, and the kernel over their columns."""


class NodeResourcesBalancedAllocation(Plugin):
    """Scores nodes by how equal the used fractions of their resources would be."""

    name = "NodeResourcesBalancedAllocation"
    reads = PodField.NONE
    kernels_by_requests = True
    depends = Aspect.NODE | Aspect.PODS | Aspect.RESERVATIONS
    applies_by_shape = True
    normalization: ClassVar[Normalization] = Normalization.NONE

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None, handle: Handle) -> None:
        super().__init__(args or NodeResourcesBalancedAllocationArgs(), handle)
        self._key = memo_key(self.name)
        # By which of the resources a pod requests, the kernel of any amounts of them.
        self._kinds: dict[tuple[bool, ...], _KindKernel] = {}
        # One of a name counts; the latest, as it is written.
        self._names = tuple({each.name: None for each in self.args.resources})
        self._columns: object = None

    def applies(self, cycle: Cycle) -> bool:
        """Not to pods that ask for nothing that counts."""
        return self.score_kernel(cycle.shape) is not None

    def generation(self, cycle: Cycle) -> Hashable:
        """Overlays that differ between pods of a shape."""
        return cycle.overlay_generation

    def score(self, cycle: Cycle, rows: Rows) -> NDArray[np.int64]:
        """0 to 100."""
        kernel = self.score_kernel(cycle.shape)
        assert kernel is not None
        return evaluate_rows(cycle, rows, kernel.score)

    def score_kernel(self, shape: PodShape) -> RoomScore | None:
        """All that :meth:`score` asks."""
        columns = self.handle.table.resources_key
        memo = shape.container_requests.memo
        kept: tuple[object, RoomScore | None] | None = memo.get(self._key)
        if kept is None or kept[0] is not columns:
            kept = memo[self._key] = columns, self._work_out(shape)
        return kept[1]

    def score_kernel_amounts(self, names: Sequence[str]) -> Sequence[str]:
        """Of the resources that count for pods that request these."""
        return [self._names[place] for place in self._kind(names)[0]]

    def _work_out(self, shape: PodShape) -> RoomScore | None:
        request = shape.request
        amounts = [request.get(name, 0) for name in self._names]
        if not any(amounts):
            return None
        places, kernel = self._kind(request)
        return kernel.requesting([amounts[place] for place in places])

    def _kind(self, requested: Container[str]) -> _KindKernel:
        kind = tuple([name in requested for name in self._names])
        table = self.handle.table
        if self._columns is not table.resources_key or len(self._kinds) >= _KINDS:
            self._columns, self._kinds = table.resources_key, {}
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = self._kernel(kind)
        return known

    def _kernel(self, kind: tuple[bool, ...]) -> _KindKernel:
        """Which resources count for pods that request some of them, and the kernel."""
        counted = [
            place
            for place, (name, asked) in enumerate(zip(self._names, kind, strict=True))
            if asked or not resource_kinds.is_scalar(name)
        ]
        columns = [(self.handle.table.resource(self._names[i]), 0, 1, False) for i in counted]
        return counted, RoomScore(BALANCED, columns, [])
