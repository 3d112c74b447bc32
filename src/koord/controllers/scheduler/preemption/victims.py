# SPDX-License-Identifier: Apache-2.0
"""Who may be preempted, who goes first, and which of several nodes costs least.

Rule: docs/reference/scheduling.md#preemption. Kubernetes: pkg/scheduler/framework/preemption.
"""

from __future__ import annotations

import math
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)
from koord.controllers.scheduler.pod_conditions import was_preempted

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.accounts import Accounts
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.rejection import Rejection

# Makes every priority positive, so that of two nodes the one with fewer victims has the least sum.
_SHIFT = 1 << 31


class VictimPolicy:
    """Whom a pod may preempt; this one says: every pod of lower priority.

    A plugin that preempts by other rules overrides what differs.
    """

    def may_preempt(self, pod: PodInfo, victim: PodInfo) -> bool:
        """Whether one pod may make another go. Depends on both pods alone, not on the node.

        The pod of a Reservation never goes: deleting it would mean to delete the Reservation.
        """
        return victim.priority < pod.priority and not stands_for_reservation(victim.pod)

    def waits_for(self, pod: PodInfo, other: PodInfo) -> bool:
        """Whether a pod waits until another one on the node promised to it is gone.

        While there is one it preempts nobody. This policy says: one that it may preempt, and that
        some scheduler has preempted.
        """
        return was_preempted(other.pod) and self.may_preempt(pod, other)

    def key(self, pod: PodInfo) -> Hashable:
        """Equal for pods that may preempt the same victims, beside their shape.

        None says that this changes from one moment to the next, so that no answer is kept.
        """
        return pod.priority

    def spares_all(self, pod: PodInfo, accounts: Accounts) -> bool:
        """Whether it is known without a search that no pod on any node may be preempted.

        To be overridden where others than pods of lower priority may be. Called once before a
        search.
        """
        return accounts.least_priority() >= pod.priority

    def rows(self, pod: PodInfo) -> Collection[int] | None:
        """The only rows that hold pods which might be preempted, None if that is not known.

        Called once before a search.
        """
        return None

    def admits(self, cycle: Cycle, row: int) -> Rejection | None:
        """A further condition for the pod to fit on a row, asked in the middle of a what-if.

        Override for rules that are no Filter, such as a quota.
        """
        return None


class Candidate(NamedTuple):
    """A node that would have room.

    Attributes:
        cost: see :func:`cost_of`; the least is taken.
        row: the node.
        victims: who would have to go, most important first; at least one.
        violations: how many of them beyond what their disruption budgets allow.
        budgets: keys of the budgets that were looked at.
    """

    cost: tuple[int, int, int, int, float]
    row: int
    victims: tuple[PodInfo, ...]
    violations: int
    budgets: frozenset[str] = frozenset()


def cost_of(victims: Sequence[PodInfo], violations: int) -> tuple[int, int, int, int, float]:
    """What it costs to let these pods go, most important first.

    In this order: fewest violated budgets, lowest priority of the highest victim, lowest sum of
    priorities, fewest victims, latest start among the victims of highest priority.
    """
    highest = victims[0].priority
    earliest = min(started(v) for v in victims if v.priority == highest)
    total = sum(v.priority + _SHIFT for v in victims)
    return violations, highest, total, len(victims), -earliest


def importance(pod: PodInfo) -> tuple[int, float, str]:
    """Sorts the most important first: by priority, then who runs longer, then by name."""
    return -pod.priority, started(pod), pod.key


def started(pod: PodInfo) -> float:
    """Wall seconds when a pod was started; infinite for one that was not yet."""
    start = pod.pod.status.start_time
    return start.timestamp() if start is not None else math.inf


def is_terminating(pod: PodInfo) -> bool:
    """Whether a pod is being deleted."""
    return pod.pod.metadata.deletion_timestamp is not None


_cost = itemgetter(0)


def cheapest(candidates: Sequence[Candidate]) -> Candidate:
    """The candidate of least cost, the first of equals."""
    return min(candidates, key=_cost)
