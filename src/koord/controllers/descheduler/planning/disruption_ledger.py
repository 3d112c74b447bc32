# SPDX-License-Identifier: Apache-2.0
"""What PodDisruptionBudgets have left while the steps of a plan are added."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from koord.api import selectors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.workloads import PodDisruptionBudget
    from koord.controllers.descheduler.snapshot import ClusterSnapshot


class DisruptionLedger:
    """Counts evictions against the budgets of a snapshot, as the API server would.

    All steps count together, though pods may be ready again before the last one.

    Args:
        snapshot: with the budgets; their status says what each still allows.
    """

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self._snapshot = snapshot
        self._spent: Counter[tuple[str, str]] = Counter()

    def refusal(self, pod: Pod, others: Iterable[Pod] = ()) -> str:
        """Which budget one more eviction would exceed, in one line; empty for none.

        Args:
            pod: that is evicted.
            others: that would be evicted before it.
        """
        budgets = self._of(pod)
        also = Counter(_key(budget) for other in others for budget in self._of(other))
        if len(budgets) > 1:
            names = ", ".join(sorted(budget.metadata.name for budget in budgets))
            return f"several PodDisruptionBudgets select it ({names}): the API server evicts none"
        for budget in budgets:
            allowed = budget.status.disruptions_allowed
            spent = self._spent[_key(budget)] + also[_key(budget)]
            if spent + 1 > allowed:
                title = f"PodDisruptionBudget {'/'.join(_key(budget))}"
                return f"{title} allows {allowed} disruptions, {spent} are planned"
        return ""

    def add(self, pod: Pod) -> None:
        """Counts an eviction that is planned."""
        for budget in self._of(pod):
            self._spent[_key(budget)] += 1

    def _of(self, pod: Pod) -> list[PodDisruptionBudget]:
        """The budgets that count a pod; one without a selector counts none."""
        known = self._snapshot.budgets_by_namespace.get(pod.metadata.namespace, ())
        return [
            budget
            for budget in known
            if budget.spec.selector is not None
            and selectors.matches(budget.spec.selector, pod.metadata.labels)
        ]


def _key(budget: PodDisruptionBudget) -> tuple[str, str]:
    return budget.metadata.namespace, budget.metadata.name
