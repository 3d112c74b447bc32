# SPDX-License-Identifier: Apache-2.0
"""Which pod goes first. Keys for ``sorted``, whose order of equal pods is that of the input.

Rules: docs/reference/descheduling.md#order-by-priority, docs/reference/descheduling.md#pod-sorter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from koord.api.protocol import eviction, keys
from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.api.protocol.qos import KubernetesQoS, QoSClass, kubernetes_qos, qos_with_default
from koord.base.errors import KoordError
from koord.controllers.descheduler.predicates.pod_traits import prefers_no_eviction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from koord.api.kinds.pod import Pod

_KUBERNETES_QOS: dict[str, int] = {
    KubernetesQoS.BEST_EFFORT: 1, KubernetesQoS.BURSTABLE: 2, KubernetesQoS.GUARANTEED: 3,
}  # fmt: skip
_CLASSES = {
    PriorityClass.FREE: 1, PriorityClass.BATCH: 2, PriorityClass.MID: 3, PriorityClass.PROD: 4,
    PriorityClass.NONE: 5,
}  # fmt: skip
_QOS = {
    QoSClass.BE: 1, QoSClass.LS: 2, QoSClass.LSR: 3, QoSClass.LSE: 4, QoSClass.SYSTEM: 4,
    QoSClass.NONE: 5,
}  # fmt: skip
_COST = re.compile(r"0|-?[1-9][0-9]{0,9}")
_LEAST, _MOST = -(2**31), 2**31 - 1


def by_priority(pods: Iterable[Pod]) -> list[Pod]:
    """From those that may rather go: lower priority first (``SortLow``)."""
    return sorted(pods, key=_priority_key)


def by_age(pods: Iterable[Pod]) -> list[Pod]:
    """The oldest first; pods that do not say when they were made count as the oldest."""
    return sorted(pods, key=_created)


def sorter_key(pod: Pod) -> tuple[int, ...]:
    """The keys of the pod sorter that come before usage and age, ascending."""
    return (
        _CLASSES[class_with_default(pod)],
        pod.spec.priority or 0,
        _kubernetes_rank(pod),
        _QOS[qos_with_default(pod)],
        deletion_cost(pod),
        eviction_cost(pod),
    )


def by_sorter(
    pods: Iterable[Pod], usage_rank: Callable[[Pod], float] = lambda pod: 0.0
) -> list[Pod]:
    """In the order of the pod sorter: cheapest first, then by usage, then the newer first.

    Args:
        pods: in any order.
        usage_rank: of a pod, ascending.
    """
    return sorted(pods, key=lambda pod: (*sorter_key(pod), usage_rank(pod), -_created(pod)))


def deletion_cost(pod: Pod) -> int:
    """``pod-deletion-cost``; 0 without it, and for what is no plain int32."""
    text = pod.metadata.annotations.get(keys.POD_DELETION_COST, "")
    if not _COST.fullmatch(text):
        return 0
    number = int(text)
    return number if _LEAST <= number <= _MOST else 0


def eviction_cost(pod: Pod) -> int:
    """``eviction-cost``; 0 without it, and where it is no plain int32."""
    try:
        return eviction.eviction_cost(pod)
    except KoordError:
        return 0


def _created(pod: Pod) -> float:
    moment = pod.metadata.creation_timestamp
    return float("-inf") if moment is None else moment.timestamp()


def _kubernetes_rank(pod: Pod) -> int:
    return _KUBERNETES_QOS.get(kubernetes_qos(pod), 0)


def _priority_key(pod: Pod) -> tuple[bool, int, int, bool]:
    priority = pod.spec.priority
    return priority is not None, priority or 0, _kubernetes_rank(pod), prefers_no_eviction(pod)
