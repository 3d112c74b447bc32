# SPDX-License-Identifier: Apache-2.0
"""What pods ask for, worked out once for all that share their containers' resources.

Pods that an informer decodes share equal parts, so that a cluster of many pods has few of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api import requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.pod import Pod


class _SharedRequests(NamedTuple):
    """An answer, and the parts it is for: held, so that nothing else gets their identity."""

    amounts: Mapping[str, int]
    parts: tuple[object, ...]


class PodRequests:
    """Requests of pods by the identity of their parts, which do not change."""

    def __init__(self) -> None:
        self._shared: dict[tuple[object, ...], _SharedRequests] = {}

    def __call__(self, pod: Pod) -> Mapping[str, int]:
        """As :func:`koord.api.requests.requested`; the same object for pods of the same parts."""
        spec = pod.spec
        containers = [id(container.resources) for container in spec.containers]
        overhead = id(spec.overhead) if spec.overhead else 0
        key: tuple[object, ...] = (id(spec.resources), overhead, *containers)
        if spec.init_containers:
            key += tuple((id(each.resources), each.restart_policy) for each in spec.init_containers)
        shared = self._shared.get(key)
        if shared is None:
            every = (*spec.containers, *spec.init_containers)
            parts = (spec.resources, spec.overhead, *[each.resources for each in every])
            shared = self._shared[key] = _SharedRequests(requests.requested(pod), parts)
        return shared.amounts
