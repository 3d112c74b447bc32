# SPDX-License-Identifier: Apache-2.0
"""RemovePodsViolatingInterPodAntiAffinity: pods that share a domain with one they keep away from.

Rule: docs/reference/descheduling-plugins.md#removepodsviolatinginterpodantiaffinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import StrategyArgs
from koord.controllers.descheduler.predicates.node_fit import is_selected, required_anti_affinity
from koord.controllers.descheduler.predicates.pod_order import by_priority

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.api.kinds.constraints import PodAffinityTerm
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod

PodsByNamespace = dict[str, dict[str, "Pod"]]
"""Pods by namespace and name."""


class RemovePodsViolatingInterPodAntiAffinityArgs(StrategyArgs, frozen=True):
    """Which pods are looked at."""


class RemovePodsViolatingInterPodAntiAffinity(DeschedulerPlugin):
    """The strategy; node by node, lower priorities first. Only the owner of a term goes."""

    name = "RemovePodsViolatingInterPodAntiAffinity"
    args_type = RemovePodsViolatingInterPodAntiAffinityArgs
    args: RemovePodsViolatingInterPodAntiAffinityArgs

    async def deschedule(self, nodes: Sequence[Node]) -> None:
        """Evicts violating pods; a pod that went violates nothing any more."""
        evictor = self.handle.evictor
        selected = self.args.pod_filter()
        by_name = {node.metadata.name: node for node in nodes}
        present: PodsByNamespace = {}
        owners: list[list[Pod]] = []
        for name in by_name:
            await self.handle.give_way()
            pods = [pod for pod in self.handle.snapshot.pods_on(name) if selected(pod)]
            for pod in pods:
                meta = pod.metadata
                if meta.namespace not in present:
                    present[meta.namespace] = {}
                present[meta.namespace][meta.name] = pod
            owners.append([pod for pod in pods if pod.spec.affinity is not None])
        present_pods = _PresentPods(present)
        for pods in owners:
            await self.handle.give_way()
            for pod in by_priority(pod for pod in pods if required_anti_affinity(pod)):
                if (
                    _violates(pod, present_pods, by_name)
                    and evictor.accepts(pod)
                    and await evictor.evict(pod)
                ):
                    del present[pod.metadata.namespace][pod.metadata.name]


class _PresentPods:
    """Which pods a term selects, by labels that are looked up where the selector names one.

    Args:
        pods: by namespace and name; those that go are taken out.
    """

    def __init__(self, pods: PodsByNamespace) -> None:
        self._pods = pods
        self._by_label: dict[tuple[str, str], dict[str, list[Pod]]] = {}

    def selects(self, term: PodAffinityTerm, owner: Pod, domain: _Domain) -> bool:
        """Whether a term selects a pod other than its owner that is in a domain, and still there.

        Where a pod is costs less to tell than whether it is selected, and says no more often.
        """
        for namespace in term.namespaces or [owner.metadata.namespace]:
            there = self._pods.get(namespace, {})
            for pod in self._candidates(namespace, term):
                if (
                    domain.has(pod.spec.node_name)
                    and is_selected(term, owner, pod)
                    and there.get(pod.metadata.name) is pod
                ):
                    return True
        return False

    def _candidates(self, namespace: str, term: PodAffinityTerm) -> Iterable[Pod]:
        """All pods of a namespace, or those of the value that the selector wants of one label."""
        selector = term.label_selector
        if selector is None or not selector.match_labels:
            return list(self._pods.get(namespace, {}).values())
        label, value = next(iter(selector.match_labels.items()))
        by_value = self._by_label.get((namespace, label))
        if by_value is None:
            by_value = self._by_label[namespace, label] = {}
            for pod in self._pods.get(namespace, {}).values():
                by_value.setdefault(pod.metadata.labels.get(label, ""), []).append(pod)
        return by_value.get(value, ())


class _Domain:
    """Where pods stand in the same domain as one of a node.

    Args:
        key: of the label by whose values nodes are one domain.
        node_name: the node, a domain in any case.
        nodes: by name, all that pods are on.
    """

    def __init__(self, key: str, node_name: str, nodes: Mapping[str, Node]) -> None:
        self._key, self._node_name, self._nodes = key, node_name, nodes
        self._value = nodes[node_name].metadata.labels.get(key)

    def has(self, node_name: str) -> bool:
        """Whether a node belongs to it."""
        if node_name == self._node_name:
            return True
        value = self._value
        return value is not None and self._nodes[node_name].metadata.labels.get(self._key) == value


def _violates(pod: Pod, present: _PresentPods, nodes: Mapping[str, Node]) -> bool:
    """Whether a required anti-affinity term of the pod selects one in the same domain."""
    return any(
        present.selects(term, pod, _Domain(term.topology_key, pod.spec.node_name, nodes))
        for term in required_anti_affinity(pod)
    )
