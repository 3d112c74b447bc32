# SPDX-License-Identifier: Apache-2.0
"""What a pod will use, before anybody has measured it.

Rule: docs/reference/load.md#estimate-of-a-pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import resources as names
from koord.api.protocol.priority import class_with_default
from koord.api.requests import effective

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.pod import Pod
    from koord.api.protocol.priority import PriorityClass
    from koord.controllers.cluster.pods import ContainerRequests

MIN_CPU_MILLI, MIN_MEMORY_BYTES = 250, 200 * 1024 * 1024
_LEAST = {
    names.CPU: MIN_CPU_MILLI,
    names.BATCH_CPU: MIN_CPU_MILLI,
    names.MEMORY: MIN_MEMORY_BYTES,
    names.BATCH_MEMORY: MIN_MEMORY_BYTES,
}


def estimate(
    pod: Pod,
    factors_percent: Mapping[str, int],
    container_requests: ContainerRequests | None = None,
    priority_class: PriorityClass | None = None,
) -> dict[str, int]:
    """Expected usage by native resource: CPU in milli, all else in units.

    The limit where it exceeds the request, scaled by the factor and never above the limit; a small
    constant for a pod that says nothing. A pod asks for resources under the names of its priority
    class.

    Args:
        pod: whose.
        factors_percent: by native resource; others are not estimated.
        container_requests: what its containers ask for, where that is known.
        priority_class: its class, where that is known.
    """
    if priority_class is None:
        priority_class = class_with_default(pod)
    requests = effective(pod) if container_requests is None else container_requests.requests
    limits = (
        effective(pod, limits=True) if container_requests is None else container_requests.limits
    )
    return {
        name: _one(names.translated(priority_class, name), requests, limits, factor)
        for name, factor in factors_percent.items()
    }


def _one(name: str, requests: Mapping[str, int], limits: Mapping[str, int], factor: int) -> int:
    request, limit = requests.get(name, 0), limits.get(name, 0)
    wanted = max(limit, request)
    if wanted <= 0:
        return _LEAST.get(name, 0)
    # Rounded half up, which is half away from zero: nothing here is negative.
    scaled = (wanted * factor + 50) // 100
    return min(scaled, limit) if limit > 0 else scaled
