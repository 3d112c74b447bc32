# SPDX-License-Identifier: Apache-2.0
"""Priority bands, the class of a pod, its sub-priority, and preemption switches."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import keys
from koord.api.protocol.numbers import parse_int
from koord.api.protocol.qos import QoSClass, qos_with_default

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.pod import Pod


class PriorityClass(StrEnum):
    """Koordinator's classes, in their order of enumeration; ``NONE`` is the absence of one."""

    PROD = "koord-prod"
    MID = "koord-mid"
    BATCH = "koord-batch"
    FREE = "koord-free"
    NONE = ""


class Band(NamedTuple):
    """Priorities from ``low`` to ``high``, both included.

    Args:
        low: the least priority of the class.
        high: the greatest.
        default: what a pod of the class has without a priority of its own.
        shipped: the value of the PriorityClass object that koord installs.
    """

    low: int
    high: int
    default: int
    shipped: int


# Deployments with priorities of their own replace these before anything else runs.
BANDS: dict[PriorityClass, Band] = {
    PriorityClass.PROD: Band(9000, 9999, 9500, 9000),
    PriorityClass.MID: Band(7000, 7999, 7500, 7000),
    PriorityClass.BATCH: Band(5000, 5999, 5500, 5000),
    PriorityClass.FREE: Band(3000, 3999, 3500, 3000),
}

# The class of a priority outside all bands.
OUTSIDE_BANDS = PriorityClass.NONE

PREEMPT_NEVER, PREEMPT_LOWER = "Never", "PreemptLowerPriority"

# Asked of every new shape: to look a member up in its class takes longer than all else.
_NONE = PriorityClass.NONE
_CLASS_OF_QOS = {
    QoSClass.SYSTEM: PriorityClass.PROD,
    QoSClass.LSE: PriorityClass.PROD,
    QoSClass.LSR: PriorityClass.PROD,
    QoSClass.LS: PriorityClass.PROD,
    QoSClass.BE: PriorityClass.BATCH,
}


def class_of_priority(priority: int | None) -> PriorityClass:
    """The class whose band holds a priority."""
    if priority is None:
        return _NONE
    for priority_class, band in BANDS.items():
        if band.low <= priority <= band.high:
            return priority_class
    return OUTSIDE_BANDS


def raw_class(labels: Mapping[str, str], priority: int | None) -> PriorityClass:
    """What is said explicitly: the label if there is one, valid or not, else the priority."""
    label = labels.get(keys.PRIORITY_CLASS)
    if label is None:
        return class_of_priority(priority)
    try:
        return PriorityClass(label)
    except ValueError:
        return PriorityClass.NONE


def class_with_default(pod: Pod) -> PriorityClass:
    """The raw class of a pod, or the one that its QoS class stands for."""
    explicit = raw_class(pod.metadata.labels, pod.spec.priority)
    if explicit is not _NONE:
        return explicit
    return _CLASS_OF_QOS.get(qos_with_default(pod), _NONE)


def priority_with_default(pod: Pod | None) -> int:
    """The pod's priority if set and not 0, else the default of its class; 0 without either."""
    if pod is None:
        return 0
    if pod.spec.priority:
        return pod.spec.priority
    band = BANDS.get(class_with_default(pod))
    return band.default if band else 0


def sub_priority(pod: Pod) -> int:
    """The rank within a class; 0 without the label.

    Raises:
        KoordError: no integer of 32 bits; readers that go on use 0.
    """
    text = pod.metadata.labels.get(keys.PRIORITY, "")
    if not text:
        return 0
    return parse_int(text, pod.title, f"labels[{keys.PRIORITY}]", bits=32, base_prefix=True)


def preemption_policy(pod: Pod) -> str:
    """``Never`` or ``PreemptLowerPriority``; ``""`` for an absent or unknown label."""
    text = pod.metadata.labels.get(keys.PREEMPTION_POLICY, "")
    return text if text in (PREEMPT_NEVER, PREEMPT_LOWER) else ""


def preemption_policy_with_default(pod: Pod) -> str:
    """As :func:`preemption_policy`, ``Never`` if unset."""
    return preemption_policy(pod) or PREEMPT_NEVER


def is_preemptible(pod: Pod) -> bool:
    """Whether others may preempt the pod; only ``disable-preemptible: "true"`` says no."""
    return pod.metadata.labels.get(keys.DISABLE_PREEMPTIBLE) != "true"
