# SPDX-License-Identifier: Apache-2.0
"""Decoding into typed objects against the standard library's parse into dictionaries."""

from __future__ import annotations

import json

import pytest

from benchmarks.conftest import Gate
from koord.api import NodeMetric, Pod, decode_as


def _pod() -> bytes:
    resources = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}}
    metadata = {
        "name": "web",
        "labels": {f"label-{i}": "value" for i in range(8)},
        # What the API server sends along and nobody here reads.
        "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {}}} for _ in range(20)],
    }
    spec = {"containers": [{"name": "app", "image": "app", "resources": resources}]}
    return json.dumps({"kind": "Pod", "metadata": metadata, "spec": spec}).encode()


def _node_metric() -> bytes:
    usage = {"resources": {"cpu": "100m", "memory": "1Gi"}}
    pods = [{"name": f"pod-{i}", "namespace": "ns", "podUsage": usage} for i in range(30)]
    return json.dumps({"kind": "NodeMetric", "status": {"podsMetric": pods}}).encode()


# Quantities are parsed too, which the reference leaves as texts: 60 of them in the second case.
@pytest.mark.parametrize(
    ("name", "data", "kind", "at_least"),
    [("pod", _pod(), Pod, 0.8), ("NodeMetric of 30 pods", _node_metric(), NodeMetric, 0.2)],
)
def test_decode(
    gate: Gate, name: str, data: bytes, kind: type[Pod | NodeMetric], at_least: float
) -> None:
    gate(f"api: decode {name}", lambda: decode_as(data, kind), lambda: json.loads(data), at_least)
