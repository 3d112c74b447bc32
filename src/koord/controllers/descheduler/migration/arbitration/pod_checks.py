# SPDX-License-Identifier: Apache-2.0
"""All checks of a pod in their order, for plugins and for the arbitrator.

Rule: docs/reference/migration.md#which-pods-may-be-moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.migration import RESERVATION_FIRST
from koord.controllers.descheduler.migration.arbitration.pod_index import pod_key
from koord.controllers.descheduler.migration.arbitration.refusal import MoveRefusal
from koord.controllers.descheduler.predicates import pod_traits

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.migration.arbitration.job_index import JobIndex
    from koord.controllers.descheduler.migration.arbitration.movability import Movability
    from koord.controllers.descheduler.migration.arbitration.moving_limits import MovingLimits
    from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs


class MigrationChecks:
    """What keeps a pod where it is.

    Args:
        args: of the plugin.
        movability: checks that no time mends.
        limits: checks that time mends.
        jobs: that there are.
    """

    def __init__(
        self,
        args: MigrationControllerArgs,
        movability: Movability,
        limits: MovingLimits,
        jobs: JobIndex,
    ) -> None:
        self._args = args
        self._movability = movability
        self._limits = limits
        self._jobs = jobs

    def refusal(self, pod: Pod) -> MoveRefusal | None:
        """Why a plugin may not choose the pod; None where it may."""
        if self._jobs.is_taken(pod_key(pod)):
            return MoveRefusal("ExistingJob", "a PodMigrationJob of it has not ended")
        names = self._args.scheduler_names
        first = self._args.default_job_mode == RESERVATION_FIRST
        if first and pod.spec.scheduler_name not in names:
            text = f"its scheduler is {pod.spec.scheduler_name}, which serves no reservations"
            return MoveRefusal("SchedulerName", text)
        return self.permanent(pod) or self.passing(pod, arbitrating=False)

    def permanent(self, pod: Pod) -> MoveRefusal | None:
        """What no time mends."""
        if pod_traits.asks_to_be_evicted(pod):
            return None
        return self._movability.refusal(pod) or self._limits.replicas_refusal(pod)

    def is_surged(self, pod: Pod) -> bool:
        """Whether another pod takes its place before the pod goes: no budget is touched."""
        return self._limits.is_surged(pod)

    def passing(self, pod: Pod, arbitrating: bool) -> MoveRefusal | None:
        """What time mends."""
        if pod_traits.asks_to_be_evicted(pod):
            return None
        return self._limits.refusal(pod, arbitrating)
