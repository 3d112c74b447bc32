# SPDX-License-Identifier: Apache-2.0
"""How large a pod is by what it asks, and which pods are oversized.

Rule: docs/reference/scheduling.md#oversized-pods.

What an attempt costs grows with the values that a pod's rules name. They are counted when the pod
is queued, before anything has been tried, so that a scheduler that was just started knows as well.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

from koord.api.kinds.pod import ResourceRequirements
from koord.controllers.cluster.pods import OUTPUTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodInfo

OVERSIZED_VALUES = 1000
"""A pod with more values than so many is tried after the others."""
_MEMO = "pod size"
_NOTHING = ResourceRequirements()
_DOMAIN = "koordinator.sh/"


def values_of(pod: Pod) -> dict[str, int]:
    """How many values each part of a pod has that schedulers read; parts without any are left out.

    A value is a string, a number or a boolean, wherever it stands: an entry of ``values``, a key of
    a term, a label. In Koordinator's annotations, which are texts, commas part them.
    """
    counted = {name: _values(part) for name, part in _parts(pod)}
    counted["annotations"] = _written(pod)
    return {name: count for name, count in counted.items() if count}


def size_of(info: PodInfo) -> int:
    """The values of a pod together."""
    return sum(values_of(info.shape.pod).values())


def is_oversized(info: PodInfo) -> bool:
    """Whether a pod is far larger than usual; no more is counted than it takes to tell."""
    # Each value is a byte of its JSON at least, so most pods need not be counted.
    json_bytes = info.shape.json_bytes
    if json_bytes is not None and json_bytes <= OVERSIZED_VALUES:
        return False
    memo = info.shape.memo
    known: bool | None = memo.get(_MEMO)
    if known is None:
        known = memo[_MEMO] = _is_oversized(info.shape.pod)
    return known


def _is_oversized(pod: Pod) -> bool:
    left = OVERSIZED_VALUES - _written(pod)
    for _, part in _parts(pod):
        for entry in part if isinstance(part, list) else (part,):
            if left < 0:
                return True
            left -= _values(entry, left)
    return left < 0


def _parts(pod: Pod) -> Iterator[tuple[str, Any]]:
    spec = pod.spec
    containers = (*spec.init_containers, *spec.containers)
    yield "labels", pod.metadata.labels
    yield "nodeSelector", spec.node_selector
    yield "affinity", spec.affinity
    yield "tolerations", spec.tolerations
    yield "topologySpreadConstraints", spec.topology_spread_constraints
    yield (
        "containers",
        [
            (each.resources, each.ports)
            for each in containers
            if each.ports or each.resources != _NOTHING
        ],
    )
    yield "resourceClaims", spec.resource_claims
    # A service account's token is projected into nearly every pod; it places none.
    yield "volumes", [volume for volume in spec.volumes if "projected" not in volume]


def _written(pod: Pod) -> int:
    """The values in Koordinator's annotations."""
    return sum(
        1 + text.count(",")
        for key, text in pod.metadata.annotations.items()
        if _DOMAIN in key and key not in OUTPUTS
    )


def _values(part: Any, most: float = math.inf) -> int:
    """The values of a part, or more than ``most`` of them; volumes are as deep as one likes."""
    if not part:
        return 0
    count, left = 0, [msgspec.to_builtins(part, enc_hook=str)]
    while left and count <= most:
        value = left.pop()
        if isinstance(value, dict):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
        elif value is not None:
            count += 1
    return count
