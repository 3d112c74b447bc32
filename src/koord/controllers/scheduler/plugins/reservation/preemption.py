# SPDX-License-Identifier: Apache-2.0
"""Whom pods and Reservations may preempt with ``enablePreemption``.

Rule: docs/reference/reservations.md#reservations-and-preemption.

In a dry run victims really leave the node table and the reservation they sit in, so what becomes
free, for whom, needs no rule of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol.priority import is_preemptible
from koord.controllers.scheduler.plugins.reservation.matched_reservation import PLUGIN
from koord.controllers.scheduler.preemption.evaluator import PreemptionEvaluator
from koord.controllers.scheduler.preemption.victims import VictimPolicy

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.handle import Handle


class ReservationVictimPolicy(VictimPolicy):
    """Pods of lower priority that may be preempted; reservations never are."""

    def may_preempt(self, pod: PodInfo, victim: PodInfo) -> bool:
        """Whether one pod may make another go."""
        return is_preemptible(victim.pod) and super().may_preempt(pod, victim)


def engine(args: Any, handle: Handle) -> PreemptionEvaluator:
    """Looks at as many nodes as the plugin's arguments say."""

    def most(nodes: int) -> int:
        percentage = nodes * int(args.min_candidate_nodes_percentage) // 100
        return min(nodes, max(percentage, int(args.min_candidate_nodes_absolute)))

    return PreemptionEvaluator(PLUGIN, handle, ReservationVictimPolicy(), most)
