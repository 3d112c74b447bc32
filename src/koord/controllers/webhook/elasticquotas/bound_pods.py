# SPDX-License-Identifier: Apache-2.0
"""Which pods name a quota, and which namespaces have pods."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from koord.api.protocol import quotas

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.views import View


class PodsByQuota:
    """An index over a view of pods.

    Args:
        view: of all pods.
    """

    def __init__(self, view: View[Pod]) -> None:
        self._naming: defaultdict[str, set[str]] = defaultdict(set)
        self._in: Counter[str] = Counter()
        view.on_change(self._put, self._replace, lambda pod, _: self._remove(pod))

    def naming(self, quota: str) -> list[str]:
        """Pods whose label names a quota, as ``namespace/name``, sorted."""
        return sorted(self._naming.get(quota, ()))

    def any_in(self, namespace: str) -> bool:
        """Whether a namespace has any pod."""
        return self._in[namespace] > 0

    def _put(self, pod: Pod) -> None:
        self._in[pod.metadata.namespace] += 1
        name = quotas.pod_quota_name(pod)
        if name:
            self._naming[name].add(_key(pod))

    def _remove(self, pod: Pod) -> None:
        namespace = pod.metadata.namespace
        self._in[namespace] -= 1
        if not self._in[namespace]:
            del self._in[namespace]
        name = quotas.pod_quota_name(pod)
        if name:
            self._naming[name].discard(_key(pod))
            if not self._naming[name]:
                del self._naming[name]

    def _replace(self, old: Pod, new: Pod) -> None:
        if quotas.pod_quota_name(old) != quotas.pod_quota_name(new):
            self._remove(old)
            self._put(new)


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"
