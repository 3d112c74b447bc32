# SPDX-License-Identifier: Apache-2.0
"""DefaultPreemption: makes room by deleting pods of lower priority.

Rule: docs/reference/scheduling.md#preemption. Kubernetes:
pkg/scheduler/framework/plugins/defaultpreemption.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.preemption.evaluator import PreemptionEvaluator
from koord.controllers.scheduler.queue import events

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.diagnosis import Diagnosis
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.framework.plugin import PostFilterResult

NAME = "DefaultPreemption"
_UNDER_WAY = "waiting for the preemption for this pod to be finished"


class DefaultPreemption(Plugin):
    """PostFilter, and PreEnqueue for pods whose preemption is being carried out.

    Args:
        args: ``DefaultPreemptionArgs``: of the nodes that might help, a percentage but at least an
            absolute number of candidates is enough.
        handle: the cluster's state.
    """

    name = NAME

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.engine = PreemptionEvaluator(NAME, handle, most=self._most)

    def pre_enqueue(self, pod: PodInfo) -> Rejection | None:
        """Gates a pod while its victims are being deleted."""
        if self.engine.effects.in_progress(pod):
            return Rejection(NAME, (_UNDER_WAY,), unresolvable=True)
        return None

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """See :class:`PreemptionEvaluator`."""
        return self.engine.post_filter(cycle, diagnosis)

    def events(self) -> Sequence[events.HintedEvent]:
        """A gated pod is looked at again when a pod went; others wake whoever refused them."""
        return (events.HintedEvent(events.ASSIGNED_POD_DELETE, lambda *_: False, True),)

    def _most(self, nodes: int) -> int:
        """How many candidates are enough."""
        percentage = nodes * int(self.args.min_candidate_nodes_percentage) // 100
        return min(nodes, max(percentage, int(self.args.min_candidate_nodes_absolute)))
