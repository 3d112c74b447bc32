# SPDX-License-Identifier: Apache-2.0
"""Conditions of pods, read and set in one way (Kubernetes API conventions, "Typical status")."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.timestamps import seconds_text

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod, PodCondition

DISRUPTION_TARGET = "DisruptionTarget"
BY_SCHEDULER = "PreemptionByScheduler"


def find(pod: Pod, kind: str) -> PodCondition | None:
    """The condition of a type."""
    for each in pod.status.conditions:
        if each.type == kind:
            return each
    return None


def change(
    pod: Pod, kind: str, status: str, reason: str, message: str, now_seconds: float
) -> dict[str, Any] | None:
    """What a strategic merge patch has to say to set a condition; None where it stands already.

    Args:
        pod: as it is.
        kind: the condition's type.
        status: ``True``, ``False`` or ``Unknown``.
        reason: one word for machines.
        message: for people.
        now_seconds: wall time; the time of transition moves only when the status changes.
    """
    known = find(pod, kind)
    if known is not None and (known.status, known.reason, known.message) == (
        status, reason, message,
    ):  # fmt: skip
        return None
    wanted = {"type": kind, "status": status, "reason": reason, "message": message}
    if known is None or known.status != status:
        wanted["lastTransitionTime"] = seconds_text(now_seconds)
    return wanted


def became_true(pod: Pod, kind: str) -> float | None:
    """Wall seconds when a condition became true; None if it is not, or does not say when."""
    # There is one of a type; kubelets write the one that schedulers look for last.
    for each in reversed(pod.status.conditions):
        if each.type == kind:
            since = each.last_transition_time if each.status == "True" else None
            return since.timestamp() if since is not None else None
    return None


def was_preempted(pod: Pod) -> bool:
    """Whether a pod is being deleted because a scheduler preempted it."""
    if pod.metadata.deletion_timestamp is None:
        return False
    known = find(pod, DISRUPTION_TARGET)
    return known is not None and (known.status, known.reason) == ("True", BY_SCHEDULER)
