# SPDX-License-Identifier: Apache-2.0
"""Whether, why and in which order a pod may be evicted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.migration import DeleteOptions
from koord.api.protocol import annotation, keys
from koord.api.protocol.numbers import parse_int
from koord.api.wirestruct import WireStruct
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod

NEVER_EVICT = 2**31 - 1


class SoftEviction(WireStruct):
    """``scheduling.koordinator.sh/soft-eviction``: a request to the workload's operator."""

    timestamp: int | str | None = None
    delete_options: DeleteOptions | None = None
    initiator: str = ""
    reason: str = ""


def eviction_enabled(pod: Pod) -> bool:
    """Whether the pod agreed to be evicted by the node agent."""
    return pod.metadata.labels.get(keys.EVICTION_ENABLED) == "true"


def allows_eviction_by(pod: Pod, feature: str) -> bool:
    """Whether a feature of the node agent may evict the pod.

    All may without the annotation; none may if it is malformed, for that is the safe side.
    """
    try:
        allowed = annotation.read(pod, keys.EVICTION_POLICY, list[str])
    except KoordError:
        return False
    return allowed is None or feature in allowed


def eviction_priority(pod: Pod) -> int:
    """The rank in which the node agent evicts, lower first; 0 without the annotation.

    Raises:
        KoordError: no integer of 32 bits; readers that go on use 0.
    """
    text = pod.metadata.annotations.get(keys.EVICTION_PRIORITY)
    if text is None:
        return 0
    return parse_int(text, pod.title, annotation.field_of(keys.EVICTION_PRIORITY), bits=32)


def eviction_cost(pod: Pod) -> int:
    """The rank in which the descheduler moves pods, lower first; 0 without the key.

    The annotation counts before the label of the same key. ``NEVER_EVICT`` forbids eviction.

    Raises:
        KoordError: no integer of 32 bits, or with a plus sign or a leading zero.
    """
    field = annotation.field_of(keys.EVICTION_COST)
    text = pod.metadata.annotations.get(keys.EVICTION_COST)
    if text is None:
        field = f"labels[{keys.EVICTION_COST}]"
        text = pod.metadata.labels.get(keys.EVICTION_COST)
    if text is None:
        return 0
    # One spelling a number, so that equal costs are equal texts to those who compare those.
    if text != "0" and text[:1] not in tuple("-123456789"):
        expected = "an integer of 32 bits without a plus sign or leading zeros"
        raise KoordError(pod.title, field, text, expected)
    return parse_int(text, pod.title, field, bits=32)


def soft_eviction(pod: Pod) -> SoftEviction | None:
    """The request to the workload's operator; None without the annotation.

    Raises:
        KoordError: malformed.
    """
    return annotation.read(pod, keys.SOFT_EVICTION, SoftEviction)


def replacement_rules(pod: Pod) -> tuple[dict[str, str], set[str]]:
    """Resource names to map and to erase, from ``pod.koordinator.sh/replace-resources``.

    Items without exactly one colon are skipped.
    """
    mapping: dict[str, str] = {}
    erase: set[str] = set()
    for item in pod.metadata.annotations.get(keys.REPLACE_RESOURCES, "").split(","):
        parts = [part.strip() for part in item.split(":")]
        if len(parts) != 2:
            continue
        if parts[1]:
            mapping[parts[0]] = parts[1]
        else:
            erase.add(parts[0])
    return mapping, erase
