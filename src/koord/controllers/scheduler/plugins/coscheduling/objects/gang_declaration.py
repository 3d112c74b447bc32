# SPDX-License-Identifier: Apache-2.0
"""What a gang is by its declaration: on one of its pods, or in a PodGroup.

Rule: docs/reference/gangs.md#declaration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import gang as protocol
from koord.api.protocol import keys
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.api.kinds.meta import Object
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.quota import PodGroup

STRICT, NON_STRICT = protocol.STRICT, protocol.NON_STRICT
ONLY_WAITING = protocol.ONLY_WAITING
WAITING_AND_RUNNING = protocol.WAITING_AND_RUNNING
ONCE_SATISFIED = protocol.ONCE_SATISFIED
MUST_GATHER, PREFER_GATHER = "MustGather", "PreferGather"


class GangDefaults(NamedTuple):
    """What stands for what a declaration does not say.

    Attributes:
        wait_seconds: how long placed pods wait for the others.
        policy: which pods count towards the minimum.
    """

    wait_seconds: float = 600.0
    policy: str = ONCE_SATISFIED


class GangDeclaration(NamedTuple):
    """A gang's wishes.

    Attributes:
        minimum: how many pods must have a node before any may have one.
        total: how many pods there will be; nobody relies on it.
        mode: STRICT or NON_STRICT.
        policy: which pods count towards the minimum.
        wait_seconds: how long placed pods wait for the others.
        groups: ids of the gangs that are satisfied together, itself among them, sorted.
        topology: how close together the pods want to be.
        from_pod_group: declared by a PodGroup, not by a pod.
    """

    minimum: int
    total: int
    mode: str
    policy: str
    wait_seconds: float
    groups: tuple[str, ...]
    topology: protocol.NetworkTopologySpec | None
    from_pod_group: bool


def gang_id(pod: Pod) -> str:
    """The id ``namespace/name`` of a pod's gang, ``""`` for none."""
    name = protocol.gang_name(pod)
    return f"{pod.metadata.namespace}/{name}" if name else ""


def by_pod_group(pod: Pod) -> bool:
    """Whether only a PodGroup can declare the pod's gang, since a label names it."""
    labels = pod.metadata.labels
    if labels.get(keys.POD_GROUP) or not labels.get(keys.POD_GROUP_OLD):
        return bool(labels.get(keys.POD_GROUP))
    says = labels.get(keys.POD_GROUP_MIN_AVAILABLE_OLD)
    return not says and keys.GANG_MIN_AVAILABLE not in pod.metadata.annotations


def of_pod(pod: Pod, gang: str, defaults: GangDefaults) -> GangDeclaration:
    """The gang as one of its pods declares it.

    Args:
        pod: a pod of the gang.
        gang: the gang's id.
        defaults: for what the pod does not say.

    Raises:
        KoordError: the minimum is missing, malformed or negative, or the topology is malformed.
    """
    minimum = protocol.min_available(pod)
    if minimum < 0:
        old = pod.metadata.labels.get(keys.POD_GROUP_MIN_AVAILABLE_OLD)
        says = f"labels[{keys.POD_GROUP_MIN_AVAILABLE_OLD}]"
        field = says if old else f"annotations[{keys.GANG_MIN_AVAILABLE}]"
        raise KoordError(pod.title, field, minimum, "an integer of at least 0")
    wait = protocol.waiting_time(pod).seconds
    return _declaration(pod, gang, minimum, wait, defaults, from_pod_group=False)


def of_pod_group(group: PodGroup, gang: str, defaults: GangDefaults) -> GangDeclaration:
    """The gang as its PodGroup declares it.

    Raises:
        KoordError: the minimum is negative, or the topology is malformed.
    """
    minimum = group.spec.min_member
    if minimum < 0:
        raise KoordError(group.title, "spec.minMember", minimum, "an integer of at least 0")
    wait = float(group.spec.schedule_timeout_seconds or 0)
    return _declaration(group, gang, minimum, wait, defaults, from_pod_group=True)


def index_of(pod: Pod) -> int:
    """The pod's place in the gang's order; -1 for none, or none that can be read."""
    try:
        return protocol.network_topology_index(pod)
    except KoordError:
        return protocol.NO_INDEX


def _declaration(
    by: Object,
    gang: str,
    minimum: int,
    wait: float,
    defaults: GangDefaults,
    *,
    from_pod_group: bool,
) -> GangDeclaration:
    return GangDeclaration(
        minimum=minimum,
        total=max(protocol.total_number(by), minimum),
        mode=protocol.mode(by),
        policy=protocol.match_policy(by, defaults.policy),
        wait_seconds=wait if wait > 0 else defaults.wait_seconds,
        groups=tuple(sorted({gang, *protocol.groups(by)})),
        topology=protocol.network_topology_spec(by),
        from_pod_group=from_pod_group,
    )
