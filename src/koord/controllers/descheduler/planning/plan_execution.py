# SPDX-License-Identifier: Apache-2.0
"""Carries a plan out: its steps in their order, each looked at again right before.

Rule: docs/reference/descheduling.md#carrying-a-plan-out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.descheduler.planning.plan import units

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
        wanted = {step.number: each for step, each in steps}
        for unit in units(step for step, _ in steps):
            if not await self._carried_out(unit, [wanted[step.number] for step in unit]):
                self._lost.update(step.number for step in unit)

    async def _carried_out(self, steps: Sequence[PlannedStep], wanted: Sequence[WantedPod]) -> bool:
        """Steps that are carried out together: the first one's eviction is that of all."""
        refusal = self._refusal(steps, wanted)
        if refusal:
            for each in wanted:
                self._record.refused(each.pod, each.request, refusal)
            return False
        carrier = self._carriers[wanted[0].profile]
        assert carrier is not None, "a profile has exactly one evict plugin"
        if not await carrier.evict(wanted[0].pod, wanted[0].request):
            for each in wanted:
                self._record.failed(each.pod, each.request, str(getattr(carrier, "why", "")))
            return False
        for step, each in zip(steps, wanted, strict=True):
            self._record.evicted(each.pod, each.request)
            self._done[step.number] = each
        return True

    def _refusal(self, steps: Sequence[PlannedStep], wanted: Sequence[WantedPod]) -> str:
        """What keeps one of the steps from being done; empty for nothing."""
        done = list(self._done.values())
        for step, each in zip(steps, wanted, strict=True):
            refusal = self._unmet(step) or self._checks.refusal(step, each, done)
            if refusal:
                return refusal if step is steps[0] else f"{each.pod.title} of its gang: {refusal}"
            done.append(each)
        return ""

    def _unmet(self, step: PlannedStep) -> str:
        """Which step that it requires was not done, or has not made room yet; empty for none."""
        for number in step.requires:
            if number in self._lost:
                return f"step {number}, which makes room on {step.target}, was not done"
            if self._checks.is_under_way(self._done[number]):
                return f"step {number}, which makes room on {step.target}, is under way"
        return ""
