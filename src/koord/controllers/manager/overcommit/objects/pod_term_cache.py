# SPDX-License-Identifier: Apache-2.0
"""Rows of pods from their objects, cheap for pods that share what they are made of.

Informers keep equal parts of objects once, so pods of one workload are known by the identity of
their containers. Shapes of :mod:`koord.controllers.cluster.pods` tell more pods apart than matter
here, and cost the JSON text of each new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys
from koord.controllers.manager.overcommit.objects import pod_terms

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.manager.overcommit.objects.pod_terms import PodTerm

_MOST = 65_536


class PodTermCache:
    """Remembers rows by what they are worked out from.

    Args:
        limit: how many are remembered; the oldest go first.
    """

    def __init__(self, limit: int = _MOST) -> None:
        self._limit = limit
        # The parts are kept beside the row, so that an identity is not used again.
        self._known: dict[tuple[Any, ...], tuple[PodTerm, tuple[object, ...]]] = {}

    def of(self, pod: Pod) -> PodTerm:
        """The row of a pod, without a metric; see :func:`pods.term`."""
        spec, labels = pod.spec, pod.metadata.labels
        parts = spec.containers, spec.init_containers, spec.overhead, spec.resources
        key = (
            *map(id, parts), spec.priority, labels.get(keys.PRIORITY_CLASS),
            labels.get(keys.QOS_CLASS), pod.status.qos_class,
        )  # fmt: skip
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= self._limit:
                for old in list(self._known)[: self._limit // 2]:
                    del self._known[old]
            known = self._known[key] = pod_terms.term(pod)._replace(zones=0), parts
        found = known[0]
        if keys.RESOURCE_STATUS in pod.metadata.annotations:
            return found._replace(zones=pod_terms.zones(pod))
        return found
