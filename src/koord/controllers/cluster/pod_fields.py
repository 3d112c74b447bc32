# SPDX-License-Identifier: Apache-2.0
"""Which parts a pod has: most pods lack most of those that a scheduler has rules for."""

from __future__ import annotations

from enum import IntFlag
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.pod import Pod, PodSpec


class PodField(IntFlag):
    """Parts of a pod; those that it has. ``IMAGES`` and ``ALL`` are of every pod."""

    NONE = 0
    IMAGES = 1
    LABELS = 2
    KOORD_LABELS = 4
    """Labels of koord's protocol, such as its QoS class, gang or quota."""
    ANNOTATIONS = 8
    OWNERS = 16
    TOLERATIONS = 32
    NODE_AFFINITY = 64
    """``nodeSelector`` too."""
    POD_AFFINITY = 128
    SPREAD = 256
    VOLUMES = 512
    """But for projected ones, which say nothing of where a pod may go."""
    HOST_PORTS = 1024
    RESOURCE_CLAIMS = 2048
    DEVICES = 4096
    """Requests of more than CPU, memory and storage."""
    ALL = 8191


# As plain ints: sums of flags are objects of their own, and slow to make.
_IMAGES, _LABELS, _KOORD_LABELS, _ANNOTATIONS, _OWNERS, _TOLERATIONS = 1, 2, 4, 8, 16, 32
_NODE_AFFINITY, _POD_AFFINITY, _SPREAD, _VOLUMES, _HOST_PORTS = 64, 128, 256, 512, 1024
_RESOURCE_CLAIMS, _DEVICES = 2048, 4096

_COMMON = frozenset(("cpu", "memory", "ephemeral-storage"))
_PROTOCOL = ("koordinator.sh", "sigs.k8s.io")


def fields_of(pod: Pod, resources: Iterable[str]) -> int:
    """The parts that a pod has, a bit each.

    Args:
        pod: the pod.
        resources: names of all that its containers request.
    """
    meta, found = pod.metadata, _IMAGES | _of_spec(pod.spec)
    if meta.labels:
        found |= _LABELS
        for key in meta.labels:
            if _PROTOCOL[0] in key or _PROTOCOL[1] in key:
                found |= _KOORD_LABELS
                break
    if meta.annotations:
        found |= _ANNOTATIONS
    if meta.owner_references:
        found |= _OWNERS
    return found if _COMMON.issuperset(resources) else found | _DEVICES


def _of_spec(spec: PodSpec) -> int:
    found = 0
    affinity = spec.affinity
    if affinity is not None:
        if affinity.node_affinity is not None:
            found |= _NODE_AFFINITY
        if affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None:
            found |= _POD_AFFINITY
    if spec.node_selector:
        found |= _NODE_AFFINITY
    if spec.tolerations:
        found |= _TOLERATIONS
    if spec.topology_spread_constraints:
        found |= _SPREAD
    if spec.resource_claims:
        found |= _RESOURCE_CLAIMS
    for volume in spec.volumes:
        if "projected" not in volume or len(volume) > 2:
            found |= _VOLUMES
            break
    return found | _ports(spec)


def _ports(spec: PodSpec) -> int:
    for containers in (spec.containers, spec.init_containers):
        for container in containers:
            for port in container.ports:
                if port.host_port > 0:
                    return _HOST_PORTS
    return 0
