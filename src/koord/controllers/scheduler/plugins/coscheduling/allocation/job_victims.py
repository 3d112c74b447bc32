# SPDX-License-Identifier: Apache-2.0
"""Whom a job may preempt, and what a node's victims cost.

Rule: docs/reference/gangs.md#job-preemption.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import gang, keys
from koord.api.protocol.priority import is_preemptible
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)
from koord.controllers.scheduler.preemption.victims import VictimPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.preemption.disruption_budgets import DisruptionBudgets


class JobVictims(VictimPolicy):
    """Pods of lower priority that nothing protects.

    Args:
        members: uids of the job's own pods, which are never victims.
    """

    def __init__(self, members: Iterable[str] = ()) -> None:
        self._members = frozenset(members)

    def may_preempt(self, pod: PodInfo, victim: PodInfo) -> bool:
        """Whether one pod may make another go."""
        labels = victim.pod.metadata.labels
        return (
            victim.priority < pod.priority
            and is_preemptible(victim.pod)
            and labels.get(keys.QUOTA_PREEMPTIBLE) != "false"
            and victim.uid not in self._members
            and not stands_for_reservation(victim.pod)
        )


class VictimCost(NamedTuple):
    """What making a node free would cost at most; the least is tried first.

    Attributes:
        violations: victims beyond what their disruption budgets allow.
        cost: by job among the victims, the rank of its highest priority, added up.
        rank: the place of the node's name.
        row: the node.
        victims: pods that may go.
    """

    violations: int
    cost: int
    rank: int
    row: int
    victims: Sequence[PodInfo]


def victim_cost(
    victims: Mapping[int, Sequence[PodInfo]], budgets: DisruptionBudgets, rank: Mapping[int, int]
) -> list[VictimCost]:
    """Nodes by what they cost, the cheapest first.

    Priorities are ranked over all nodes, the lowest 0.

    Args:
        victims: by row, pods that may go; none empty.
        budgets: disruption budgets.
        rank: by row, the place of the node's name.
    """
    priorities = sorted({pod.priority for pods in victims.values() for pod in pods})
    ranks = {priority: place for place, priority in enumerate(priorities)}
    found = []
    for row, pods in victims.items():
        highest: dict[str, int] = {}
        for pod in pods:
            job = job_of(pod)
            highest[job] = max(highest.get(job, 0), ranks[pod.priority])
        violations = len(budgets.split(pods).violating)
        found.append(VictimCost(violations, sum(highest.values()), rank[row], row, pods))
    return sorted(found, key=lambda stakes: stakes[:3])


def job_of(victim: PodInfo) -> str:
    """The job a victim belongs to: by label, else its gang, else itself."""
    labelled = victim.pod.metadata.labels.get(keys.QUESTIONED_OBJECT_KEY)
    if labelled:
        return labelled
    name = gang.gang_name(victim.pod)
    return f"gang {victim.shape.namespace}/{name}" if name else f"pod {victim.uid}"


def spared_first(victims: Sequence[PodInfo], budgets: DisruptionBudgets) -> list[PodInfo]:
    """Victims in the order in which they are put back.

    Those whose budget is overdrawn first, then by priority, the highest first, then by job, then by
    name.
    """
    split = budgets.split(sorted(victims, key=_importance))
    return [*split.violating, *split.others]


def _importance(pod: PodInfo) -> tuple[int, str, str]:
    return -pod.priority, job_of(pod), pod.key
