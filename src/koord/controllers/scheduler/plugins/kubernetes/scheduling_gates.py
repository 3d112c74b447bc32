# SPDX-License-Identifier: Apache-2.0
"""SchedulingGates: a pod with gates waits until they are taken away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.queueing_hints import is_own
from koord.controllers.scheduler.queue.events import (
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.cluster.pods import PodInfo


class SchedulingGates(Plugin):
    """``spec.schedulingGates``."""

    name = "SchedulingGates"

    def pre_enqueue(self, pod: PodInfo) -> Rejection | None:
        """Holds back a pod with gates; names them."""
        gates = pod.pod.spec.scheduling_gates
        if not gates:
            return None
        names = " ".join(gate.name for gate in gates)
        reason = f"waiting for scheduling gates: [{names}]"
        return Rejection(self.name, (reason,), unresolvable=True)

    def events(self) -> Sequence[HintedEvent]:
        """The pod's own gates are gone."""
        gone = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        return (HintedEvent(ClusterEvent(UNSCHEDULED_POD, gone), is_own),)
