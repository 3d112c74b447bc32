# SPDX-License-Identifier: Apache-2.0
"""How many pods one round may evict.

Rule: docs/reference/descheduling.md#limits-of-a-cycle.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.pod import Pod


@dataclass(frozen=True)
class EvictionLimits:
    """The most pods of one round; None for any number, 0 for none.

    Args:
        per_node: of one node; pods without a node do not count.
        per_namespace: of one namespace.
        total: of all.
    """

    per_node: int | None = None
    per_namespace: int | None = None
    total: int | None = None


class EvictionLimiter:
    """Counts the evictions of a round, of all profiles together.

    Args:
        limits: what they may not exceed.
    """

    def __init__(self, limits: EvictionLimits) -> None:
        self.limits = limits
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()
        self.total = 0

    def reset(self) -> None:
        """Begins a round."""
        self._nodes.clear()
        self._namespaces.clear()
        self.total = 0

    def refusal(self, pod: Pod) -> str:
        """Which limit one more eviction would exceed, in one line; empty for none."""
        node, namespace = pod.spec.node_name, pod.metadata.namespace
        counts = (
            (f"node {node}", self._nodes[node], self.limits.per_node if node else None),
            (f"namespace {namespace}", self._namespaces[namespace], self.limits.per_namespace),
            ("the round", self.total, self.limits.total),
        )
        for owner, count, limit in counts:
            if limit is not None and count + 1 > limit:
                return f"{count} pods of {owner} were evicted in this round, {limit} may be"
        return ""

    def refusal_of(self, pods: Iterable[Pod]) -> str:
        """Which limit the evictions of all these would exceed, in one line; empty for none."""
        trial = EvictionLimiter(self.limits)
        trial._nodes, trial._namespaces = self._nodes.copy(), self._namespaces.copy()
        trial.total = self.total
        for pod in pods:
            refusal = trial.refusal(pod)
            if refusal:
                return refusal
            trial.add(pod)
        return ""

    def add(self, pod: Pod) -> None:
        """Counts an eviction that succeeded, that of a dry run too."""
        if pod.spec.node_name:
            self._nodes[pod.spec.node_name] += 1
        self._namespaces[pod.metadata.namespace] += 1
        self.total += 1

    def is_node_exhausted(self, node_name: str) -> bool:
        """Whether a node has had as many evictions as it may have."""
        return self._nodes[node_name] == self.limits.per_node
