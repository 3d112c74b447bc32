# SPDX-License-Identifier: Apache-2.0
"""The shell of CronJobs: a start is made and recorded in one go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.controllers.base.objects import JOB
from koord.controlplane.controllers.base.plans import Create, ObjectEvent
from koord.controlplane.controllers.cron import cronjobs
from koord.controlplane.controllers.workload.controllers import OwnerController
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from koord.controlplane.controllers.base.objects import Owner
    from koord.controlplane.controllers.base.plans import Plan
    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView

_CONFLICT_SECONDS = 1.0


class CronJobController(OwnerController):
    """Starts Jobs by schedule."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, cronjobs.CRON_JOB, (JOB,))
        self._jobs: KindView[Owner] = runtime.view(JOB)

    def plan(self, owner: Owner, now: float) -> Plan:
        """What a CronJob needs."""
        return cronjobs.plan(owner, self._jobs.by_index("owner", owner.metadata.uid), now)

    async def reconcile(self, key: str) -> float | None:
        """Plans, carries out, and writes a status that knows of what has just been made."""
        owner = self.owners.get(key)
        if owner is None:
            return None
        now = self.runtime.now
        plan = self.plan(owner, now)
        try:
            await self._carry_out(owner, plan)
            after = self.plan(owner, now)
            for note in _new(plan, after):
                self.runtime.record_event(owner, self.kind, note)
            assert after.status is not None
            await self.runtime.write_status(self.kind, owner, after.status)
        except ApiError as error:
            if error.reason != "Conflict":
                raise
            return _CONFLICT_SECONDS
        return plan.again_seconds

    async def _carry_out(self, owner: Owner, plan: Plan) -> None:
        try:
            await self.runtime.carry_out(plan.actions, self.kind, owner)
        except ApiError as error:
            if any(isinstance(action, Create) for action in plan.actions):
                said = f"Error creating job: {error.status.message}"
                self.runtime.record_event(
                    owner, self.kind, ObjectEvent("FailedCreate", said, "Warning")
                )
            raise


def _new(before: Plan, after: Plan) -> list[ObjectEvent]:
    """Events of what a plan has made: of the starts that are recorded now."""
    assert before.status is not None
    assert after.status is not None
    known = {entry["uid"] for entry in before.status.get("active", ())}
    return [
        ObjectEvent("SuccessfulCreate", f"Created job {entry['name']}")
        for entry in after.status.get("active", ())
        if entry["uid"] not in known
    ]
