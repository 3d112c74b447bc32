# SPDX-License-Identifier: Apache-2.0
"""HorizontalPodAutoscalers: bounds hold without any figures, and what is missing is said."""

from __future__ import annotations

import pytest

from tests.contract.api import Api, Document, at
from tests.contract.conftest import Server, make_namespace
from tests.contract.controllers.test_controllers import eventually
from tests.contract.documents import deployment, document

SCALERS = "autoscaling/v2/horizontalpodautoscalers"


@pytest.fixture
def api(cluster: Server) -> Api:
    """Requests to a server with controllers."""
    return cluster.api


@pytest.fixture
def namespace(api: Api) -> str:
    return make_namespace(api)


def scaler(api: Api, namespace: str, name: str, least: int, most: int) -> None:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    spec = {"scaleTargetRef": target, "minReplicas": least, "maxReplicas": most}
    body = document("autoscaling/v2", "HorizontalPodAutoscaler", name, spec=spec)
    api.post(at(SCALERS, namespace), body).ok  # noqa: B018


def status(api: Api, namespace: str, name: str) -> Document:
    found: Document = api.get(f"{at(SCALERS, namespace)}/{name}").ok.get("status", {})
    return found


def conditions(found: Document) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in found.get("conditions") or ()}


def test_bounds_hold_and_missing_figures_are_told(api: Api, namespace: str) -> None:
    for name, replicas in (("many", 5), ("few", 1), ("none", 0)):
        body = deployment(name, replicas=replicas)
        api.post(at("deployments", namespace), body).ok  # noqa: B018
    scaler(api, namespace, "many", 1, 3)
    scaler(api, namespace, "few", 2, 3)
    scaler(api, namespace, "none", 1, 3)
    scaler(api, namespace, "lost", 1, 3)
    for name, size in (("many", 3), ("few", 2)):
        path = f"{at('deployments', namespace)}/{name}"
        eventually(
            lambda path=path: api.get(path).ok["spec"]["replicas"],  # type: ignore[misc]
            lambda found, size=size: found == size,  # type: ignore[misc]
        )
    found = eventually(lambda: status(api, namespace, "many"), lambda now: "lastScaleTime" in now)
    assert (found["currentReplicas"], found["desiredReplicas"]) == (5, 3)
    assert conditions(found)["AbleToScale"] == ("True", "SucceededRescale")
    found = eventually(lambda: status(api, namespace, "none"), lambda now: "conditions" in now)
    assert conditions(found) == {
        "AbleToScale": ("True", "SucceededGetScale"),
        "ScalingActive": ("False", "ScalingDisabled"),
    }
    found = eventually(lambda: status(api, namespace, "lost"), lambda now: "conditions" in now)
    assert conditions(found) == {"AbleToScale": ("False", "FailedGetScale")}
    found = eventually(
        lambda: status(api, namespace, "many"), lambda now: "ScalingActive" in conditions(now)
    )
    assert conditions(found) == {
        "AbleToScale": ("True", "SucceededGetScale"),
        "ScalingActive": ("False", "FailedGetResourceMetric"),
    }
    assert found["currentReplicas"] == 3
