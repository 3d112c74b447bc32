# SPDX-License-Identifier: Apache-2.0
"""Pods as controllers see them: what is its own of each, and the shape it shares with its equals.

Two pods have one shape when a scheduler cannot tell them apart but by name: the same namespace,
labels, annotations, owner and spec. Everything that is worked out from those (amounts, selectors,
a plugin's reading of its annotations, the answer for every node) is worked out once a shape.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from koord.api import requests
from koord.api.codec import to_json
from koord.api.protocol import keys
from koord.controllers.cluster.nodes import PODS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.api.kinds.meta import OwnerReference
    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.nodes import NodeTable

MIN_CPU_MILLI, MIN_MEMORY_BYTES = 100, 200 * 1024 * 1024
"""What a container without a request counts as in scores (Kubernetes' non-zero requests)."""

# What schedulers write: it must not make a bound pod differ from its pending equals. And the place
# in a gang's order, which only says who is first.
OUTPUTS = frozenset(
    {
        "gang.scheduling.koordinator.sh/network-topology-index",
        "internal.scheduling.koordinator.sh/bind-gang-group-id",
        "internal.scheduling.koordinator.sh/bind-gang-member-count",
        "scheduling.koordinator.sh/bind-gang-group-id",
        "scheduling.koordinator.sh/bind-gang-member-count",
        "scheduling.koordinator.sh/resource-status",
        "scheduling.koordinator.sh/device-allocated",
        "scheduling.koordinator.sh/reservation-allocated",
        "scheduling.koordinator.sh/reservation-name",
        "scheduling.koordinator.sh/bind-timestamp",
        "scheduling.koordinator.sh/gpu-minors",
    }
)


class PodShape:
    """What equal pods share. Made by :class:`Shapes` alone, so that equal shapes are one object.

    Attributes:
        id: counts shapes as they were made; never used again.
        pod: one pod of the shape, for its labels, annotations and spec; its name, uid, node and
            status mean nothing here.
        request: resource to amount, without the pod itself.
        problem: what of the requests cannot be meant; such a pod is placed nowhere.
        nonzero: CPU milli and memory bytes as scores count them.
        memo: what plugins have worked out for the shape, by plugin name.
    """

    __slots__ = (
        "_at", "_vector", "id", "memo", "namespace", "nonzero", "owner", "pod", "problem",
        "request",
    )  # fmt: skip

    def __init__(self, number: int, pod: Pod) -> None:
        self.id = number
        self.pod = pod
        self.namespace = pod.metadata.namespace
        self.owner: OwnerReference | None = controller(pod)
        self.problem = requests.problem(pod)
        self.request = requests.requested(pod)
        self.request.pop(requests.PODS, None)
        self.nonzero = requests.nonzero(pod, MIN_CPU_MILLI, MIN_MEMORY_BYTES)
        self.memo: dict[str, Any] = {}
        self._vector: tuple[NDArray[np.intp], NDArray[np.int64]] | None = None
        self._at: object = None

    @property
    def labels(self) -> dict[str, str]:
        """The pods' labels."""
        return self.pod.metadata.labels

    @property
    def annotations(self) -> dict[str, str]:
        """The pods' annotations."""
        return self.pod.metadata.annotations

    def vector(self, table: NodeTable) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """The request as columns of a table and amounts, one pod included."""
        if self._vector is None or self._at is not table:
            names = sorted(self.request)
            index = [table.resource(name) for name in names]
            amounts = [self.request[name] for name in names]
            self._vector = (
                np.array([PODS, *index], np.intp),
                np.array([1, *amounts], np.int64),
            )
            self._at = table
        return self._vector


class PodInfo:
    """One pod: what the API says, and what was decided about it.

    Attributes:
        pod: the last known object.
        shape: see :class:`PodShape`.
        row: where it counts in the node table, -1 while nowhere.
        allocations: by plugin name, what a plugin has chosen for the pod, or read from its
            annotations (CPUs, devices, the reservation).
    """

    __slots__ = ("allocations", "key", "pod", "priority", "row", "shape", "uid")

    def __init__(self, pod: Pod, shape: PodShape) -> None:
        meta = pod.metadata
        self.pod = pod
        self.shape = shape
        self.uid = meta.uid
        self.key = f"{meta.namespace}/{meta.name}"
        self.priority: int = pod.spec.priority or 0
        self.row = -1
        self.allocations: dict[str, Any] = {}

    @property
    def reservation(self) -> str | None:
        """The name of the Reservation that the pod stands for; None for real pods."""
        annotations, meta = self.shape.annotations, self.pod.metadata
        if keys.RESERVE_POD not in annotations or meta.name != meta.uid:
            return None
        return meta.annotations.get(keys.RESERVATION_NAME)

    def __repr__(self) -> str:
        return f"PodInfo({self.key!r}, row={self.row})"


class Shapes:
    """Interns shapes.

    Pods that an informer shares parts of are recognised by the identity of those parts; others by
    the JSON text of all that counts.

    Args:
        limit: how many of each kind of key are remembered; the oldest go first.
    """

    def __init__(self, limit: int = 65_536) -> None:
        self._limit = limit
        self._made = 0
        self._by_text: dict[bytes, PodShape] = {}
        # The parts are kept beside the shape, so that an identity is not used again.
        self._by_parts: dict[tuple[int, ...], tuple[PodShape, tuple[object, ...]]] = {}

    def info(self, pod: Pod) -> PodInfo:
        """A pod with its shape."""
        return PodInfo(pod, self.of(pod))

    def of(self, pod: Pod) -> PodShape:
        """The shape of a pod."""
        meta, spec = pod.metadata, pod.spec
        parts = (
            meta.namespace, meta.labels, meta.annotations, meta.owner_references,
            spec.containers, spec.init_containers, spec.overhead, spec.resources,
            spec.node_selector, spec.affinity, spec.tolerations,
            spec.topology_spread_constraints, spec.volumes,
        )  # fmt: skip
        scalars = (
            spec.scheduler_name, spec.priority, spec.priority_class_name, spec.preemption_policy,
            spec.host_network, spec.runtime_class_name, spec.restart_policy,
        )  # fmt: skip
        identity = (*map(id, parts), hash(scalars))
        known = self._by_parts.get(identity)
        if known is not None:
            return known[0]
        shape = self._by_content(pod, parts, scalars)
        _bound(self._by_parts, self._limit)
        self._by_parts[identity] = (shape, parts)
        return shape

    def _by_content(self, pod: Pod, parts: tuple[Any, ...], scalars: tuple[Any, ...]) -> PodShape:
        annotations = {k: v for k, v in pod.metadata.annotations.items() if k not in OUTPUTS}
        # All of them: a Reservation may be for pods of any owner.
        who = [
            (owner.api_version, owner.kind, owner.name, owner.uid, owner.controller)
            for owner in pod.metadata.owner_references
        ]
        text = to_json((parts[0], parts[1], annotations, who, parts[4:], scalars))
        shape = self._by_text.get(text)
        if shape is None:
            self._made += 1
            shape = PodShape(self._made, pod)
            _bound(self._by_text, self._limit)
            self._by_text[text] = shape
        return shape


def controller(pod: Pod) -> OwnerReference | None:
    """The owner that manages the pod, if any."""
    for owner in pod.metadata.owner_references:
        if owner.controller:
            return owner
    return None


def _bound(table: dict[Any, Any], limit: int) -> None:
    if len(table) >= limit:
        for key in list(table)[: limit // 2]:
            del table[key]
