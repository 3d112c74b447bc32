# SPDX-License-Identifier: Apache-2.0
"""What would become of a pod's gang as a whole: planned by the planner itself, and undone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.scheduler.explain.answer import Change, Gang, Members
from koord.controllers.scheduler.explain.changes import fits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.cluster.pods import PodInfo, Shapes
    from koord.controllers.scheduler.decider import Decider
    from koord.controllers.scheduler.jobplan import Standing
    from koord.controllers.scheduler.jobs import JobPlanner


def look(planner: JobPlanner, pod: PodInfo, decider: Decider) -> Gang:
    """The gang of a pod as it stands, and what a plan for it would come to now.

    Args:
        planner: of the pod's profile.
        pod: as the scheduler has it.
        decider: of its profile.
    """
    found = planner.outlook(pod, decider)
    return Gang(
        [_members(each) for each in planner.standing(pod)],
        found.goes,
        found.refused,
        found.tried,
        len(found.placed),
        found.missing,
        found.first,
        found.why,
        found.placed.get(pod.uid, ""),
    )


def lower(
    planner: JobPlanner, pod: PodInfo, decider: Decider, shapes: Shapes, known: Gang
) -> Iterator[Change]:
    """By gang, a lower minimum with which the pod gets a node and its gang goes.

    Args:
        planner: of the pod's profile.
        pod: it waits for a node, and its gang does not go as it is.
        decider: of its profile.
        shapes: interns what is tried.
        known: what :func:`look` found.
    """
    for each in planner.standing(pod):
        # As many as a plan finds room for; of an incomplete gang the first try is the first plan.
        least = min(each.minimum, each.pods) - known.missing
        for _ in range(2):
            if not 0 < least <= each.minimum or each.problem:
                break
            with planner.supposing(each.gang, least):
                found = planner.outlook(pod, decider)
                goes = found.goes and pod.uid in found.placed
                nodes = fits(decider, shapes, pod.pod) if goes else 0
            if nodes:
                yield Change(f"lower the minimum of the gang {each.gang} to {least}", nodes)
                break
            least -= found.missing


def _members(found: Standing) -> Members:
    return Members(
        found.gang, found.pods, found.minimum, found.bound, found.held, found.lacks, found.problem
    )
