# SPDX-License-Identifier: Apache-2.0
"""A cluster with a secret in every place where people put them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from koord.kube.transport.messages import Request, Transport

Document = dict[str, Any]
MARK = "s3cr3t"
"""A part of each of them."""
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def secret(place: str) -> str:
    """A value that is found again, named after where it was planted."""
    return f"{MARK}-{place}-x7Kq"


def objects(namespace: str) -> Iterator[tuple[str, Document]]:
    """Paths of collections, and what is created there."""
    core = f"/api/v1/namespaces/{namespace}"
    yield "/api/v1/namespaces", {"metadata": {"name": namespace}}
    encoded = base64.b64encode(secret("secret").encode()).decode()
    yield f"{core}/secrets", {"metadata": {"name": "database"}, "data": {"password": encoded}}
    yield (
        f"{core}/configmaps",
        {
            "metadata": {"name": "slo-controller-config", **_annotated("configmap")},
            "data": {
                "colocation-config": json.dumps(
                    {"enable": True, "password": secret("config-value"), "keys": ["ok"]}
                ),
                "own-key": secret("config-key"),
            },
        },
    )
    yield (
        f"/apis/apps/v1/namespaces/{namespace}/deployments",
        {
            "metadata": {"name": "koord-scheduler", **_annotated("deployment")},
            "spec": {
                "selector": {"matchLabels": {"app": "koord"}},
                "template": {
                    "metadata": {"labels": {"app": "koord"}, **_annotated("template")},
                    "spec": _work("deployment", [f"--feature-gates=A={MARK is None}"]),
                },
            },
        },
    )
    yield f"{core}/pods", {
        "metadata": {"name": "waits", **_annotated("pod")},
        "spec": _work("pod", []) | {
            "schedulerName": "koord-scheduler",
            "volumes": [{"name": "v", "hostPath": {"path": f"/{secret('volume')}"}}],
        },
    }  # fmt: skip
    yield "/apis/scheduling.koordinator.sh/v1alpha1/reservations", {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "room", **_annotated("reservation")},
        "spec": {
            "owners": [{"labelSelector": {"matchLabels": {"a": "b"}}}], "ttl": "1h",
            "template": {"metadata": _annotated("reserved"), "spec": _work("reserved", [])},
        },
    }  # fmt: skip
    yield f"{core}/events", {
        "metadata": {"name": "said", "namespace": namespace},
        "involvedObject": {"kind": "Pod", "name": "waits", "namespace": namespace},
        "reason": "Failed", "type": "Warning", "source": {"component": "koord-scheduler"},
        "message": f"ran --password {secret('flag')} and DB_TOKEN={secret('text')}: "
        f"Authorization: Bearer {secret('bearer')} at https://me:{secret('url')}@db/x",
    }  # fmt: skip
    yield (
        f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
        {
            "metadata": {
                "name": "koord-scheduler",
                "annotations": {"koord.sh/endpoint": f"http://u:{secret('endpoint')}@127.0.0.1:1"},
            },
            "spec": {"holderIdentity": "one", "leaseDurationSeconds": 15},
        },
    )


def _annotated(place: str) -> Document:
    applied = json.dumps({"spec": {"env": secret(f"{place}-applied")}})
    return {
        "annotations": {_LAST_APPLIED: applied, "example.com/token": secret(f"{place}-note")},
        "labels": {"app": "koord", "example.com/key": secret(f"{place}-label")},
    }


def _work(place: str, more: list[str]) -> Document:
    return {
        "containers": [
            {
                "name": "main",
                "image": "koord/koord:1",
                "command": ["run", secret(f"{place}-command")],
                "args": [
                    *more, "--port=10251", f"--token={secret(f'{place}-flag')}",
                    f"--unknown={secret(f'{place}-unknown')}", "-x", secret(f"{place}-word"),
                ],
                "env": [{"name": "PASSWORD", "value": secret(f"{place}-env")}],
                "envFrom": [{"secretRef": {"name": "database"}}],
                "resources": {"requests": {"cpu": "1"}},
            }
        ]
    }  # fmt: skip


async def plant(transport: Transport, namespace: str) -> None:
    """Creates all of them; the server's own failures are the test's."""
    for path, document in objects(namespace):
        body = json.dumps(document).encode()
        answer = await transport.send(Request("POST", path, body=body))
        assert answer.status == 201, (path, answer.body)
