# SPDX-License-Identifier: Apache-2.0
"""What pods ask for and use of their quotas, counted anew while pods come and go.

A group may have all pods of a cluster, more than may be added up at once. So they are added up some
at a time, and the ledger tells of charges meanwhile: those of pods that were added up already, or
came later, change the sums; all others are seen when their turn comes.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.framework.recounting import in_slices
from koord.controllers.scheduler.plugins.elasticquota.objects.pod_request import reading
from koord.controllers.scheduler.plugins.elasticquota.state.group_usage import group_keys
from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import ENDED, owed
from koord.kernels.quota import Figure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.cluster.pods import PodShape
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.controllers.scheduler.plugins.elasticquota.objects.pod_request import SignedCharge
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import (
        ChargedPod,
        QuotaClaim,
        QuotaLedger,
    )
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_trees import (
        GroupKey,
        QuotaTrees,
    )

# Pods that are added up at once: fewer than elsewhere, as each takes longer.
_SLICE = 20
# By what is charged: request or use, of all pods or of those alone that may not be preempted.
_FIGURES = {
    (0, False): Figure.SELF_REQUEST,
    (0, True): Figure.SELF_NON_PREEMPTIBLE_REQUEST,
    (1, False): Figure.SELF_USED,
    (1, True): Figure.SELF_NON_PREEMPTIBLE_USED,
}


def recount(groups: QuotaTrees, ledger: QuotaLedger, handle: Handle) -> Iterator[str | None]:
    """See :meth:`koord.controllers.scheduler.framework.recounting.Recounting.recount`.

    The names are those of groups: pods that are there are known to be, and to hold a node; and the
    charges of each group are those of its pods.
    """
    yield from _known(groups, ledger, handle)
    for place in list(group_keys(groups)):
        if groups.place(place.group) == place:
            yield from _Sums(groups, ledger, handle, place).steps()


def _known(groups: QuotaTrees, ledger: QuotaLedger, handle: Handle) -> Iterator[str | None]:
    """Whether the ledger knows what the API and the accounts say of each pod."""
    pods, accounts = handle.view(Pod), handle.accounts

    def listed(key: str) -> str | None:
        pod = pods.get(key)
        if pod is None:
            return None
        entry = ledger.get(pod.metadata.uid)
        facts = (entry.listed, entry.bound) if entry is not None else (False, False)
        alive = pod.status.phase not in ENDED
        if facts == (alive, alive and bool(pod.spec.node_name)):
            return None
        return _group(groups, handle.shapes.info(pod).shape)

    def placed(uid: str) -> str | None:
        pod, entry = accounts.get(uid), ledger.get(uid)
        if pod is None or (entry is not None and entry.placed):
            return None
        return _group(groups, pod.shape)

    yield from in_slices([key for key, _ in pods.items()], listed)
    yield from in_slices(list(accounts.pods()), placed)


def _group(groups: QuotaTrees, shape: PodShape) -> str | None:
    """Whose quota pods of a shape use; None for nobody's."""
    read = reading(shape)
    place = groups.claimed(read.label, read.namespace).place
    return place.group if place is not None else None


class _Sums:
    """The charges of one group's own pods, added up anew."""

    def __init__(
        self, groups: QuotaTrees, ledger: QuotaLedger, handle: Handle, place: GroupKey
    ) -> None:
        self._groups = groups
        self._ledger = ledger
        self._place = place
        self._accounts = handle.accounts
        self._pods = handle.view(Pod)
        # By amounts, and whether pods may not be preempted: how many ask for and use them.
        self._counts: dict[tuple[SignedCharge, bool], list[int]] = {}
        # Whose turn has not come yet: claims, and pods of the claim whose turn it is.
        self._ahead: dict[QuotaClaim, None] = {}
        self._claim: QuotaClaim | None = None
        self._pods_ahead: dict[str, ChargedPod] = {}

    def steps(self) -> Iterator[str | None]:
        """Some pods a step; the last step compares."""
        self._ahead = dict.fromkeys(self._ledger.claims(self._place.group))
        self._ledger.recounts.append(self._charged)
        try:
            yield from in_slices(self._claimed_pods(), self._look, _SLICE)
            yield self._place.group if self._differ() else None
        finally:
            self._ledger.recounts.remove(self._charged)

    def _claimed_pods(self) -> Iterator[tuple[QuotaClaim, str]]:
        """Claims and their pods; of each claim first itself, with no pod."""
        while self._ahead:
            claim = self._claim = self._ahead.popitem()[0]
            self._pods_ahead = claim.pods.copy()
            yield claim, ""
            while self._pods_ahead:
                yield claim, self._pods_ahead.popitem()[0]

    def _look(self, turn: tuple[QuotaClaim, str]) -> str | None:
        claim, uid = turn
        if not uid:
            found = self._groups.claimed(claim.label, claim.namespace).place
            return self._place.group if found != claim.place else None
        entry = self._ledger.get(uid)
        # One that has another claim by now is counted there.
        if entry is None or entry.claim is not claim or claim.place != self._place:
            return None
        self._add(entry, self._ledger.charged(entry), *owed(entry))
        return None if self._is_true(entry) else self._place.group

    def _is_true(self, entry: ChargedPod) -> bool:
        """Whether what is known of a pod is so: what it asks for, and that it is there."""
        pod = entry.pod
        if entry.placed and not self._accounts.holds(pod.uid):
            return False
        if entry.listed:
            there = self._pods.get(pod.key)
            if there is None or there.metadata.uid != pod.uid:
                return False
        return entry.reading is self._ledger.reading_of(entry, pod.shape)

    def _charged(self, entry: ChargedPod, group: str, requested: bool, used: bool) -> None:
        claim = entry.claim
        ahead = claim in self._ahead or (claim is self._claim and entry.pod.uid in self._pods_ahead)
        if group == self._place.group and not ahead:
            turns = requested - entry.requested, used - entry.used
            self._add(entry, entry.amounts, *turns)

    def _add(self, entry: ChargedPod, amounts: SignedCharge, requested: int, used: int) -> None:
        counts = self._counts.setdefault((amounts, entry.reading.non_preemptible), [0, 0])
        counts[0] += requested
        counts[1] += used

    def _sum(self, which: int, only_strict: bool) -> dict[str, int]:
        sums: Counter[str] = Counter()
        for (amounts, strict), counts in self._counts.items():
            if counts[which] and (strict or not only_strict):
                for name, amount in amounts.forth.items():
                    sums[name] += counts[which] * amount
        return sums

    def _differ(self) -> bool:
        """Whether the tree has other sums; not if the group went meanwhile."""
        if self._groups.place(self._place.group) != self._place:
            return False
        tree = self._groups.tree(self._place.tree_id)
        return any(
            _nonzero(self._sum(*key)) != _nonzero(tree.figure(self._place.group, figure))
            for key, figure in _FIGURES.items()
        )


def _nonzero(amounts: dict[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}
