# SPDX-License-Identifier: Apache-2.0
"""Quota that preemption is freeing for a pod, so that a lesser pod does not take it first.

A nomination keeps a node's room for the pod that others were preempted for; this keeps the quota.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.plugins.elasticquota.state.quota_ledger import (
        ChargedPod,
        QuotaLedger,
    )


class NominatedQuota:
    """Pods for which others were preempted, until they run or give up.

    Args:
        ledger: knows which of them hold a node.
    """

    def __init__(self, ledger: QuotaLedger) -> None:
        self._ledger = ledger
        self._pods: dict[str, PodInfo] = {}

    def __bool__(self) -> bool:
        return bool(self._pods)

    def make(self, pod: PodInfo) -> None:
        """Others are going for this pod."""
        self._pods[pod.uid] = pod

    def end(self, uid: str) -> bool:
        """The pod is bound, gone, or cannot use what was freed; True if there was a promise."""
        return self._pods.pop(uid, None) is not None

    def ahead(self, pod: PodInfo) -> Iterator[ChargedPod]:
        """Promised pods, no less important, that have yet to get what the same quota has."""
        own = self._ledger.claim(pod.shape).place
        for other in self._pods.values():
            entry = self._ledger.get(other.uid)
            if entry is None or entry.used or other.uid == pod.uid:
                continue
            if entry.claim.place == own and other.priority >= pod.priority:
                yield entry
