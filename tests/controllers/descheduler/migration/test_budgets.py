# SPDX-License-Identifier: Apache-2.0
"""Budgets and limits by literal examples: what OpenKruise's budgets cover, sizes of workloads."""

from __future__ import annotations

from typing import Any

import pytest

from koord.api.codec import convert
from koord.api.kinds.pod import Pod
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.controllers.descheduler.migration.arbitration.budgets import (
    BudgetRound,
    Budgets,
    PodUnavailableBudget,
)
from koord.controllers.descheduler.migration.arbitration.workload_limits import workload_limit
from koord.controllers.scheduler.cache.local_views import LocalViews


def web(name: str = "web-5d8f-a", owner: str = "web-5d8f", kind: str = "ReplicaSet") -> Pod:
    """A pod that runs and is ready."""
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": "u",
                 "controller": True}  # fmt: skip
    document = {
        "metadata": {"name": name, "namespace": "shop", "uid": name, "labels": {"app": "web"},
                     "ownerReferences": [reference]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip
    return convert(document, Pod, "Pod")


def unavailable(name: str, allowed: int, **spec: Any) -> PodUnavailableBudget:
    document = {"metadata": {"name": name, "namespace": "shop"}, "spec": spec,
                "status": {"unavailableAllowed": allowed}}  # fmt: skip
    return convert(document, PodUnavailableBudget, "PodUnavailableBudget")


def refusal(pod: Pod, *budgets: PodUnavailableBudget, moving: tuple[Pod, ...] = ()) -> str:
    """Why a pod stays; empty where it may go."""
    views = LocalViews()
    followed = Budgets(views.view(PodDisruptionBudget), views.view(PodUnavailableBudget))
    followed.attach(lambda: None)
    for budget in budgets:
        views.view(PodUnavailableBudget).put(budget)
    found = BudgetRound(followed, lambda namespace: moving).refusal(pod)
    return found.message if found is not None else ""


def test_a_pod_unavailable_budget_keeps_what_it_selects() -> None:
    selector = {"matchLabels": {"app": "web"}}
    kept = "PodUnavailableBudget shop/b allows 0 disruptions"
    assert refusal(web(), unavailable("b", 0, selector=selector)) == kept
    assert refusal(web(), unavailable("b", 1, selector=selector)) == ""
    other = unavailable("b", 0, selector={"matchLabels": {"app": "db"}})
    assert refusal(web(), other) == ""


def test_what_is_under_way_counts() -> None:
    budget = unavailable("b", 1, selector={"matchLabels": {"app": "web"}})
    kept = "PodUnavailableBudget shop/b allows 1 disruptions, 1 are under way"
    assert refusal(web(), budget, moving=(web("web-5d8f-b"),)) == kept


@pytest.mark.parametrize(
    ("kind", "name", "owner", "owner_kind", "covers"),
    [
        ("Deployment", "web", "web-5d8f", "ReplicaSet", True),
        ("Deployment", "web", "web-api-5d8f", "ReplicaSet", False),
        ("Deployment", "web-api", "web-api-5d8f", "ReplicaSet", True),
        ("CloneSet", "web", "web", "CloneSet", True),
        ("CloneSet", "web", "web", "StatefulSet", False),
    ],
)
def test_a_pod_unavailable_budget_may_name_a_workload(
    kind: str, name: str, owner: str, owner_kind: str, covers: bool
) -> None:
    budget = unavailable("b", 0, targetRef={"apiVersion": "a/v1", "kind": kind, "name": name})
    assert bool(refusal(web(owner=owner, kind=owner_kind), budget)) is covers


@pytest.mark.parametrize(
    ("replicas", "amount", "limit"),
    [(6, "80%", 4), (6, "150%", 6), (6, 7, 6), (6, None, 2), (50, "0%", 1), (0, None, 0),
     (11, None, 1), (10, None, 2), (4, None, 2), (3, None, 1), (25, None, 2), (6, 0, 1)],
)  # fmt: skip
def test_how_many_of_a_workload_may_move(
    replicas: int, amount: int | str | None, limit: int
) -> None:
    assert workload_limit(replicas, amount) == limit
