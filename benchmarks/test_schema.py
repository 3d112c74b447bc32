# SPDX-License-Identifier: Apache-2.0
"""What the embedded API server's schemas cost, beside a bare decode of the same body."""

from __future__ import annotations

from typing import Any

import msgspec

from benchmarks.conftest import Gate
from koord.controlplane.schema import core_schema
from koord.controlplane.schema.codec.bodies import parse
from koord.controlplane.schema.codec.walk import DocumentWalk

POD = core_schema("", "v1", "Pod")


def container(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "image": "registry.example/app:1",
        "command": ["/bin/app", "--flag=1"],
        "env": [{"name": f"E{number}", "value": f"v{number}"} for number in range(8)],
        "ports": [{"containerPort": 8080, "name": "http"}],
        "resources": {
            "requests": {"cpu": "500m", "memory": "1Gi"},
            "limits": {"cpu": "1", "memory": "1Gi"},
        },
        "volumeMounts": [{"name": "config", "mountPath": "/config"}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 5},
    }


BODY = msgspec.json.encode(
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-0", "namespace": "default", "labels": {"app": "web"}},
        "spec": {
            "containers": [container("a"), container("b")],
            "volumes": [{"name": "config", "configMap": {"name": "web"}}],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            "nodeSelector": {"pool": "a"},
            "schedulerName": "koord-scheduler",
        },
    }
)


def walked() -> dict[str, Any]:
    """The same answer without a proof."""
    document: dict[str, Any] = DocumentWalk("").document(parse(BODY, "Pod"), POD.shape)
    return document


def test_a_pod_costs_little_more_than_its_decoding(gate: Gate) -> None:
    decode = msgspec.json.Decoder().decode
    assert POD.decode(BODY, "Strict") == (decode(BODY), [])
    gate("schema: a pod, beside a bare decode", lambda: POD.decode(BODY, "Warn"),
         lambda: decode(BODY), 0.2)  # fmt: skip


def test_a_proof_spares_the_walk(gate: Gate) -> None:
    assert walked() == POD.decode(BODY, "Strict")[0]
    gate("schema: a pod, beside a walk", lambda: POD.decode(BODY, "Warn"), walked, 4)
