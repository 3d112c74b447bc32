# SPDX-License-Identifier: Apache-2.0
"""NodeName: a pod that names its node goes there or nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.queue.events import NODE, Action, ClusterEvent, HintedEvent

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from numpy.typing import NDArray

    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.plugin import Rows

REASON = "node(s) didn't match the requested node name"


class NodeName(Plugin):
    """``spec.nodeName`` of a pod that is not bound yet."""

    name = "NodeName"
    depends = Aspect.NODE
    filter_at_once = True
    answers_read = PodField.NONE

    def applies(self, cycle: Cycle) -> bool:
        """To pods that name a node."""
        return bool(cycle.pod.pod.spec.node_name)

    def generation(self, cycle: Cycle) -> Hashable:
        """The node's name is the pod's, not the shape's."""
        return cycle.pod.pod.spec.node_name

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True for the row of that name."""
        passes = np.zeros(cycle.table.size, np.bool_)
        row = cycle.table.row(cycle.pod.pod.spec.node_name)
        if row is not None:
            passes[row] = True
        return passes[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """One reason."""
        return [Rejection(self.name, (REASON,), unresolvable=True)] * len(rows)

    def events(self) -> Sequence[HintedEvent]:
        """A node of that name."""
        return (HintedEvent(ClusterEvent(NODE, Action.ADD), _is_named),)


def _is_named(info: object, old: object, new: object) -> bool:
    name = info.pod.spec.node_name  # type: ignore[attr-defined]
    return new is None or new.metadata.name == name  # type: ignore[attr-defined]
