# SPDX-License-Identifier: Apache-2.0
"""EndpointSlices of a Service: what stays where it is, what goes, what is new."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.meta import Object
from koord.api.kinds.registry import Kind
from koord.api.schema import FreeForm
from koord.base.documents import Document
from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.objects import controller_reference
from koord.controlplane.controllers.base.plans import Action, Create, delete, patch
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


SLICE = Kind("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices", True, "meta.Object")
SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
MOST_ENDPOINTS = 100
_RESERVED = frozenset((SERVICE_NAME, MANAGED_BY, HEADLESS))


class Slice(Object):
    """An EndpointSlice."""

    address_type: str = ""
    endpoints: list[FreeForm] | None = None
    ports: list[FreeForm] | None = None


def plan(
    service: Owner, service_kind: Kind, backends: Sequence[Backend], existing: Sequence[Slice]
) -> list[Action]:
    """What the slices of a Service need.

    Args:
        service: the Service.
        service_kind: how it is served.
        backends: the pods behind it.
        existing: slices of ours that there are.
    """
    wanted = families(service)
    actions: list[Action] = [delete(SLICE, s) for s in existing if s.address_type not in wanted]
    for family in wanted:
        mine = sorted(
            (each for each in existing if each.address_type == family),
            key=lambda each: each.metadata.name,
        )
        there = [backend for backend in backends if backend.family == family]
        actions += _of_family(service, service_kind, family, there, mine)
    return actions


def _of_family(
    service: Owner, kind: Kind, family: str, backends: Sequence[Backend], existing: Sequence[Slice]
) -> list[Action]:
    groups: dict[tuple[tuple[str, int, str, str], ...], list[Document]] = {}
    for backend in backends:
        groups.setdefault(backend.ports, []).append(_endpoint(service, backend))
    actions: list[Action] = []
    left = list(existing)
    for ports, endpoints in sorted(groups.items()):
        listed = [_port(port) for port in ports]
        mine = [each for each in left if _same_ports(each, listed)]
        left = [each for each in left if each not in mine]
        actions += _fill(service, kind, family, listed, endpoints, mine)
    if not groups:
        # A Service without pods has one slice that says so.
        empty = next((each for each in left if not each.ports and not each.endpoints), None)
        if empty is None:
            actions.append(_created(service, kind, family, [], []))
        else:
            left.remove(empty)
            actions += _changed(service, empty, [])
    return actions + [delete(SLICE, each) for each in left]


def _fill(
    service: Owner,
    kind: Kind,
    family: str,
    ports: list[Document],
    endpoints: list[Document],
    known: Sequence[Slice],
) -> list[Action]:
    """Endpoints stay in their slices; new ones go where there is room, fullest slices first."""
    fresh = {endpoint["targetRef"]["uid"]: endpoint for endpoint in endpoints}
    kept: list[tuple[Slice, list[Document]]] = []
    for each in known:
        uids = [(old.get("targetRef") or {}).get("uid") for old in each.endpoints or ()]
        kept.append((each, [fresh.pop(uid) for uid in uids if uid in fresh]))
    new = list(fresh.values())
    for _, content in sorted(kept, key=lambda pair: -len(pair[1])):
        room = MOST_ENDPOINTS - len(content)
        if content and room > 0:
            content += new[:room]
            new = new[room:]
    actions: list[Action] = []
    for each, content in kept:
        if not content and new:
            content, new = new[:MOST_ENDPOINTS], new[MOST_ENDPOINTS:]
        actions += _changed(service, each, content) if content else [delete(SLICE, each)]
    while new:
        chunk, new = new[:MOST_ENDPOINTS], new[MOST_ENDPOINTS:]
        actions.append(_created(service, kind, family, ports, chunk))
    return actions


def _changed(service: Owner, known: Slice, endpoints: list[Document]) -> list[Action]:
    body: Document = {}
    if (known.endpoints or []) != endpoints:
        body["endpoints"] = endpoints
    labels, there = _labels(service), known.metadata.labels
    if labels != there:
        gone = dict.fromkeys(there.keys() - labels.keys())
        body["metadata"] = {"labels": {**gone, **labels}}
    return [patch(SLICE, known, body)] if body else []


def _created(
    service: Owner, kind: Kind, family: str, ports: list[Document], endpoints: list[Document]
) -> Create:
    metadata = {
        "generateName": f"{service.metadata.name}-",
        "namespace": service.metadata.namespace,
        "labels": _labels(service),
        "ownerReferences": [controller_reference(service, kind)],
    }
    document: Document = {
        "apiVersion": SLICE.api_version,
        "kind": SLICE.name,
        "metadata": metadata,
        "addressType": family,
    }
    content = {"endpoints": endpoints, "ports": ports}
    return Create(SLICE, document | {key: value for key, value in content.items() if value})


def _labels(service: Owner) -> dict[str, str]:
    given = service.metadata.labels.items()
    labels = {key: value for key, value in given if key not in _RESERVED}
    if is_headless(service):
        labels[HEADLESS] = ""
    return {**labels, SERVICE_NAME: service.metadata.name, MANAGED_BY: MANAGER}


def _endpoint(service: Owner, backend: Backend) -> Document:
    pod = backend.pod
    serving, terminating = pods.is_ready(pod), pod.metadata.deletion_timestamp is not None
    ready = publishes_unready(service) or (serving and not terminating)
    endpoint: Document = {
        "addresses": [pod.status.pod_ip],
        "conditions": {"ready": ready, "serving": serving, "terminating": terminating},
        "targetRef": backend.target,
    }
    named = {
        "hostname": backend.hostname,
        "nodeName": pod.spec.node_name,
        "zone": backend.zone,
    }
    return endpoint | {key: value for key, value in named.items() if value}


def _port(port: tuple[str, int, str, str]) -> Document:
    name, number, protocol, application = port
    found: Document = {"name": name, "port": number, "protocol": protocol}
    return {**found, "appProtocol": application} if application else found


def _same_ports(known: Slice, ports: list[Document]) -> bool:
    """Whether a slice has just these ports, in whatever order."""
    return sorted(map(_key, known.ports or ())) == sorted(map(_key, ports))


def _key(port: Document) -> tuple[str, int, str, str]:
    name, application = port.get("name") or "", port.get("appProtocol") or ""
    return name, port.get("port") or 0, port.get("protocol") or "TCP", application
