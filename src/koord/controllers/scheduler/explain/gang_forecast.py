# SPDX-License-Identifier: Apache-2.0
"""What would become of a pod's gang as a whole: planned by the planner itself, and undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.explain.explanation import (
    GangForecast,
    GangMembers,
    SuggestedChange,
)
from koord.controllers.scheduler.explain.suggestions import fits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.cluster.pods import PodInfo, Shapes
    from koord.controllers.scheduler.decision.decider import Decider
    from koord.controllers.scheduler.job_planning.plan import GangCounts
    from koord.controllers.scheduler.job_planning.planner import JobPlanner


def look(planner: JobPlanner, pod: PodInfo, decider: Decider) -> GangForecast:
    """The gang of a pod as it stands, and what a plan for it would come to now.

    Args:
        planner: of the pod's profile.
        pod: as the scheduler has it.
        decider: of its profile.
    """
    found = planner.forecast(pod, decider)
    return GangForecast(
        [_members(each) for each in planner.gang_counts(pod)],
        found.is_schedulable,
        found.rejection,
        found.attempted,
        len(found.placed),
        found.missing,
        found.first_failed,
        found.reason,
        found.placed.get(pod.uid, ""),
    )


def lower(
    planner: JobPlanner, pod: PodInfo, decider: Decider, shapes: Shapes, known: GangForecast
) -> Iterator[SuggestedChange]:
    """By gang, a lower minimum with which the pod gets a node and its gang goes.

    Args:
        planner: of the pod's profile.
        pod: it waits for a node, and its gang does not go as it is.
        decider: of its profile.
        shapes: interns what is tried.
        known: what :func:`look` found.
    """
    for each in planner.gang_counts(pod):
        # As many as a plan finds room for; of an incomplete gang the first try is the first plan.
        least = min(each.minimum, each.pods) - known.missing
        for _ in range(2):
            if not 0 < least <= each.minimum or each.problem:
                break
            with planner.with_minimum(each.gang, least):
                found = planner.forecast(pod, decider)
                goes = found.is_schedulable and pod.uid in found.placed
                nodes = fits(decider, shapes, pod.pod) if goes else 0
            if nodes:
                yield SuggestedChange(
                    f"lower the minimum of the gang {each.gang} to {least}", nodes
                )
                break
            least -= found.missing


def _members(counts: GangCounts) -> GangMembers:
    return GangMembers(
        counts.gang,
        counts.pods,
        counts.minimum,
        counts.bound,
        counts.held,
        counts.shortfall,
        counts.problem,
    )
