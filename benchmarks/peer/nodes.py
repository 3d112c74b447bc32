# SPDX-License-Identifier: Apache-2.0
"""The machines of the comparison, and the plainest pod.

Nodes are objects without a kubelet: 32 CPUs, 256 GiB, 110 pods, ten zones. Pods end
at once when deleted (grace period 0), as no kubelet would confirm it.
"""

from __future__ import annotations

from typing import Any

from koord.base.documents import Document

HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ZONES = 10
MOST_CPUS = 32


def node_name(number: int) -> str:
    """Of the node with a number."""
    return f"node-{number:05}"


def node(number: int) -> Document:
    """A node with its status."""
    name = node_name(number)
    amounts = {
        "cpu": str(MOST_CPUS), "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi",
    }  # fmt: skip
    disk = ("ssd", "hdd")[number % 2]
    labels = {HOST: name, ZONE: f"zone-{number % ZONES}", "disk": disk}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }


def pod(name: str, **spec: Any) -> Document:
    """A pod of one container; ``requests`` and ``labels`` are set in their places."""
    requests = spec.pop("requests", {"cpu": "100m", "memory": "500Mi"})
    labels = spec.pop("labels", {"app": "measured"})
    container = {"name": "pause", "image": "pause", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": labels},
        "spec": {"terminationGracePeriodSeconds": 0, "containers": [container], **spec},
    }
