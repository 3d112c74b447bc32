# SPDX-License-Identifier: Apache-2.0
"""The Kubernetes QoS class of a pod: Guaranteed, Burstable or BestEffort."""

from __future__ import annotations

from typing import Any

from koord.controlplane.kinds.quantities import ZERO, parsed

Document = dict[str, Any]
_COUNTED = ("cpu", "memory")


def qos_class(spec: Document) -> str:
    """The class, from requests and limits of CPU and memory (pod-level resources win)."""
    whole = spec.get("resources")
    if whole is not None:
        owners = [whole]
    else:
        owners = [container.get("resources") or {} for container in _containers(spec)]
    guaranteed, any_amount = True, False
    for resources in owners:
        limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
        for name in _COUNTED:
            limit, request = limits.get(name), requests.get(name)
            has_limit = limit is not None and parsed(limit) > ZERO
            has_request = request is not None and parsed(request) > ZERO
            any_amount = any_amount or has_limit or has_request
            if not has_limit or request is None or parsed(request) != parsed(limit):
                guaranteed = False
    if not any_amount:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _containers(spec: Document) -> list[Document]:
    containers: list[Document] = spec.get("containers") or []
    first: list[Document] = spec.get("initContainers") or []
    return containers + first if first else containers
