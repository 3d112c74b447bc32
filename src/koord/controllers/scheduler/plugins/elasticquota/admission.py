# SPDX-License-Identifier: Apache-2.0
"""Whether a pod, or a job's pods together, may use what they ask for now.

Spec: quota-gang, section 4.1. Held against are the runtime quota of the pod's group (``max`` where
runtime quotas are off), its ``min`` for a pod that must not be preempted, and on demand the
runtimes of all groups above; each in the resources that the pod asks for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.scheduler.plugins.elasticquota.reading import reading
from koord.kernels.quota import Decision, Verdict

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.elasticquota.groups import Place, QuotaGroups
    from koord.controllers.scheduler.plugins.elasticquota.hooks import QuotaHook
    from koord.controllers.scheduler.plugins.elasticquota.ledger import Claim, Ledger


class Refusal(NamedTuple):
    """Why a pod is not admitted.

    Attributes:
        reason: the message.
        unresolvable: no pod that goes will help: an object must change.
        decision: the figures; None where the pod has no group.
    """

    reason: str
    unresolvable: bool = False
    decision: Decision | None = None


class Admission:
    """See the head of this file. Changes nothing that can be seen afterwards.

    Args:
        groups: the trees.
        ledger: whose pods.
        hooks: are asked about pods that are within their quota.
    """

    def __init__(
        self, groups: QuotaGroups, ledger: Ledger, hooks: Sequence[QuotaHook] = ()
    ) -> None:
        self._groups = groups
        self._ledger = ledger
        self.hooks = list(hooks)
        # Refused pods come again and again, and a message costs more than the check.
        self._refusals: dict[tuple[Place, int, bool], tuple[object, Refusal]] = {}
        self._version = -1

    def check(self, pod: PodInfo) -> Refusal | None:
        """None if the pod may use what it asks for."""
        entry = self._ledger.get(pod.uid)
        if entry is not None:
            claim, read, asked = entry.claim, entry.reading, entry.amounts.forth
        else:
            claim, read = self._ledger.claim(pod.shape), reading(pod.shape)
            asked = self._ledger.amounts(pod.shape)
        if read.problem is not None:
            return Refusal(str(read.problem), unresolvable=True)
        if claim.place is None:
            return _unclaimed(claim)
        tree = self._groups.tree(claim.place.tree_id)
        if not tree.fits(claim.place.group, asked, non_preemptible=read.non_preemptible):
            return self._refusal(claim.place, asked, read.non_preemptible)
        for hook in self.hooks:
            said = hook.check_pod(claim.place.group, pod)
            if said:
                return Refusal(f"CheckPod failed for hook plugin {hook.key}, {said}")
        return None

    def check_all(self, pods: Sequence[PodInfo]) -> tuple[PodInfo, Refusal] | None:
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

    def _refusal(self, place: Place, asked: dict[str, int], strict: bool) -> Refusal:
        if self._version != self._groups.version:
            self._version = self._groups.version
            self._refusals.clear()
        # Amounts are one object for all pods of a shape; kept here, so that its id stays its own.
        key = place, id(asked), strict
        known = self._refusals.get(key)
        if known is not None:
            return known[1]
        tree = self._groups.tree(place.tree_id)
        decision = tree.admit(place.group, asked, non_preemptible=strict)
        refusal = Refusal(decision.reason, decision.verdict is Verdict.DETACHED, decision)
        self._refusals[key] = asked, refusal
        return refusal


def _unclaimed(claim: Claim) -> Refusal | None:
    if claim.problem is None:
        return None
    return Refusal(str(claim.problem), unresolvable=True)


def _distinct(pods: Iterable[PodInfo]) -> list[PodInfo]:
    return list({pod.uid: pod for pod in pods}.values())
