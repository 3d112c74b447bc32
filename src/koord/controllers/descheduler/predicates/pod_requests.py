# SPDX-License-Identifier: Apache-2.0
"""What pods ask for, worked out once for all that share their containers' resources.

Pods that an informer decodes share equal parts, so that a cluster of many pods has few of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.pod import Pod


class PodRequests:
    """Requests of the pods of one snapshot, which keeps their parts alive."""

    def __init__(self) -> None:
        self._by_parts: dict[tuple[object, ...], Mapping[str, int]] = {}

    def __call__(self, pod: Pod) -> Mapping[str, int]:
        """As :func:`koord.api.requests.requested`; the same object for pods of the same parts."""
        spec = pod.spec
        containers = [id(container.resources) for container in spec.containers]
        key: tuple[object, ...] = (id(spec.resources), id(spec.overhead), *containers)
        if spec.init_containers:
            key += tuple((id(each.resources), each.restart_policy) for each in spec.init_containers)
        found = self._by_parts.get(key)
        if found is None:
            found = self._by_parts[key] = requests.requested(pod)
        return found
