# SPDX-License-Identifier: Apache-2.0
"""Which pods' preemption would break a disruption budget."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from koord.api import selectors
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.api.kinds.workloads import PodDisruptionBudget
    from koord.controllers.cluster.pods import PodInfo


def violating(pods: Sequence[PodInfo], budgets: Iterable[PodDisruptionBudget]) -> set[str]:
    """The uids of those pods for which a budget has nothing left, once those before them went.

    Kubernetes: filterPodsWithPDBViolation. A pod without labels, one of another namespace, and a
    selector that is empty or cannot be read match nothing.
    """
    chosen = [budget for budget in budgets if _selects(budget)]
    left = [budget.status.disruptions_allowed for budget in chosen]
    found: set[str] = set()
    for pod in pods:
        for number, budget in enumerate(chosen):
            if _matches(budget, pod):
                left[number] -= 1
                if left[number] < 0:
                    found.add(pod.uid)
    return found


def _selects(budget: PodDisruptionBudget) -> bool:
    selector = budget.spec.selector
    if selector is None or selectors.is_empty(selector):
        return False
    try:
        selectors.check(selector, budget.title, "spec.selector")
    except KoordError:
        return False
    return True


def _matches(budget: PodDisruptionBudget, pod: PodInfo) -> bool:
    labels = pod.shape.labels
    here = budget.metadata.namespace == pod.shape.namespace
    return bool(labels) and here and selectors.matches(budget.spec.selector, labels)
