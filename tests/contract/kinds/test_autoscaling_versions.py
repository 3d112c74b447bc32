# SPDX-License-Identifier: Apache-2.0
"""One HorizontalPodAutoscaler under both of its versions."""

from __future__ import annotations

import json

from tests.contract.api import Api, Document, at
from tests.contract.documents import document

V1 = "autoscaling/v1/horizontalpodautoscalers"
V2 = "autoscaling/v2/horizontalpodautoscalers"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
PREFIX = "autoscaling.alpha.kubernetes.io"
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 60}},
}
HITS = {
    "type": "Pods",
    "pods": {
        "metric": {"name": "hits"},
        "target": {"type": "AverageValue", "averageValue": "10"},
    },
}


def made(api: Api, path: str, version: str, name: str, **spec: object) -> Document:
    whole = {"scaleTargetRef": TARGET, "maxReplicas": 5, **spec}
    body = document(version, "HorizontalPodAutoscaler", name, spec=whole)
    found: Document = api.post(path, body).ok
    return found


def test_a_share_of_the_cpu_is_a_metric(api: Api, namespace: str) -> None:
    older, newer = at(V1, namespace), at(V2, namespace)
    first = made(api, older, "autoscaling/v1", "a", targetCPUUtilizationPercentage=60)
    assert first["spec"] == {
        "scaleTargetRef": TARGET,
        "minReplicas": 1,
        "maxReplicas": 5,
        "targetCPUUtilizationPercentage": 60,
    }
    assert first["status"] == {"currentReplicas": 0, "desiredReplicas": 0}
    assert api.get(f"{newer}/a").ok["spec"]["metrics"] == [CPU]
    plain = made(api, older, "autoscaling/v1", "b")
    assert plain["spec"]["targetCPUUtilizationPercentage"] == 80


def test_what_the_older_version_has_no_field_for_survives_it(api: Api, namespace: str) -> None:
    older, newer = at(V1, namespace), at(V2, namespace)
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    before = made(api, newer, "autoscaling/v2", "a", metrics=[CPU, HITS], behavior=behavior)
    seen = api.get(f"{older}/a").ok
    assert seen["spec"]["targetCPUUtilizationPercentage"] == 60
    annotations = seen["metadata"]["annotations"]
    assert set(annotations) == {f"{PREFIX}/metrics", f"{PREFIX}/behavior"}
    assert [metric["type"] for metric in json.loads(annotations[f"{PREFIX}/metrics"])] == ["Pods"]
    seen["spec"]["maxReplicas"] = 7
    api.put(f"{older}/a", seen).ok  # noqa: B018
    after = api.get(f"{newer}/a").ok
    assert after["spec"] == {**before["spec"], "maxReplicas": 7, "metrics": [HITS, CPU]}
    assert "annotations" not in after["metadata"]


def test_an_annotation_that_holds_nothing_of_the_kind_is_passed_over(
    api: Api, namespace: str
) -> None:
    broken = {f"{PREFIX}/metrics": "[7]", f"{PREFIX}/behavior": "{"}
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 5, "targetCPUUtilizationPercentage": 60}
    body = document("autoscaling/v1", "HorizontalPodAutoscaler", "a", spec=spec, annotations=broken)
    api.post(at(V1, namespace), body).ok  # noqa: B018
    assert api.get(f"{at(V2, namespace)}/a").ok["spec"]["metrics"] == [CPU]
