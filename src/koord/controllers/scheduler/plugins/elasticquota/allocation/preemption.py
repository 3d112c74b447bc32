# SPDX-License-Identifier: Apache-2.0
"""Whom a pod may take to get room within its quota: its own quota's lesser pods, and on demand
what others borrowed.

Rule: docs/reference/quota-scheduling.md#preemption. With *reclaim* a pod also takes pods of other
quotas of its tree that use more than their runtime of what it asks for, whatever their priority:
those that revocation would take, since what they hold is only borrowed. Either way the pod itself
must then be within its quota, which the engine asks in every what-if.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING

from koord.controllers.scheduler.plugins.elasticquota.allocation.revocation import (
    RevocablePod,
    exceeds,
    revoked,
)
from koord.controllers.scheduler.plugins.elasticquota.objects.pod_request import reading
from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import GroupKey
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import (
    stands_for_reservation,
)
from koord.controllers.scheduler.pod_conditions import was_preempted
from koord.controllers.scheduler.preemption.victims import (
    VictimPolicy,
    is_terminating,
)
from koord.kernels.quota import DEFAULT, ROOT, SYSTEM

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.accounts import Accounts
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import (
        ChargedPod,
        QuotaLedger,
    )
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import QuotaTrees


class QuotaVictimPolicy(VictimPolicy):
    """Whom a pod may preempt to get room within its quota.

    Its own quota's pods of lower priority; with *reclaim* what pods of other quotas hold beyond
    their runtime too, whatever their priority.

    Args:
        groups: the trees.
        ledger: whose pods.
        accounts: who counts where.
        spare_default: pods of the default group are never taken
            (``disableDefaultQuotaPreemption``).
        reclaim: take what others borrowed, too (``enableReclaim``).
    """

    def __init__(
        self,
        groups: QuotaTrees,
        ledger: QuotaLedger,
        accounts: Accounts,
        *,
        spare_default: bool = True,
        reclaim: bool = False,
    ) -> None:
        self._groups = groups
        self._ledger = ledger
        self._accounts = accounts
        self._spare_default = spare_default
        self._reclaim = reclaim
        self._borrowed: frozenset[str] = frozenset()

    def may_preempt(self, pod: PodInfo, victim: PodInfo) -> bool:
        """Whether a pod may take another; of borrowers, as of the last call of :meth:`rows`."""
        if self._is_spared(victim):
            return False
        if pod.priority > victim.priority and self._place(victim) == self._place(pod):
            return True
        return victim.uid in self._borrowed

    def waits_for(self, pod: PodInfo, other: PodInfo) -> bool:
        """For a lesser pod of its quota that is being deleted, whoever deletes it.

        With ``enableReclaim`` also for what was borrowed, once a scheduler has preempted it.
        """
        if not is_terminating(other):
            return False
        if other.priority < pod.priority and self._place(other) == self._place(pod):
            return True
        return self._reclaim and was_preempted(other.pod) and not self._is_spared(other)

    def key(self, pod: PodInfo) -> Hashable:
        """Nothing can be kept where borrowers go: who they are follows from everybody's use."""
        return None if self._reclaim else (pod.priority, self._place(pod), self._groups.revision)

    def spares_all(self, pod: PodInfo, accounts: Accounts) -> bool:
        """Whether all in use is of no lower priority, and nobody's borrowings are reclaimed."""
        return not self._reclaim and super().spares_all(pod, accounts)

    def rows(self, pod: PodInfo) -> set[int]:
        """The rows that hold a pod which might be taken: found from quotas, not from nodes."""
        place = self._place(pod)
        if place is None:
            return set()
        if place.group == DEFAULT and self._spare_default and not self._reclaim:
            self._borrowed = frozenset()
            return set()
        chosen: list[ChargedPod] = []
        if self._ledger.holds_lesser(place.group, pod.priority):
            chosen += self._ledger.pods(place.group)
        self._borrowed = frozenset()
        if self._reclaim:
            found = list(self._borrowers(pod, place))
            self._borrowed = frozenset(entry.pod.uid for entry in found)
            chosen += found
        held = [self._accounts.get(entry.pod.uid) for entry in chosen]
        return {v.row for v in held if v is not None and self.may_preempt(pod, v)}

    def _is_spared(self, victim: PodInfo) -> bool:
        read, place = reading(victim.shape), self._place(victim)
        if read.non_preemptible or place is None or stands_for_reservation(victim.pod):
            return True
        return self._spare_default and place.group == DEFAULT

    def _place(self, pod: PodInfo) -> GroupKey | None:
        entry = self._ledger.get(pod.uid)
        return (entry.claim if entry is not None else self._ledger.claim(pod.shape)).place

    def _borrowers(self, pod: PodInfo, own: GroupKey) -> Iterable[ChargedPod]:
        """The pods with which other groups exceed their share of what the pod asks for."""
        wanted = self._ledger.amounts(pod.shape).keys()
        tree = self._groups.tree(own.tree_id)
        for name in tree:
            if name in (ROOT, SYSTEM, DEFAULT, own.group):
                continue
            used = {key: n for key, n in tree.used(name).items() if key in wanted}
            runtime = tree.runtime(name)
            if not exceeds(used, runtime):
                continue
            entries = {entry.pod.uid: entry for entry in self._ledger.pods(name) if entry.used}
            held = [
                RevocablePod(entry.pod, entry.amounts.forth, not entry.reading.non_preemptible)
                for entry in entries.values()
            ]
            yield from (entries[each.uid] for each in revoked(used, runtime, held))
