# SPDX-License-Identifier: Apache-2.0
"""PodDisruptionBudgets as preemption sees them: preferred to be kept, not guaranteed."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api import selectors
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.cluster.views import View


class BudgetSplit(NamedTuple):
    """Pods that may go, by whether their budgets allow it.

    Attributes:
        violating: whose budget would be overdrawn; in the order given.
        others: all others.
        budgets: keys of the budgets that select any of them.
    """

    violating: list[PodInfo]
    others: list[PodInfo]
    budgets: frozenset[str]


class DisruptionBudgets:
    """The budgets of a cluster, by namespace.

    Args:
        view: all of them.
    """

    def __init__(self, view: View[PodDisruptionBudget]) -> None:
        self._by_namespace: dict[str, dict[str, PodDisruptionBudget]] = {}
        # Budgets whose status changed, and whether other things did: for who keeps answers.
        self.changed: set[str] = set()
        self.version = 0
        view.on_change(self._added, self._updated, self._deleted)

    def split(self, pods: Sequence[PodInfo]) -> BudgetSplit:
        """Parts pods into those that budgets let go and those they do not.

        Budgets are used up in the order of the pods. A pod that a budget counts as disrupted
        already uses up none. A selector that is absent, empty or malformed selects nothing.
        """
        violating: list[PodInfo] = []
        others: list[PodInfo] = []
        left: dict[str, int] = {}
        for pod in pods:
            over = False
            for key, budget in self._of(pod):
                left.setdefault(key, budget.status.disruptions_allowed)
                if pod.pod.metadata.name in budget.status.disrupted_pods:
                    continue
                left[key] -= 1
                over = over or left[key] < 0
            (violating if over else others).append(pod)
        return BudgetSplit(violating, others, frozenset(left))

    def _of(self, pod: PodInfo) -> list[tuple[str, PodDisruptionBudget]]:
        known, labels = self._by_namespace.get(pod.shape.namespace), pod.pod.metadata.labels
        if not known or not labels:
            return []
        return [
            (key, budget)
            for key, budget in known.items()
            if selectors.matches(budget.spec.selector, labels)
        ]

    def _added(self, budget: PodDisruptionBudget) -> None:
        self.version += 1
        if _selects(budget):
            meta = budget.metadata
            self._by_namespace.setdefault(meta.namespace, {})[_key(budget)] = budget

    def _updated(self, old: PodDisruptionBudget, budget: PodDisruptionBudget) -> None:
        if old.spec.selector != budget.spec.selector:
            self._deleted(old, False)
            self._added(budget)
        elif _selects(budget):
            self._by_namespace[budget.metadata.namespace][_key(budget)] = budget
            if old.status != budget.status:
                self.changed.add(_key(budget))

    def _deleted(self, budget: PodDisruptionBudget, unknown: bool) -> None:
        self.version += 1
        known = self._by_namespace.get(budget.metadata.namespace, {})
        known.pop(_key(budget), None)
        if not known:
            self._by_namespace.pop(budget.metadata.namespace, None)


def _key(budget: PodDisruptionBudget) -> str:
    return f"{budget.metadata.namespace}/{budget.metadata.name}"


def _selects(budget: PodDisruptionBudget) -> bool:
    selector = budget.spec.selector
    if selector is None or selectors.is_empty(selector):
        return False
    try:
        selectors.check(selector, budget.title, "spec.selector")
    except KoordError:
        return False
    return True
