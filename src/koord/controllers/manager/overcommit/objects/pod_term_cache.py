# SPDX-License-Identifier: Apache-2.0
"""Rows of pods from their objects, cheap for pods that share what they are made of.

Informers keep equal parts of objects once, so pods of one workload are known by the identity of
their containers. Shapes of :mod:`koord.controllers.cluster.pods` tell more pods apart than matter
here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.codec import to_json
from koord.api.protocol import keys
from koord.controllers.cluster.bounded_table import BoundedTable
from koord.controllers.cluster.pods import memory_of
from koord.controllers.manager.overcommit.objects import pod_terms

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.manager.overcommit.objects.pod_terms import PodTerm

_MOST = 65_536


class PodTermCache:
    """Remembers rows by what they are worked out from.

    Args:
        limit: how many are remembered; the oldest go first.
        size: how many bytes of memory they may have together.
    """

    def __init__(self, limit: int = _MOST, size: int = 16 << 20) -> None:
        # The parts are kept beside the row, so that an identity is not used again.
        self._known: BoundedTable[tuple[Any, ...], tuple[PodTerm, tuple[object, ...]]]
        self._known = BoundedTable(limit, size)

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
            known = pod_terms.term(pod)._replace(zones=0), parts
            self._known.put(key, known, memory_of(len(to_json(parts))))
        found = known[0]
        if keys.RESOURCE_STATUS in pod.metadata.annotations:
            return found._replace(zones=pod_terms.zones(pod))
        return found
