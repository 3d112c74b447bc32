# SPDX-License-Identifier: Apache-2.0
"""What the rules of a pod cost, beside reading the pod at all."""

from __future__ import annotations

import msgspec

from benchmarks.conftest import Gate
from koord.base.documents import Document
from koord.controlplane.kinds import registry
from koord.controlplane.kinds.validation import object_meta
from koord.controlplane.resource import Context

POD: Document = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-7d9c5b6f4-x2x7p",
        "namespace": "prod",
        "labels": {"app": "web", "pod-template-hash": "7d9c5b6f4", "koordinator.sh/qosClass": "LS"},
        "annotations": {"prometheus.io/scrape": "true"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web-7d9c5b6f4",
                "uid": "6a2d4a51-2b2a-4c6d-9a8e-0123456789ab",
                "controller": True,
            }
        ],
    },
    "spec": {
        "schedulerName": "koord-scheduler",
        "containers": [
            {
                "name": "app",
                "image": "registry.example.com/web:1.2.3",
                "ports": [{"containerPort": 8080, "name": "http"}],
                "env": [
                    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "MODE", "value": "prod"},
                ],
                "resources": {
                    "requests": {"cpu": "500m", "memory": "512Mi"},
                    "limits": {"cpu": "1", "memory": "1Gi"},
                },
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
                "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
            }
        ],
        "volumes": [{"name": "config", "configMap": {"name": "web"}}],
        "tolerations": [{"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}],
    },
}


def test_a_new_pod(gate: Gate) -> None:
    pods = next(resource for resource in registry.resources() if resource.storage == "pods")
    strategy, context = pods.strategy, Context(now="2030-01-01T00:00:00Z")
    body, decode = msgspec.json.encode(POD), msgspec.json.Decoder().decode

    def admit() -> Document:
        document: Document = decode(body)
        strategy.default(document)
        strategy.prepare_create(document, context)
        assert not object_meta.validate_create(pods, document)
        assert not strategy.validate(document)
        return document

    # At most five times what it costs to read the pod's text into plain values.
    gate("kinds: decode, defaults and rules of a pod", admit, lambda: decode(body), 0.15)
    assert admit()["status"]["qosClass"] == "Burstable"
