# SPDX-License-Identifier: Apache-2.0
"""Pods that nobody looks after any more: of vanished nodes, never started, or ended long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.objects import POD, oldest_first
from koord.controlplane.controllers.base.plans import delete, patch
from koord.controlplane.controllers.node.node_lifecycle import disrupted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from koord.api.kinds.pod import Pod
    from koord.controlplane.controllers.base.plans import Action

# Defaults of kube-controller-manager.
QUARANTINE_SECONDS = 40.0
CHECK_SECONDS = 20.0
FINISHED_LIMIT = 12_500


def plan(
    all_pods: Iterable[Pod], gone_nodes: Collection[str], now: float, limit: int = FINISHED_LIMIT
) -> list[Action]:
    """The pods to remove at once, without grace.

    Args:
        all_pods: every pod.
        gone_nodes: names that pods point to and that have been no node for a while.
        now: wall seconds.
        limit: finished pods that may stay; 0 for no limit.
    """
    actions: list[Action] = []
    ended: list[Pod] = []
    for pod in all_pods:
        if pod.spec.node_name in gone_nodes:
            said = "PodGC: node no longer exists"
            status = {} if pods.is_finished(pod) else {"phase": "Failed"}
            actions.append(disrupted(pod, "DeletionByPodGC", said, now, **status))
            actions.append(delete(POD, pod, grace_period_seconds=0))
        elif pod.metadata.deletion_timestamp is not None and not pod.spec.node_name:
            actions += _failed(pod)
        elif pods.is_finished(pod):
            ended.append(pod)
    if limit and len(ended) > limit:
        ended = oldest_first(ended)
        ended.sort(key=lambda pod: pod.status.reason != "Evicted")
        for pod in ended[: len(ended) - limit]:
            actions += _failed(pod)
    return actions


def _failed(pod: Pod) -> list[Action]:
    removal = delete(POD, pod, grace_period_seconds=0)
    if pods.is_finished(pod):
        return [removal]
    body = {"status": {"phase": "Failed"}}
    return [patch(POD, pod, body, subresource="status", strategic=True), removal]
