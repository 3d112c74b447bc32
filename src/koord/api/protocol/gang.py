# SPDX-License-Identifier: Apache-2.0
"""Gangs as pods and PodGroups describe them in labels and annotations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.duration import Duration
from koord.api.protocol import annotation, keys
from koord.api.protocol.numbers import parse_int
from koord.api.wirestruct import WireStruct
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object
    from koord.api.kinds.pod import Pod

STRICT, NON_STRICT = "Strict", "NonStrict"
ONLY_WAITING = "only-waiting"
WAITING_AND_RUNNING = "waiting-and-running"
ONCE_SATISFIED = "once-satisfied"
NO_INDEX = -1


class GatherRule(WireStruct):
    """Whether a gang must, or should, stay within one place of a network layer."""

    layer: str = ""
    strategy: str = ""
    pod_count_multiple: int = 0


class NetworkTopologySpec(WireStruct):
    """``gang.scheduling.koordinator.sh/network-topology-spec``."""

    gather_strategy: list[GatherRule] = []


def gang_name(pod: Pod) -> str:
    """The pod's gang, ``""`` for none: label, old label, annotation, in this order."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    return (
        labels.get(keys.POD_GROUP)
        or labels.get(keys.POD_GROUP_OLD)
        or annotations.get(keys.GANG_NAME, "")
    )


def min_available(pod: Pod) -> int:
    """How many pods the gang needs; an old label counts before the annotation.

    Raises:
        KoordError: absent, or no integer of 32 bits.
    """
    label = pod.metadata.labels.get(keys.POD_GROUP_MIN_AVAILABLE_OLD)
    if label:
        field = f"labels[{keys.POD_GROUP_MIN_AVAILABLE_OLD}]"
        return parse_int(label, pod.title, field, bits=32)
    return _integer(pod, keys.GANG_MIN_AVAILABLE)


def total_number(gang: Object) -> int:
    """How many pods the gang has; 0 if not said or malformed, which stands for the minimum."""
    try:
        return _integer(gang, keys.GANG_TOTAL_NUMBER)
    except KoordError:
        return 0


def waiting_time(pod: Object) -> Duration:
    """How long pods of the gang wait for the others.

    0 if not said or malformed, which stands for the scheduler's default.
    """
    try:
        return Duration.parse(pod.metadata.annotations.get(keys.GANG_WAITING_TIME, ""))
    except ValueError:
        return Duration(0)


def mode(gang: Object) -> str:
    """``Strict`` unless the annotation says ``NonStrict``."""
    return NON_STRICT if gang.metadata.annotations.get(keys.GANG_MODE) == NON_STRICT else STRICT


def match_policy(gang: Object, default: str = ONCE_SATISFIED) -> str:
    """Which pods count towards the minimum; the default if not said or unknown."""
    annotations = gang.metadata.annotations
    policy = annotations.get(keys.GANG_MATCH_POLICY) or annotations.get(keys.POD_GROUP_MATCH_POLICY)
    known = (ONLY_WAITING, WAITING_AND_RUNNING, ONCE_SATISFIED)
    return policy if policy in known else default


def groups(gang: Object) -> list[str]:
    """The gangs, as ``namespace/name``, that are satisfied together.

    Empty if not said or malformed, which stands for the gang alone.
    """
    try:
        return annotation.read(gang, keys.GANG_GROUPS, list[str]) or []
    except KoordError:
        return []


def network_topology_spec(gang: Object) -> NetworkTopologySpec | None:
    """How close the gang wants to be; None without the annotation, or if it is empty.

    Raises:
        KoordError: malformed.
    """
    key = keys.GANG_NETWORK_TOPOLOGY_SPEC
    return annotation.read(gang, key, NetworkTopologySpec, empty_is_absent=True)


def network_topology_index(pod: Pod) -> int:
    """The pod's place in the gang's order; -1 if not said.

    Raises:
        KoordError: no integer.
    """
    if keys.GANG_NETWORK_TOPOLOGY_INDEX not in pod.metadata.annotations:
        return NO_INDEX
    return _integer(pod, keys.GANG_NETWORK_TOPOLOGY_INDEX, bits=64)


def topology_order(index: int, name: str) -> tuple[bool, int, str]:
    """What a gang's pods are sorted by: their index, those without one last, ties by name.

    Args:
        index: see :func:`network_topology_index`; none if negative.
        name: with its namespace where a group of gangs has several.
    """
    return (index < 0, max(index, 0), name)


def _integer(pod: Object, key: str, bits: int = 32) -> int:
    text = pod.metadata.annotations.get(key, "")
    return parse_int(text, pod.title, annotation.field_of(key), bits=bits)
