# SPDX-License-Identifier: Apache-2.0
"""Disruption budgets, asked before anything is reserved: those of Kubernetes and of OpenKruise.

Rule: docs/reference/migration.md#budgets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec import field

from koord.api import selectors
from koord.api.kinds.meta import LabelSelector, Object
from koord.api.kinds.registry import Kind
from koord.api.wirestruct import WireStruct
from koord.controllers.cluster.pods import controller
from koord.controllers.descheduler.migration.arbitration.pod_index import is_active, is_ready
from koord.controllers.descheduler.migration.arbitration.refusal import MoveRefusal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.workloads import PodDisruptionBudget
    from koord.controllers.cluster.views import View

UNAVAILABLE_BUDGET = Kind(
    "policy.kruise.io", "v1alpha1", "PodUnavailableBudget", "podunavailablebudgets", True,
    "workloads.PodDisruptionBudget",
)  # fmt: skip


class BudgetTarget(WireStruct):
    """The workload whose pods a budget is for."""

    api_version: str = ""
    kind: str = ""
    name: str = ""


class UnavailableBudgetSpec(WireStruct):
    """Pods by a selector, or by their workload."""

    selector: LabelSelector | None = None
    target_ref: BudgetTarget | None = field(default=None, name="targetRef")


class UnavailableBudgetStatus(WireStruct):
    """How many pods may become unavailable now."""

    unavailable_allowed: int = 0


class PodUnavailableBudget(Object):
    """OpenKruise's limit on pods that are unavailable, for whatever reason."""

    spec: UnavailableBudgetSpec = field(default_factory=UnavailableBudgetSpec)
    status: UnavailableBudgetStatus = field(default_factory=UnavailableBudgetStatus)


class Budget(NamedTuple):
    """A budget that covers a pod.

    Attributes:
        kind: of the object, and the reason of a refusal.
        key: ``namespace/name``.
        allowed: disruptions that it still has.
    """

    kind: str
    key: str
    allowed: int


class Budgets:
    """Budgets by namespace.

    Args:
        disruption: PodDisruptionBudgets.
        unavailable: PodUnavailableBudgets.
    """

    def __init__(
        self, disruption: View[PodDisruptionBudget], unavailable: View[PodUnavailableBudget]
    ) -> None:
        self._by_namespace: dict[str, dict[str, PodDisruptionBudget | PodUnavailableBudget]] = {}
        self._views = disruption, unavailable

    def attach(self, changed: Callable[[], None]) -> None:
        """Follows the budgets from now on.

        Args:
            changed: told whenever one may allow more, or less.
        """

        def put(budget: PodDisruptionBudget | PodUnavailableBudget) -> None:
            meta = budget.metadata
            key = f"{type(budget).__name__}/{meta.name}"
            self._by_namespace.setdefault(meta.namespace, {})[key] = budget
            changed()

        def gone(budget: PodDisruptionBudget | PodUnavailableBudget, missed: bool) -> None:
            meta = budget.metadata
            key = f"{type(budget).__name__}/{meta.name}"
            left = self._by_namespace.get(meta.namespace, {})
            left.pop(key, None)
            if not left:
                self._by_namespace.pop(meta.namespace, None)
            changed()

        for view in self._views:
            view.on_change(put, lambda old, new: put(new), gone)

    def covering(self, pod: Pod) -> Iterator[Budget]:
        """The budgets that count a pod."""
        for key, budget in self._by_namespace.get(pod.metadata.namespace, {}).items():
            if isinstance(budget, PodUnavailableBudget):
                if _is_target(budget, pod):
                    yield Budget("PodUnavailableBudget", key, budget.status.unavailable_allowed)
            elif selectors.matches(budget.spec.selector, pod.metadata.labels) and not _is_idle(
                pod, budget
            ):
                yield Budget("PodDisruptionBudget", key, budget.status.disruptions_allowed)


class BudgetRound:
    """What budgets still have, less what was let pass and is not evicted yet.

    Args:
        budgets: as they are now.
        moving: pods, by namespace, that will be evicted and are there still.
    """

    def __init__(self, budgets: Budgets, moving: Callable[[str], Iterable[Pod]]) -> None:
        self._budgets = budgets
        self._moving = moving
        self._taken: dict[tuple[str, str], int] = {}
        self._known: set[str] = set()

    def refusal(self, pod: Pod) -> MoveRefusal | None:
        """Which budget has nothing left for the pod; None for none."""
        namespace = pod.metadata.namespace
        if namespace not in self._known:
            self._known.add(namespace)
            for other in self._moving(namespace):
                self.take(other, 1)
        found = list(self._budgets.covering(pod))
        several = [budget.key for budget in found if budget.kind == "PodDisruptionBudget"]
        if len(several) > 1:
            names = ", ".join(key.partition("/")[2] for key in sorted(several))
            text = f"several PodDisruptionBudgets cover it: {names}; the API evicts no such pod"
            return MoveRefusal("PodDisruptionBudget", text)
        for budget in found:
            taken = self._taken.get((namespace, budget.key), 0)
            if budget.allowed <= taken:
                name = f"{namespace}/{budget.key.partition('/')[2]}"
                text = f"{budget.kind} {name} allows {budget.allowed} disruptions"
                return MoveRefusal(
                    budget.kind, text + (f", {taken} are under way" if taken else "")
                )
        return None

    def take(self, pod: Pod, number: int) -> None:
        """Counts a pod that is let pass, or with -1 takes that back."""
        for budget in self._budgets.covering(pod):
            place = pod.metadata.namespace, budget.key
            self._taken[place] = self._taken.get(place, 0) + number


def _is_idle(pod: Pod, budget: PodDisruptionBudget) -> bool:
    """Whether evicting the pod disrupts nothing: it is not Ready, and enough others are."""
    if not is_active(pod) or pod.status.phase == "Pending":
        return True
    status = budget.status
    return not is_ready(pod) and status.current_healthy >= status.desired_healthy > 0


def _is_target(budget: PodUnavailableBudget, pod: Pod) -> bool:
    target, owner = budget.spec.target_ref, controller(pod)
    if target is None:
        return selectors.matches(budget.spec.selector, pod.metadata.labels)
    if owner is None:
        return False
    if (owner.kind, owner.name) == (target.kind, target.name):
        return True
    # A Deployment's ReplicaSets are named after it.
    of_deployment = target.kind == "Deployment" and owner.kind == "ReplicaSet"
    return of_deployment and owner.name.rpartition("-")[0] == target.name
