# SPDX-License-Identifier: Apache-2.0
"""Endpoints, the older form: one object a Service, of the same name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.meta import Object
from koord.api.kinds.registry import Kind
from koord.api.schema import FreeForm
from koord.base.documents import Document
from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.plans import Action, Create, patch
from koord.controlplane.controllers.endpoints.backends import (
    HEADLESS,
    Backend,
    families,
    is_headless,
    publishes_unready,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controlplane.controllers.base.objects import Owner


ENDPOINTS = Kind("", "v1", "Endpoints", "endpoints", True, "meta.Object")
MANAGED_BY = "endpoints.kubernetes.io/managed-by"
MANAGER = "endpoint-controller"
OVER_CAPACITY = "endpoints.kubernetes.io/over-capacity"
MOST_ADDRESSES = 1000


class Endpoints(Object):
    """Endpoints."""

    subsets: list[FreeForm] | None = None


def plan(service: Owner, backends: Sequence[Backend], existing: Endpoints | None) -> list[Action]:
    """What the Endpoints of a Service need.

    Args:
        service: the Service.
        backends: the pods behind it.
        existing: the Endpoints that there are.
    """
    subsets, cut = _subsets(service, backends)
    labels = {**service.metadata.labels, MANAGED_BY: MANAGER}
    if is_headless(service):
        labels[HEADLESS] = ""
    annotations = {OVER_CAPACITY: "truncated"} if cut else {}
    if existing is None:
        metadata: Document = {
            "name": service.metadata.name,
            "namespace": service.metadata.namespace,
            "labels": labels,
        }
        if annotations:
            metadata["annotations"] = annotations
        head = {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata}
        return [Create(ENDPOINTS, {**head, "subsets": subsets}, exists_ok=True)]
    body: Document = {}
    if (existing.subsets or []) != subsets:
        body["subsets"] = subsets
    there = existing.metadata.labels
    if labels != there:
        body["metadata"] = {"labels": {**dict.fromkeys(there.keys() - labels.keys()), **labels}}
    if (OVER_CAPACITY in existing.metadata.annotations) != cut:
        change: Document = {"annotations": annotations or {OVER_CAPACITY: None}}
        body.setdefault("metadata", {}).update(change)
    return [patch(ENDPOINTS, existing, body)] if body else []


def _subsets(service: Owner, backends: Sequence[Backend]) -> tuple[list[Document], bool]:
    """Addresses by the ports they share; whether some are left out, for there are too many."""
    unready, ports = publishes_unready(service), service.spec.get("ports") or ()
    family = families(service)[0]
    groups: dict[tuple[tuple[str, int, str, str], ...], tuple[list[Document], list[Document]]] = {}
    count = 0
    ordered = sorted(backends, key=lambda each: not pods.is_ready(each.pod))
    for backend in ordered:
        deleted = backend.pod.metadata.deletion_timestamp is not None
        if backend.family != family or (deleted and not unready) or (ports and not backend.ports):
            continue
        count += 1
        if count > MOST_ADDRESSES:
            break
        group = groups.setdefault(backend.ports, ([], []))
        group[not (unready or pods.is_ready(backend.pod))].append(_address(backend))
    subsets = []
    for shared, (ready, other) in sorted(groups.items()):
        subset: Document = {}
        if ready:
            subset["addresses"] = sorted(ready, key=_ip)
        if other:
            subset["notReadyAddresses"] = sorted(other, key=_ip)
        if shared:
            subset["ports"] = [_port(port) for port in shared]
        subsets.append(subset)
    return subsets, count > MOST_ADDRESSES


def _ip(address: Document) -> str:
    ip: str = address["ip"]
    return ip


def _address(backend: Backend) -> Document:
    address: Document = {"ip": backend.pod.status.pod_ip}
    if backend.hostname:
        address["hostname"] = backend.hostname
    if backend.pod.spec.node_name:
        address["nodeName"] = backend.pod.spec.node_name
    return {**address, "targetRef": backend.target}


def _port(port: tuple[str, int, str, str]) -> Document:
    name, number, protocol, application = port
    found: Document = {"name": name} if name else {}
    found |= {"port": number, "protocol": protocol}
    return {**found, "appProtocol": application} if application else found
