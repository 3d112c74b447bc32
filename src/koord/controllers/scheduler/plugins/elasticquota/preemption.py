# SPDX-License-Identifier: Apache-2.0
"""Makes room for a pod by taking pods of its own quota, and on demand what others borrowed.

Spec: quota-gang, section 4.3 and item 4 of "Where to go beyond". A pod takes the room and the
quota of pods of its group that are less important. With *reclaim* it also takes pods of groups in
its tree that use more than their runtime quota, whatever their priority, as long as they do: what
they hold beyond it is only borrowed. Either way the pod itself must then be within its quota.

A dry run is real: victims leave the accounts, filters and quota are asked, all is put back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from koord.controllers.scheduler.plugins.elasticquota.budgets import violating
from koord.controllers.scheduler.plugins.elasticquota.groups import Place
from koord.controllers.scheduler.plugins.elasticquota.reading import reading
from koord.controllers.scheduler.plugins.elasticquota.revoke import exceeds, importance
from koord.kernels.quota import DEFAULT, ROOT, SYSTEM

if TYPE_CHECKING:
    from koord.api.kinds.workloads import PodDisruptionBudget
    from koord.controllers.cluster.nodes import NodeTable
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.accounts import Accounts
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.rejection import Rejection
    from koord.controllers.scheduler.plugins.elasticquota.admission import Admission
    from koord.controllers.scheduler.plugins.elasticquota.groups import QuotaGroups
    from koord.controllers.scheduler.plugins.elasticquota.ledger import Ledger

# Kubernetes adds this to priorities before it sums them, so that more victims weigh more.
_PRIORITY_OFFSET = 1 << 31


class Filters(Protocol):
    """All filters of the profile: :class:`koord.controllers.scheduler.framework.verdicts`."""

    def check(self, cycle: Cycle, row: int) -> Rejection | None:
        """The first refusal of a row as it is now, None if the pod may go there."""
        ...


class Plan(NamedTuple):
    """Who goes so that a pod fits on a row.

    Attributes:
        row: where.
        victims: the most important first.
        violations: how many of them a disruption budget protects.
    """

    row: int
    victims: tuple[PodInfo, ...]
    violations: int


class QuotaPreemption:
    """See the head of this file.

    Args:
        groups: the trees.
        ledger: whose pods.
        admission: whether a pod is within its quota.
        accounts: who counts where.
        spare_default: pods of the default group are never taken
            (``disableDefaultQuotaPreemption``).
        reclaim: take what others borrowed, too.
        budgets: the disruption budgets there are.
    """

    def __init__(
        self,
        groups: QuotaGroups,
        ledger: Ledger,
        admission: Admission,
        accounts: Accounts,
        *,
        spare_default: bool = True,
        reclaim: bool = False,
        budgets: Callable[[], Iterable[PodDisruptionBudget]] = tuple,
    ) -> None:
        self._groups = groups
        self._ledger = ledger
        self._admission = admission
        self._accounts = accounts
        self._spare_default = spare_default
        self._reclaim = reclaim
        self._budgets = budgets

    @property
    def _table(self) -> NodeTable:
        return self._accounts.table

    def eligible(self, pod: PodInfo, nominated_row: int | None = None) -> bool:
        """Whether a pod may take others now.

        Not if it never preempts, or while a pod that it took is still leaving the node that it was
        promised.

        Args:
            pod: who asks.
            nominated_row: that node, None if there is none or the pod can no longer go there.
        """
        if pod.pod.spec.preemption_policy == "Never":
            return False
        there = self._table.pods[nominated_row] if nominated_row is not None else {}
        return not any(
            other.pod.metadata.deletion_timestamp is not None and self._own_lesser(pod, other)
            for other in there.values()
        )

    def allows(self, pod: PodInfo, victim: PodInfo) -> bool:
        """Whether a pod may take another as things stand, victims taken before it being gone."""
        read = reading(victim.shape)
        if read.non_preemptible or read.reserves or victim.uid == pod.uid:
            return False
        place = self._place(victim)
        if place is None or (self._spare_default and place.group == DEFAULT):
            return False
        if place == self._place(pod):
            return pod.priority > victim.priority
        return self._reclaim and self._borrows(place, pod, victim)

    def rows(self, pod: PodInfo) -> list[int]:
        """The rows that hold pods which might be taken, ascending; the cheap first look."""
        place = self._place(pod)
        if place is None:
            return []
        places = [place, *self._over_share(place)] if self._reclaim else [place]
        found = set()
        for each in places:
            for entry in self._ledger.pods(each.group):
                held = self._accounts.get(entry.pod.uid)
                if held is not None and self.allows(pod, held):
                    found.add(held.row)
        return sorted(found)

    def plan(self, cycle: Cycle, filters: Filters, rows: Sequence[int]) -> Plan | None:
        """The best plan over some rows, None if taking pods helps on none of them.

        By Kubernetes' order: fewest broken budgets; the lowest highest priority; the least sum of
        priorities; fewest victims; whose most important victims started last; the node's name.
        """
        plans = [self.plan_row(cycle, filters, row) for row in rows]
        found = [plan for plan in plans if plan is not None]
        return min(found, key=self._cost, default=None)

    def plan_row(self, cycle: Cycle, filters: Filters, row: int) -> Plan | None:
        """Who goes from one row, None if taking pods does not help there."""
        pod = cycle.pod
        with self._accounts.what_if():
            taken = self._take_all(pod, row)
            if not taken or not self._fits(cycle, filters, row):
                return None
            order = sorted(taken, key=importance)
            protected = violating(order, self._budgets())
            # Those that a budget protects are the first to be spared.
            order.sort(key=lambda victim: victim.uid not in protected)
            victims = [v for v in order if not self._spare(cycle, filters, row, v)]
        violations = sum(victim.uid in protected for victim in victims)
        return Plan(row, tuple(sorted(victims, key=importance)), violations) if victims else None

    def _take_all(self, pod: PodInfo, row: int) -> list[PodInfo]:
        """Drops every pod that may be taken, the least important first."""
        taken = []
        for other in sorted(self._table.pods[row].values(), key=importance, reverse=True):
            if self.allows(pod, other):
                self._accounts.drop(other)
                taken.append(other)
        return taken

    def _spare(self, cycle: Cycle, filters: Filters, row: int, victim: PodInfo) -> bool:
        """Puts a victim back, and takes it again if there is no room for it beside the pod."""
        self._accounts.add(row, victim)
        if self._fits(cycle, filters, row):
            return True
        self._accounts.drop(victim)
        return False

    def _fits(self, cycle: Cycle, filters: Filters, row: int) -> bool:
        return self._admission.check(cycle.pod) is None and filters.check(cycle, row) is None

    def _place(self, pod: PodInfo) -> Place | None:
        return self._ledger.claim(pod.shape).place

    def _own_lesser(self, pod: PodInfo, other: PodInfo) -> bool:
        return self._place(pod) == self._place(other) and other.priority < pod.priority

    def _borrows(self, place: Place, pod: PodInfo, victim: PodInfo) -> bool:
        """Whether the victim's group uses more than its share of what both pods hold."""
        own = self._place(pod)
        if own is None or own.tree_id != place.tree_id or place.group in (SYSTEM, DEFAULT):
            return False
        tree = self._groups.tree(place.tree_id)
        wanted = self._ledger.amounts(pod.shape).keys() & self._ledger.amounts(victim.shape).keys()
        used = {name: n for name, n in tree.used(place.group).items() if name in wanted}
        return exceeds(used, tree.runtime(place.group))

    def _over_share(self, own: Place) -> list[Place]:
        tree = self._groups.tree(own.tree_id)
        others = [name for name in tree if name not in (ROOT, SYSTEM, DEFAULT, own.group)]
        over = [name for name in others if exceeds(tree.used(name), tree.runtime(name))]
        return [Place(own.tree_id, name) for name in over]

    def _cost(self, plan: Plan) -> tuple[int, int, int, int, float, str]:
        highest = max(victim.priority for victim in plan.victims)
        first = [v.pod.status.start_time for v in plan.victims if v.priority == highest]
        starts = [start.timestamp() for start in first if start is not None]
        return (
            plan.violations,
            highest,
            sum(victim.priority + _PRIORITY_OFFSET for victim in plan.victims),
            len(plan.victims),
            -min(starts, default=float("inf")),
            self._table.name(plan.row),
        )
