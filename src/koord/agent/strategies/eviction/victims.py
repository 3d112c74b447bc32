# SPDX-License-Identifier: Apache-2.0
"""Who may be evicted, and in which order: pods to columns, and the order back to pods.

Rule: docs/reference/evictions.md#victims. Malformed annotations never make a pod a victim that
would not be one without them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.strategies import one_node
from koord.agent.strategies.eviction import victim_order
from koord.api.protocol import keys
from koord.api.protocol.eviction import allows_eviction_by, eviction_enabled, eviction_priority
from koord.api.protocol.numbers import parse_int
from koord.api.protocol.qos import QoSClass
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.agent.states.pod_state import PodState


def best_effort(pods: Iterable[PodState], feature: str) -> list[PodState]:
    """Pods labelled BE that run and let the feature evict them."""
    return [
        pod
        for pod in pods
        if pod.qos is QoSClass.BE and pod.active and allows_eviction_by(pod.pod, feature)
    ]


def up_to_priority(
    pods: Iterable[PodState], feature: str, threshold: int, measured: Mapping[str, float]
) -> list[PodState]:
    """Pods that run, agreed to be evicted, have at most a priority, and whose usage is known."""
    return [
        pod
        for pod in pods
        if pod.active
        and pod.priority <= threshold
        and pod.uid in measured
        and eviction_enabled(pod.pod)
        and allows_eviction_by(pod.pod, feature)
    ]


def in_priority_order(pods: Sequence[PodState], weight: Sequence[int]) -> list[PodState]:
    """By the annotation, the priority, its label, then the heavier first."""
    chosen = victim_order.by_priority(
        one_node.node_rows(len(pods)),
        one_node.column([annotated_priority(pod) for pod in pods]),
        one_node.column([pod.priority for pod in pods]),
        one_node.column([label_priority(pod) for pod in pods]),
        one_node.column(weight),
    )
    return [pods[at] for at in chosen.tolist()]


def in_share_order(
    pods: Sequence[PodState], used: Sequence[int], requested: Sequence[int]
) -> list[PodState]:
    """By priority, then the larger share of the request in use first."""
    priorities = one_node.column([own_priority(pod) for pod in pods])
    chosen = victim_order.by_share(
        one_node.node_rows(len(pods)), priorities, one_node.column(used), one_node.column(requested)
    )
    return [pods[at] for at in chosen.tolist()]


def own_priority(pod: PodState) -> int:
    """What orders best-effort pods: ``spec.priority``, also 0; its default where it is absent."""
    priority = pod.pod.spec.priority
    return pod.priority if priority is None else priority


def annotated_priority(pod: PodState) -> int:
    """The eviction priority of the annotation; 0 where it is absent or malformed."""
    try:
        return eviction_priority(pod.pod)
    except KoordError:
        return 0


def label_priority(pod: PodState) -> int:
    """The priority of the label; the pod's own where it is absent or malformed."""
    text = pod.pod.metadata.labels.get(keys.PRIORITY)
    if text is None:
        return pod.priority
    try:
        return parse_int(text, pod.pod.title, f"labels[{keys.PRIORITY}]")
    except KoordError:
        return pod.priority
