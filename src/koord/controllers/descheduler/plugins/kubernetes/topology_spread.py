# SPDX-License-Identifier: Apache-2.0
"""RemovePodsViolatingTopologySpreadConstraint: domains that hold more than their skew allows.

Rule: docs/reference/descheduling-plugins.md#removepodsviolatingtopologyspreadconstraint.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from koord.api import selectors
from koord.api.kinds.meta import LabelSelector
from koord.api.tolerations import KEEPS_OUT, untolerated
from koord.controllers.descheduler.framework.plugin import DeschedulerPlugin
from koord.controllers.descheduler.plugins.kubernetes.strategy_args import (
    StrategyArgs,
    check_words,
)
from koord.controllers.descheduler.predicates.node_selection import (
    node_affinity,
    required_affinity,
)
from koord.controllers.descheduler.snapshot import FINISHED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koord.api.kinds.constraints import (
        NodeSelector,
        Toleration,
        TopologySpreadConstraint,
    )
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controllers.scheduler.config.field_path import FieldPath

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
_HONOR = "Honor"


class RemovePodsViolatingTopologySpreadConstraintArgs(StrategyArgs, frozen=True):
    """Which constraints are looked at, and whether a pod has to fit another node."""

    constraints: list[str] = msgspec.field(default_factory=lambda: [HARD])
    topology_balance_node_fit: bool = True

    def check(self, at: FieldPath) -> None:
        """The constraints are known, each is there once."""
        super().check(at)
        spot = at.inside("constraints")
        check_words(self.constraints, (HARD, SOFT), spot)
        spot.distinct(self.constraints, "constraint")


@dataclass(frozen=True)
class Spread:
    """One constraint with what it takes from the pod that has it.

    Args:
        max_skew: how much domains may differ.
        topology_key: the label that makes domains.
        selector: the constraint's own with the pod's values of ``matchLabelKeys``; None for no pod.
        affinity: what nodes must match to count; None for all.
        node_selector: labels that nodes must have to count.
        tolerations: those by which tainted nodes count; None where taints say nothing.
    """

    max_skew: int
    topology_key: str
    selector: LabelSelector | None
    affinity: NodeSelector | None
    node_selector: tuple[tuple[str, str], ...]
    tolerations: tuple[Toleration, ...] | None

    def includes(self, node: Node) -> bool:
        """Whether the node makes a domain."""
        labels = node.metadata.labels
        if self.topology_key not in labels:
            return False
        if any(labels.get(key) != value for key, value in self.node_selector):
            return False
        fields = {selectors.NAME_FIELD: node.metadata.name}
        if self.affinity is not None and not selectors.matches_terms(
            self.affinity.node_selector_terms, labels, fields
        ):
            return False
        return (
            self.tolerations is None
            or untolerated(node.spec.taints, self.tolerations, KEEPS_OUT) is None
        )


class RemovePodsViolatingTopologySpreadConstraint(DeschedulerPlugin):
    """The strategy; namespace by namespace, in the order of their names."""

    name = "RemovePodsViolatingTopologySpreadConstraint"
    args_type = RemovePodsViolatingTopologySpreadConstraintArgs
    args: RemovePodsViolatingTopologySpreadConstraintArgs

    async def balance(self, nodes: Sequence[Node]) -> None:
        """Evicts the pods that all constraints together would have elsewhere."""
        evictor = self.handle.evictor
        selected = self.args.pod_filter(evictor.filter)
        by_namespace: dict[str, list[Pod]] = {}
        for node in nodes:
            for pod in self.handle.snapshot.pods_on(node.metadata.name):
                by_namespace.setdefault(pod.metadata.namespace, []).append(pod)
        marked: dict[str, Pod] = {}
        for _, pods in sorted(by_namespace.items()):
            looked_at = [pod for pod in pods if selected(pod)]
            for spread in self._spreads(looked_at):
                for pod in self._surplus(spread, looked_at, nodes):
                    marked.setdefault(f"{pod.metadata.namespace}/{pod.metadata.name}", pod)
        for pod in marked.values():
            if selected(pod) and evictor.pre_eviction_filter(pod):
                await evictor.evict(pod)

    def _spreads(self, pods: Sequence[Pod]) -> Iterator[Spread]:
        """The different constraints of pods, in the order in which they are met."""
        known: set[bytes] = set()
        for pod in pods:
            for constraint in pod.spec.topology_spread_constraints:
                if constraint.when_unsatisfiable not in self.args.constraints:
                    continue
                spread = _spread_of(constraint, pod)
                key = msgspec.json.encode(spread, order="deterministic")
                if key not in known:
                    known.add(key)
                    yield spread

    def _surplus(self, spread: Spread, pods: Sequence[Pod], nodes: Sequence[Node]) -> list[Pod]:
        """The pods that go so that the domains of one constraint are balanced."""
        domains = _domains(spread, pods, nodes)
        sizes = [len(inside) for inside in domains.values()]
        if not sizes or max(sizes) - min(sizes) <= spread.max_skew:
            return []
        average = sum(sizes) / len(sizes)
        below = [
            node
            for node in nodes
            if spread.includes(node)
            and len(domains[node.metadata.labels[spread.topology_key]]) < average
        ]
        # Domains of equal size in the order of their values, which is ours.
        ordered = sorted(domains.items(), key=lambda domain: (len(domain[1]), domain[0]))
        filled = [self._by_mobility(inside) for _, inside in ordered]
        return self._level(filled, average, spread.max_skew, below)

    def _by_mobility(self, pods: Sequence[Pod]) -> list[Pod]:
        """Pods from those that stay to those that go first: from the end of this list."""
        evictor = self.handle.evictor

        def key(pod: Pod) -> tuple[bool, bool, bool, int]:
            affinity = node_affinity(pod)
            free = not pod.spec.node_selector and affinity is None
            priority = pod.spec.priority
            return evictor.filter(pod), free, priority is not None, priority or 0

        return sorted(pods, key=key)

    def _level(
        self, domains: list[list[Pod]], average: float, max_skew: int, below: Sequence[Node]
    ) -> list[Pod]:
        """Moves pods from the fullest domain to the emptiest until the skew holds."""
        surplus: list[Pod] = []
        low, high = 0, len(domains) - 1
        while low < high:
            if len(domains[high]) <= average:
                high -= 1
            skew = len(domains[high]) - len(domains[low])
            moves = min(
                math.ceil(len(domains[high]) - average),
                math.ceil(average - len(domains[low])),
                math.ceil((skew - max_skew) / 2),
            )
            if skew <= max_skew or moves <= 0:
                low += 1
                continue
            stay, go = self._split(domains[high], moves, below)
            anywhere = not self.args.topology_balance_node_fit
            surplus += [pod for pod in go if anywhere or self._fits(pod, below)]
            domains[high] = stay
            domains[low] = domains[low] + go
        return surplus

    def _split(
        self, pods: list[Pod], moves: int, below: Sequence[Node]
    ) -> tuple[list[Pod], list[Pod]]:
        """Those that stay, and the last ``moves``; pods that fit a node of ``below`` are last."""
        ordered = sorted(pods, key=lambda pod: self._fits(pod, below))
        return ordered[:-moves], ordered[-moves:]

    def _fits(self, pod: Pod, nodes: Sequence[Node]) -> bool:
        return self.handle.node_fit.fits_another(pod, nodes)


def _spread_of(constraint: TopologySpreadConstraint, pod: Pod) -> Spread:
    selector = constraint.label_selector
    labels = pod.metadata.labels
    kept = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    honors_affinity = (constraint.node_affinity_policy or _HONOR) == _HONOR
    honors_taints = constraint.node_taints_policy == _HONOR
    return Spread(
        constraint.max_skew,
        constraint.topology_key,
        selector and LabelSelector({**selector.match_labels, **kept}, selector.match_expressions),
        required_affinity(pod) if honors_affinity else None,
        tuple(sorted(pod.spec.node_selector.items())) if honors_affinity else (),
        tuple(pod.spec.tolerations) if honors_taints else None,
    )


def _domains(spread: Spread, pods: Sequence[Pod], nodes: Sequence[Node]) -> dict[str, list[Pod]]:
    """Pods by the value of the topology key; a pod opens a domain that policies leave out."""
    by_name = {node.metadata.name: node for node in nodes}
    domains: dict[str, list[Pod]] = {}
    for node in nodes:
        if spread.includes(node):
            domains.setdefault(node.metadata.labels[spread.topology_key], [])
    for pod in pods:
        node = by_name[pod.spec.node_name]
        value = node.metadata.labels.get(spread.topology_key)
        if value is None or pod.metadata.deletion_timestamp or pod.status.phase in FINISHED:
            continue
        if selectors.matches(spread.selector, pod.metadata.labels):
            domains.setdefault(value, []).append(pod)
    return domains
