# SPDX-License-Identifier: Apache-2.0
"""The snapshot of a round out of informers' caches.

Pods are kept by node as events come, so that a round sorts those of nodes that changed and no
others. A node's pods are a tuple that is made anew, never changed: a snapshot stays as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.cluster import Namespace, PriorityClass
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.nodeslo import NodeSLO
from koord.api.kinds.pod import Pod
from koord.api.kinds.storage import PersistentVolumeClaim
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.controllers.cluster import transforms
from koord.controllers.descheduler.snapshot import ClusterSnapshot, is_ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.cluster.views import InformerViews, View


class PodsByNode:
    """Pods by the node they are bound to, in the order of namespace and name.

    Args:
        view: of all pods.
    """

    def __init__(self, view: View[Pod]) -> None:
        self._pods: dict[str, dict[str, Pod]] = {}
        self._ordered: dict[str, tuple[Pod, ...]] = {}
        self._changed: set[str] = set()
        view.on_change(self._added, self._updated, self._deleted)

    def ordered(self) -> dict[str, tuple[Pod, ...]]:
        """All of them now, by node; the caller's own."""
        for name in self._changed:
            pods = self._pods.get(name)
            if pods:
                self._ordered[name] = tuple(sorted(pods.values(), key=_by_name))
            else:
                self._ordered.pop(name, None)
        self._changed.clear()
        return dict(self._ordered)

    def _added(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._pods.setdefault(pod.spec.node_name, {})[_key(pod)] = pod
            self._changed.add(pod.spec.node_name)

    def _updated(self, old: Pod, pod: Pod) -> None:
        # Another pod may have come under the same name, on another node.
        if old.spec.node_name != pod.spec.node_name:
            self._deleted(old, False)
        self._added(pod)

    def _deleted(self, pod: Pod, final_state_unknown: bool) -> None:
        del final_state_unknown
        pods = self._pods.get(pod.spec.node_name)
        if pods is not None:
            pods.pop(_key(pod), None)
            self._changed.add(pod.spec.node_name)
            if not pods:
                del self._pods[pod.spec.node_name]


class InformerSnapshot:
    """Makes snapshots.

    Args:
        views: of the kinds that plugins look at, which nobody has asked for nodes or pods yet;
            their informers run elsewhere. All who ask later get nodes and pods as the scheduler
            counts them: what a node's reservation leaves, resources by their present names.
        selects: which nodes are looked at, by their labels.
    """

    def __init__(self, views: InformerViews, selects: Callable[[dict[str, str]], bool]) -> None:
        self._selects = selects
        views.transform(Node, transforms.node)
        views.transform(Pod, transforms.pod)
        self._nodes = views.view(Node)
        self._pods = views.view(Pod)
        self._namespaces = views.view(Namespace)
        self._priority_classes = views.view(PriorityClass)
        self._budgets = views.view(PodDisruptionBudget)
        self._claims = views.view(PersistentVolumeClaim)
        self._node_metrics = views.view(NodeMetric)
        self._node_slos = views.view(NodeSLO)
        self._pods_by_node = PodsByNode(self._pods)

    def take(self) -> ClusterSnapshot:
        """The cluster now."""
        nodes = [
            node
            for _, node in self._nodes.items()
            if is_ready(node) and self._selects(node.metadata.labels)
        ]
        return ClusterSnapshot(
            sorted(nodes, key=lambda node: node.metadata.name),
            [pod for _, pod in self._pods.items()],
            dict(self._namespaces.items()),
            dict(self._priority_classes.items()),
            self.budgets(),
            {
                (claim.metadata.namespace, claim.metadata.name): claim
                for _, claim in self._claims.items()
            },
            dict(self._node_metrics.items()),
            dict(self._node_slos.items()),
            self._pods_by_node.ordered(),
        )

    def budgets(self) -> list[PodDisruptionBudget]:
        """PodDisruptionBudgets of all namespaces."""
        return [budget for _, budget in self._budgets.items()]

    def node(self, name: str) -> Node | None:
        """A node of any state; None where there is none."""
        return self._nodes.get(name)

    def pod(self, namespace: str, name: str) -> Pod | None:
        """A pod; None where there is none."""
        return self._pods.get(f"{namespace}/{name}")


def _key(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def _by_name(pod: Pod) -> tuple[str, str]:
    return pod.metadata.namespace, pod.metadata.name
