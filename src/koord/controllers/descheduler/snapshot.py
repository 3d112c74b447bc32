# SPDX-License-Identifier: Apache-2.0
"""The cluster as one round sees it: nodes and pods that do not change while plugins judge them.

Rules: docs/reference/descheduling.md#a-cycle, docs/reference/descheduling.md#pods-of-a-node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from koord.api.kinds.cluster import Namespace, PriorityClass
    from koord.api.kinds.node import Node
    from koord.api.kinds.nodemetric import NodeMetric
    from koord.api.kinds.nodeslo import NodeSLO
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.quota import PodGroup
    from koord.api.kinds.storage import PersistentVolumeClaim
    from koord.api.kinds.workloads import PodDisruptionBudget

FINISHED = frozenset({"Succeeded", "Failed"})
"""Phases of pods that hold nothing any more."""


@dataclass(frozen=True)
class ClusterSnapshot:
    """Objects by the keys that plugins look for; one that changes is another object from then on.

    Args:
        nodes: those that are looked at, in the order of their names, as ``cluster.transforms``
            makes them: allocatable is what the node's reservation leaves.
        pods: all of the cluster, in any order.
        namespaces: by name.
        priority_classes: by name.
        budgets: PodDisruptionBudgets of all namespaces.
        claims: PersistentVolumeClaims by namespace and name.
        node_metrics: by node.
        node_slos: by node.
        pods_by_node: bound ones in the order of namespace and name; None to work them out.
        pod_groups: PodGroups of all namespaces, as far as no plugin follows them by itself.
    """

    nodes: Sequence[Node]
    pods: Sequence[Pod] = ()
    namespaces: Mapping[str, Namespace] = field(default_factory=dict)
    priority_classes: Mapping[str, PriorityClass] = field(default_factory=dict)
    budgets: Sequence[PodDisruptionBudget] = ()
    claims: Mapping[tuple[str, str], PersistentVolumeClaim] = field(default_factory=dict)
    node_metrics: Mapping[str, NodeMetric] = field(default_factory=dict)
    node_slos: Mapping[str, NodeSLO] = field(default_factory=dict)
    pods_by_node: Mapping[str, Sequence[Pod]] | None = None
    pod_groups: Sequence[PodGroup] = ()

    @cached_property
    def _pods_by_node(self) -> Mapping[str, Sequence[Pod]]:
        """In the order of namespace and name, which is ours: the original walks a map."""
        if self.pods_by_node is not None:
            return self.pods_by_node
        ordered = sorted(self.pods, key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
        by_node: dict[str, list[Pod]] = {}
        for pod in ordered:
            if pod.spec.node_name:
                by_node.setdefault(pod.spec.node_name, []).append(pod)
        return by_node

    @cached_property
    def _unfinished_by_node(self) -> dict[str, Sequence[Pod]]:
        """The very sequences of all pods where none of theirs is finished."""
        found: dict[str, Sequence[Pod]] = {}
        for name, pods in self._pods_by_node.items():
            left = [pod for pod in pods if pod.status.phase not in FINISHED]
            found[name] = pods if len(left) == len(pods) else left
        return found

    @cached_property
    def pods_by_owner(self) -> Mapping[str, Sequence[Pod]]:
        """Pods by the UID of each of their owners."""
        by_owner: dict[str, list[Pod]] = {}
        for pod in self.pods:
            for owner in pod.metadata.owner_references:
                by_owner.setdefault(owner.uid, []).append(pod)
        return by_owner

    @cached_property
    def budgets_by_namespace(self) -> Mapping[str, Sequence[PodDisruptionBudget]]:
        """PodDisruptionBudgets by namespace."""
        by_namespace: dict[str, list[PodDisruptionBudget]] = {}
        for budget in self.budgets:
            by_namespace.setdefault(budget.metadata.namespace, []).append(budget)
        return by_namespace

    def pods_on(self, node_name: str) -> Sequence[Pod]:
        """Pods bound to a node that are not finished, pending ones included."""
        return self._unfinished_by_node.get(node_name, ())

    def all_pods_on(self, node_name: str) -> Sequence[Pod]:
        """Pods bound to a node, finished ones included."""
        return self._pods_by_node.get(node_name, ())


def is_ready(node: Node) -> bool:
    """Whether a node's condition ``Ready`` is ``True`` or missing; cordoned ones count as ready."""
    return all(
        condition.status == "True"
        for condition in node.status.conditions
        if condition.type == "Ready"
    )
