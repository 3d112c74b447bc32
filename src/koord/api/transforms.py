# SPDX-License-Identifier: Apache-2.0
"""What the feature gates of pods that enter make of a pod: functions of plain values.

A pod is never changed in place; where nothing is to be done the same object comes back. Rule:
docs/reference/protocol.md#pods-as-they-enter; the order is that of Koordinator's informers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from koord.api.protocol import eviction, priority, resources
from koord.api.wirestruct import WireStruct

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.meta import ResourceList
    from koord.api.kinds.pod import Pod

S = TypeVar("S", bound=WireStruct)


def with_replaced_resources(pod: Pod) -> Pod:
    """A pod after its annotation ``pod.koordinator.sh/replace-resources``.

    Requests and limits of init and app containers and the overhead are changed, the resources of
    the pod as a whole are not. Gate ``ReplaceResourcesTransformer``.
    """
    mapping, erase = eviction.replacement_rules(pod)
    if not mapping and not erase:
        return pod

    def replaced(amounts: ResourceList) -> ResourceList:
        return resources.replaced(amounts, mapping, erase)

    spec = pod.spec
    changed = {
        name: [
            _with(one, resources=_with(one.resources, requests=replaced(one.resources.requests),
                                       limits=replaced(one.resources.limits)))
            for one in getattr(spec, name)
        ]
        for name in ("init_containers", "containers")
    }  # fmt: skip
    return _with(pod, spec=_with(spec, overhead=replaced(spec.overhead), **changed))


def with_default_priority(pod: Pod) -> Pod:
    """A pod with the priority of its class if it has none, or 0. Gate ``PriorityTransformer``."""
    wanted = priority.priority_with_default(pod)
    if pod.spec.priority == wanted:
        return pod
    return _with(pod, spec=_with(pod.spec, priority=wanted))


def with_preemption_policy(pod: Pod) -> Pod:
    """A pod with the preemption policy of its label, ``Never`` without one.

    Whatever its spec says. Gate ``PreemptionPolicyTransformer``.
    """
    wanted = priority.preemption_policy_with_default(pod)
    if pod.spec.preemption_policy == wanted:
        return pod
    return _with(pod, spec=_with(pod.spec, preemption_policy=wanted))


BY_GATE: dict[str, Callable[[Pod], Pod]] = {
    "ReplaceResourcesTransformer": with_replaced_resources,
    "PriorityTransformer": with_default_priority,
    "PreemptionPolicyTransformer": with_preemption_policy,
}
"""By feature gate, what it does to a pod that enters, in order; old names are mapped before."""


def _with(whole: S, **changed: object) -> S:
    return msgspec.structs.replace(whole, **changed)
