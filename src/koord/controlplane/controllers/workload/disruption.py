# SPDX-License-Identifier: Apache-2.0
"""PodDisruptionBudget: how many of its pods may go."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.controllers.base import conditions, pods
from koord.controlplane.controllers.base.objects import Owner, controller_of, scaled, seconds_of
from koord.controlplane.controllers.base.plans import ObjectEvent, Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.pod import Pod

# How long the word of an eviction counts before the pod is expected to be marked for deletion.
DELETION_TIMEOUT_SECONDS = 120.0
_CONDITION = "DisruptionAllowed"


def plan(
    budget: Owner, selected: Sequence[Pod], scales: Mapping[str, tuple[str, int]], now: float
) -> Plan:
    """What a budget's status should be.

    Args:
        budget: the PodDisruptionBudget.
        selected: the pods it selects, finished ones included.
        scales: by uid of a pod's controller: the uid of the workload at the top (the Deployment of
            a ReplicaSet) and its size.
        now: wall seconds.
    """
    result = Plan()
    disrupted = _disrupted(budget, selected, now)
    healthy = sum(
        pods.is_ready(pod)
        for pod in selected
        if pod.metadata.deletion_timestamp is None and pod.metadata.name not in disrupted
    )
    try:
        expected, desired = _expected(budget, selected, scales)
    except LookupError as error:
        _fail_safe(result, budget, str(error.args[0]), now)
        return result
    allowed = max(0, healthy - desired) if expected > 0 else 0
    reason = "SufficientPods" if allowed else "InsufficientPods"
    new = conditions.condition(_CONDITION, bool(allowed), reason, "")
    new["observedGeneration"] = budget.metadata.generation
    result.status = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": expected,
        "disruptionsAllowed": allowed,
        "observedGeneration": budget.metadata.generation,
        "conditions": _renewed(budget, new, now),
    }
    if disrupted:
        result.status["disruptedPods"] = disrupted
        oldest = min(seconds_of(time) for time in disrupted.values())
        result.again(oldest + DELETION_TIMEOUT_SECONDS - now)
    if not selected:
        result.actions.append(ObjectEvent("NoPods", "No matching pods found"))
    return result


def _expected(
    budget: Owner, selected: Sequence[Pod], scales: Mapping[str, tuple[str, int]]
) -> tuple[int, int]:
    """How many pods there should be, and how many of them must be healthy."""
    most = budget.spec.get("maxUnavailable")
    least = budget.spec.get("minAvailable")
    if most is None and isinstance(least, int):
        return len(selected), least
    if most is None and least is None:
        return 0, 0
    total = _total(selected, scales)
    if most is not None:
        return total, max(0, total - scaled(most, total, True))
    return total, scaled(least, total, True)


def _total(selected: Sequence[Pod], scales: Mapping[str, tuple[str, int]]) -> int:
    """The sizes of all workloads that own a selected pod; pods without a controller count none."""
    sizes: dict[str, int] = {}
    for pod in selected:
        reference = controller_of(pod.metadata)
        if reference is None:
            continue
        if reference.uid not in scales:
            raise LookupError(f'found no controllers for pod "{pod.metadata.name}"')
        top, size = scales[reference.uid]
        sizes[top] = size
    return sum(sizes.values())


def _disrupted(budget: Owner, selected: Sequence[Pod], now: float) -> dict[str, str]:
    """Evicted pods that are not marked for deletion yet; after the timeout they count again."""
    names = {pod.metadata.name for pod in selected if pod.metadata.deletion_timestamp is None}
    known: dict[str, str] = budget.status.get("disruptedPods") or {}
    return {
        name: time
        for name, time in known.items()
        if name in names and seconds_of(time) + DELETION_TIMEOUT_SECONDS > now
    }


def _fail_safe(result: Plan, budget: Owner, why: str, now: float) -> None:
    """Allows nothing while the sizes are unknown."""
    new = conditions.condition(_CONDITION, False, "SyncFailed", why)
    new["observedGeneration"] = budget.metadata.generation
    known = _renewed(budget, new, now)
    result.status = {**budget.status, "disruptionsAllowed": 0, "conditions": known}
    said = f"Failed to calculate the number of expected pods: {why}"
    result.actions.append(ObjectEvent("CalculateExpectedPodCountFailed", said, "Warning"))


def _renewed(budget: Owner, new: Document, now: float) -> list[Document]:
    known = budget.status.get("conditions", [])
    old = conditions.find(known, new["type"])
    renewed = conditions.put(known, new, now)
    if old and old["status"] == new["status"]:
        # Only the transition time outlives a new generation or reason.
        kept = {**new, "lastTransitionTime": old["lastTransitionTime"]}
        renewed = [*conditions.without(known, new["type"]), kept]
    return renewed
