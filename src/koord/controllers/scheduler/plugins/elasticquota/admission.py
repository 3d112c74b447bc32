# SPDX-License-Identifier: Apache-2.0
"""Whether a pod, or a job's pods together, may use what they ask for now.

Rule: docs/reference/quota-scheduling.md#admission. Held against are the runtime quota of the pod's
group (``max`` where runtime quotas are off), its ``min`` for a pod that must not be preempted, and
on demand the runtimes of all groups above; each in the resources that the pod asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.scheduler.plugins.elasticquota.allocation.nominated_quota import (
    NominatedQuota,
)
from koord.controllers.scheduler.plugins.elasticquota.objects.pod_request import reading
from koord.kernels.quota import Decision, Verdict

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.elasticquota.hooks import QuotaHook
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import (
        QuotaClaim,
        QuotaLedger,
    )
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import (
        GroupKey,
        QuotaTrees,
    )


class AdmissionRejection(NamedTuple):
    """Why a pod is not admitted.

    Attributes:
        reason: the message.
        unresolvable: no pod that goes will help: an object must change.
        decision: the figures; None where the pod has no group.
    """

    reason: str
    unresolvable: bool = False
    decision: Decision | None = None


class RuntimeQuotaAdmission:
    """Decides whether a pod, or a job's pods together, may use what they ask for by their quotas.

    Changes nothing that can be seen afterwards.

    Args:
        groups: the trees.
        ledger: whose pods.
        hooks: are asked about pods that are within their quota.
    """

    def __init__(
        self, groups: QuotaTrees, ledger: QuotaLedger, hooks: Sequence[QuotaHook] = ()
    ) -> None:
        self._groups = groups
        self._ledger = ledger
        self.hooks = list(hooks)
        self.promises = NominatedQuota(ledger)
        # Refused pods come again and again, and a message costs more than the check.
        self._refusals: dict[tuple[GroupKey, int, bool], tuple[object, AdmissionRejection]] = {}
        self._version = -1

    def check(self, pod: PodInfo) -> AdmissionRejection | None:
        """None if the pod may use what it asks for.

        What a pod asks for that the API does not have (one of a what-if, a Reservation's) counts
        for the answer as if it had it, since a quota's runtime follows from its requests.
        """
        entry = self._ledger.get(pod.uid)
        if entry is None or not entry.requested:
            return self._check_unknown(pod)
        if entry.reading.problem is not None:
            return AdmissionRejection(str(entry.reading.problem), unresolvable=True)
        place = entry.claim.place
        if place is None:
            return _unclaimed(entry.claim)
        asked, strict = entry.amounts.forth, entry.reading.non_preemptible
        known = self._refusals.get((place, id(asked), strict))
        if known is not None and self._version == self._groups.version:
            return known[1]
        tree = self._groups.tree(place.tree_id)
        if not tree.fits(place.group, asked, non_preemptible=strict):
            return self._refusal(place, asked, strict)
        if self.promises:
            refusal = self._check_beside_promised(place, pod, asked, strict)
            if refusal is not None:
                return refusal
        return self._ask_hooks(place, pod) if self.hooks else None

    def _check_beside_promised(
        self, place: GroupKey, pod: PodInfo, request: dict[str, int], strict: bool
    ) -> AdmissionRejection | None:
        tree, group = self._groups.tree(place.tree_id), place.group
        ahead = [(entry.amounts, entry.reading) for entry in self.promises.ahead(pod)]
        for amounts, read in ahead:
            tree.add_used(group, amounts.forth, non_preemptible=read.non_preemptible)
        decision = tree.admit(group, request, non_preemptible=strict)
        for amounts, read in ahead:
            tree.add_used(group, amounts.back, non_preemptible=read.non_preemptible)
        return None if decision else _refused(decision)

    def _check_unknown(self, pod: PodInfo) -> AdmissionRejection | None:
        read, claim = reading(pod.shape), self._ledger.claim(pod.shape)
        if read.problem is not None:
            return AdmissionRejection(str(read.problem), unresolvable=True)
        if claim.place is None:
            return _unclaimed(claim)
        asked, strict = self._ledger.amounts(pod.shape), read.non_preemptible
        tree, group = self._groups.tree(claim.place.tree_id), claim.place.group
        tree.add_request(group, asked, non_preemptible=strict)
        decision = tree.admit(group, asked, non_preemptible=strict)
        back = {name: -amount for name, amount in asked.items()}
        tree.add_request(group, back, non_preemptible=strict)
        return self._ask_hooks(claim.place, pod) if decision else _refused(decision)

    def _ask_hooks(self, place: GroupKey, pod: PodInfo) -> AdmissionRejection | None:
        for hook in self.hooks:
            said = hook.check_pod(place.group, pod)
            if said:
                return AdmissionRejection(f"CheckPod failed for hook plugin {hook.key}, {said}")
        return None

    def check_all(self, pods: Sequence[PodInfo]) -> tuple[PodInfo, AdmissionRejection] | None:
        """The first of a job's pods that may not run once those before it do, None if all may.

        Pods that hold a node already are passed over; pods that the API does not have yet count as
        if it had them, so that the job's own requests raise its quota's runtime.
        """
        new = [pod for pod in _distinct(pods) if not self._holds(pod)]
        unknown = [pod for pod in new if self._ledger.get(pod.uid) is None]
        placed: list[PodInfo] = []
        for pod in unknown:
            self._ledger.list_pod(pod)
        try:
            for pod in new:
                refusal = self.check(pod)
                if refusal is not None:
                    return pod, refusal
                self._ledger.place_pod(pod)
                placed.append(pod)
            return None
        finally:
            for pod in reversed(placed):
                self._ledger.withdraw(pod)
            for pod in unknown:
                self._ledger.unlist(pod.uid)

    def _holds(self, pod: PodInfo) -> bool:
        entry = self._ledger.get(pod.uid)
        return entry is not None and (entry.placed or entry.bound)

    def _refusal(
        self, place: GroupKey, request: dict[str, int], strict: bool
    ) -> AdmissionRejection:
        if self._version != self._groups.version:
            self._version = self._groups.version
            self._refusals.clear()
        tree = self._groups.tree(place.tree_id)
        refusal = _refused(tree.admit(place.group, request, non_preemptible=strict))
        # Amounts are one object for all pods of a shape; kept here, so that its id stays its own.
        self._refusals[place, id(request), strict] = request, refusal
        return refusal


def _refused(decision: Decision) -> AdmissionRejection:
    return AdmissionRejection(decision.reason, decision.verdict is Verdict.DETACHED, decision)


def _unclaimed(claim: QuotaClaim) -> AdmissionRejection | None:
    if claim.problem is None:
        return None
    return AdmissionRejection(str(claim.problem), unresolvable=True)


def _distinct(pods: Iterable[PodInfo]) -> list[PodInfo]:
    return list({pod.uid: pod for pod in pods}.values())
