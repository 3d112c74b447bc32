# SPDX-License-Identifier: Apache-2.0
"""Whether a step of a plan can still be done: its pod, the budgets and the place, asked again.

Rule: docs/reference/descheduling.md#carrying-a-plan-out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.descheduler.planning.disruption_ledger import DisruptionLedger
from koord.controllers.descheduler.snapshot import FINISHED, ClusterSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.planning.current_cluster import CurrentCluster
    from koord.controllers.descheduler.planning.landing import LandingNodes
    from koord.controllers.descheduler.planning.plan import PlannedStep
    from koord.controllers.descheduler.planning.planning_evictor import WantedPod


class StepChecks:
    """Asked right before each step.

    Args:
        landing: that the plan was made with; None for one of the one-by-one rule.
        live: the cluster; None where nothing happens but by plans.
        is_current: whether a pod is still where the plan has it.
    """

    def __init__(
        self,
        landing: LandingNodes | None,
        live: CurrentCluster | None,
        is_current: Callable[[Pod], bool],
    ) -> None:
        self._landing, self._live, self._is_current = landing, live, is_current

    def is_under_way(self, done: WantedPod) -> bool:
        """Whether a pod whose step was done is still on its node."""
        return self._live is not None and self._live.pod(done.pod) is not None

    def refusal(self, step: PlannedStep, wanted: WantedPod, done: Collection[WantedPod]) -> str:
        """What keeps a step from being done, in one line; empty for nothing.

        Args:
            step: which.
            wanted: its pod as it was when the plan was made.
            done: steps that were done.
        """
        if not self._is_current(wanted.pod):
            return f"it is not on {step.node} any more"
        if self._live is None:
            return ""
        return (
            _changed(wanted.pod, self._live.pod(wanted.pod))
            or self._budget(self._live, wanted.pod, done)
            or self._place(self._live, step, wanted.pod, done)
        )

    def _budget(self, live: CurrentCluster, pod: Pod, done: Collection[WantedPod]) -> str:
        """What budgets say now, which do not know of evictions that are to come."""
        if self._landing is None:
            return ""
        ledger = DisruptionLedger(ClusterSnapshot((), budgets=live.budgets()))
        if ledger.refusal(pod):
            return ledger.refusal(pod)
        # A budget is about pods of its own namespace.
        namespace = pod.metadata.namespace
        moving = {each.pod.metadata.uid: each.pod for each in live.under_way(namespace)}
        moving |= {
            each.pod.metadata.uid: each.pod
            for each in done
            if each.pod.metadata.namespace == namespace
        }
        for each in moving.values():
            now = live.pod(each)
            if now is not None and now.metadata.deletion_timestamp is None:
                ledger.add(now)
        return ledger.refusal(pod)

    def _place(
        self, live: CurrentCluster, step: PlannedStep, pod: Pod, done: Collection[WantedPod]
    ) -> str:
        """Whether the node takes the pod now, those counted that are on their way to it."""
        if self._landing is None:
            return ""
        coming = [
            (each.pod, each.request.target)
            for each in done
            if live.pod(each.pod) is not None and not live.is_placed(each.pod)
        ]
        return self._landing.refusal(pod, step.target, coming)


def _changed(planned: Pod, now: Pod | None) -> str:
    """How a pod differs from what a plan was made for; empty where it does not."""
    if now is None:
        return "it is gone"
    if now.spec.node_name != planned.spec.node_name:
        return f"it is not on {planned.spec.node_name} any more"
    if now.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if now.status.phase in FINISHED:
        return "it has ended"
    if now.spec != planned.spec or now.metadata.labels != planned.metadata.labels:
        return "it has changed since the plan was made"
    return ""
