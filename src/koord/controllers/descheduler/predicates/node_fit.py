# SPDX-License-Identifier: Apache-2.0
"""Whether a pod would fit a node, as the descheduler's plugins ask it.

Rule: docs/reference/descheduling.md#nodefit. Both originals have a predicate of their own; the one
of kubernetes-sigs/descheduler is :func:`fits`, Koordinator's :func:`fits_by_requests`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import requests, selectors
from koord.api.tolerations import KEEPS_OUT, untolerated
from koord.controllers.descheduler.predicates.node_selection import selects
from koord.controllers.descheduler.predicates.pod_requests import PodRequests

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from koord.api.kinds.constraints import PodAffinityTerm
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.snapshot import ClusterSnapshot


class NodeFit:
    """Fit over one snapshot; what nodes have left is summed once a node.

    Args:
        snapshot: nodes and pods.

    Attributes:
        requested: what a pod asks for, one pod included.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._free: dict[str, dict[str, int]] = {}
        self.requested = PodRequests()

    def fits(self, pod: Pod, node: Node) -> bool:
        """Whether the node takes the pod: constraints, anti-affinity, requests and a pod's room.

        Of anti-affinity only the pod's own required terms are looked at, and only on this node.
        The pod's own node is not asked for resources, which the pod has there already.
        """
        if not may_run_on(pod, node) or self._repels(pod, node):
            return False
        if pod.spec.node_name == node.metadata.name:
            return True
        free = self.free(node)
        return self._has(free, pod) and free.get(requests.PODS, 0) >= 1

    def fits_by_requests(self, pod: Pod, node: Node) -> bool:
        """Whether the node takes the pod: constraints and requests alone, its own node included."""
        return may_run_on(pod, node) and self._has(self.free(node), pod)

    def fits_another(self, pod: Pod, nodes: Iterable[Node]) -> bool:
        """Whether :meth:`fits` holds of any of the nodes but the pod's own."""
        own = pod.spec.node_name
        return any(node.metadata.name != own and self.fits(pod, node) for node in nodes)

    def fits_any(self, pod: Pod, nodes: Iterable[Node]) -> bool:
        """Whether :meth:`fits` holds of any of the nodes."""
        return any(self.fits(pod, node) for node in nodes)

    def free(self, node: Node) -> Mapping[str, int]:
        """Allocatable less requests of the pods on the node, by resource; CPU in milli."""
        name = node.metadata.name
        if name not in self._free:
            free = requests.offered(node)
            for pod in self._snapshot.pods_on(name):
                for resource, amount in self.requested(pod).items():
                    free[resource] = free.get(resource, 0) - amount
            self._free[name] = free
        return self._free[name]

    def _has(self, free: Mapping[str, int], pod: Pod) -> bool:
        return all(
            amount <= free.get(resource, 0)
            for resource, amount in self.requested(pod).items()
            if resource != requests.PODS
        )

    def _repels(self, pod: Pod, node: Node) -> bool:
        """Whether a pod on the node is one that the pod's required anti-affinity keeps away."""
        terms = required_anti_affinity(pod)
        return any(
            term.topology_key in node.metadata.labels and is_selected(term, pod, other)
            for term in terms
            for other in self._snapshot.pods_on(node.metadata.name)
        )


def may_run_on(pod: Pod, node: Node) -> bool:
    """Whether nothing but resources and other pods keeps the pod from the node."""
    return (
        not node.spec.unschedulable
        and selects(pod, node)
        and untolerated(node.spec.taints, pod.spec.tolerations, KEEPS_OUT) is None
    )


def required_anti_affinity(pod: Pod) -> list[PodAffinityTerm]:
    """The terms that a pod requires to hold."""
    affinity = pod.spec.affinity
    if affinity is None or affinity.pod_anti_affinity is None:
        return []
    return affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution


def is_selected(term: PodAffinityTerm, owner: Pod, other: Pod) -> bool:
    """Whether a term of one pod selects another: by name, namespace and labels.

    The namespaces are the term's own, or the owner's where it names none.
    """
    namespaces = term.namespaces or [owner.metadata.namespace]
    return (
        other.metadata.name != owner.metadata.name
        and other.metadata.namespace in namespaces
        and selectors.matches(term.label_selector, other.metadata.labels)
    )
