# SPDX-License-Identifier: Apache-2.0
"""Carries a plan out: its steps in their order, each looked at again right before.

Rule: docs/reference/descheduling.md#carrying-a-plan-out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.controllers.descheduler.framework.outcomes import RoundRecord
    from koord.controllers.descheduler.framework.points import Evict
    from koord.controllers.descheduler.planning.plan import PlannedStep
    from koord.controllers.descheduler.planning.planning_evictor import WantedPod
    from koord.controllers.descheduler.planning.step_checks import StepChecks


class PlanExecution:
    """One plan on its way.

    Args:
        record: gets what becomes of each step.
        carriers: the evict plugins of profiles, by their places.
        checks: what has changed since the plan was made.
    """

    def __init__(
        self, record: RoundRecord, carriers: Sequence[Evict | None], checks: StepChecks
    ) -> None:
        self._record, self._carriers, self._checks = record, carriers, checks
        # Numbers of steps that were not done, and of those that were.
        self._lost: set[int] = set()
        self._done: dict[int, WantedPod] = {}

    @property
    def done(self) -> Iterable[WantedPod]:
        """The pods of steps that were done."""
        return self._done.values()

    async def run(self, steps: Sequence[tuple[PlannedStep, WantedPod]]) -> None:
        """Asks for each step's eviction; one that is refused ends those that require it."""
        for step, wanted in steps:
            if not await self._carried_out(step, wanted):
                self._lost.add(step.number)

    async def _carried_out(self, step: PlannedStep, wanted: WantedPod) -> bool:
        refusal = self._unmet(step) or self._checks.refusal(step, wanted, self._done.values())
        if refusal:
            self._record.refused(wanted.pod, wanted.request, refusal)
            return False
        carrier = self._carriers[wanted.profile]
        assert carrier is not None, "a profile has exactly one evict plugin"
        if not await carrier.evict(wanted.pod, wanted.request):
            self._record.failed(wanted.pod, wanted.request, str(getattr(carrier, "why", "")))
            return False
        self._record.evicted(wanted.pod, wanted.request)
        self._done[step.number] = wanted
        return True

    def _unmet(self, step: PlannedStep) -> str:
        """Which step that it requires was not done, or has not made room yet; empty for none."""
        for number in step.requires:
            if number in self._lost:
                return f"step {number}, which makes room on {step.target}, was not done"
            if self._checks.is_under_way(self._done[number]):
                return f"step {number}, which makes room on {step.target}, is under way"
        return ""
