# SPDX-License-Identifier: Apache-2.0
"""What objects of each resource use of a ResourceQuota (kube-apiserver's quota evaluators)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.selectors import holds
from koord.base.documents import Document
from koord.controlplane.quotas import pods
from koord.controlplane.quotas.amounts import ONE, ZERO, QuotaAmounts, parsed, section
from koord.kernels.quantity import Quantity, Rounding

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


PODS, SERVICES, CLAIMS = "pods", "services", "persistentvolumeclaims"
# Counted under their plain names, too.
_PLAIN = frozenset(("configmaps", "replicationcontrollers", "resourcequotas", "secrets"))
_OF_SERVICES = frozenset(("services", "services.nodeports", "services.loadbalancers"))
_OF_CLAIMS = ("persistentvolumeclaims", "requests.storage")
_BY_CLASS = ".storageclass.storage.k8s.io/"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
# Never counted: quotas would forbid to tell of their being used up.
_IGNORED = frozenset(("events", "events.events.k8s.io"))
_COUNT = "count/"


def names_for(storage: str, names: Iterable[str]) -> list[str]:
    """Those of a quota's names that are about objects of a resource, e.g. ``jobs.batch``."""
    return [name for name in names if _is_about(storage, name)]


def storage_of(name: str) -> str:
    """The resource that a name in a quota is about; empty for none that is known."""
    if name.startswith(_COUNT):
        return name.removeprefix(_COUNT)
    if name in _PLAIN:
        return name
    for storage in (PODS, SERVICES, CLAIMS):
        if _is_about(storage, name):
            return storage
    return ""


def usage(storage: str, document: Document, now: float) -> QuotaAmounts:
    """What one object uses.

    Args:
        storage: its resource, e.g. ``pods`` or ``jobs.batch``.
        document: the object.
        now: wall seconds.
    """
    if storage == PODS:
        return pods.usage(document, now)
    result = {f"{_COUNT}{storage}": ONE}
    if storage == SERVICES:
        result |= _of_service(document["spec"])
    elif storage == CLAIMS:
        result |= _of_claim(document)
    elif storage in _PLAIN:
        result[storage] = ONE
    return result


def handles(storage: str, operation: str, subresource: str, new: Document | None,
            old: Document | None) -> bool:  # fmt: skip
    """Whether a write may change what is used."""
    if storage in _IGNORED:
        return False
    if storage == PODS and subresource == "resize":
        return operation == "UPDATE"
    if subresource:
        return False
    if operation == "CREATE":
        return True
    if operation != "UPDATE":
        return False
    if storage == PODS:
        return pods.is_terminating(new or {}) != pods.is_terminating(old or {})
    return storage in (SERVICES, CLAIMS)


def is_in_scope(storage: str, document: Document, quota: Document) -> bool:
    """Whether a quota's scopes take in an object; only pods and claims can be in one."""
    for requirement in requirements(quota):
        if storage == PODS:
            within = pods.is_in_scope(document, requirement)
        else:
            within = storage == CLAIMS and _claim_in_scope(document, requirement)
        if not within:
            return False
    return True


def requirements(quota: Document) -> list[Document]:
    """The scopes of a quota, in both forms, as requirements of a selector."""
    spec = section(quota, "spec")
    plain = [{"scopeName": scope, "operator": "Exists"} for scope in spec.get("scopes") or ()]
    return [*plain, *(section(spec, "scopeSelector").get("matchExpressions") or ())]


def _is_about(storage: str, name: str) -> bool:
    if name == f"{_COUNT}{storage}":
        return True
    if storage == PODS:
        return pods.counts(name)
    if storage == SERVICES:
        return name in _OF_SERVICES
    if storage == CLAIMS:
        return name in _OF_CLAIMS or name.endswith(tuple(f"{_BY_CLASS}{of}" for of in _OF_CLAIMS))
    return storage in _PLAIN and name == storage


def _of_service(spec: Mapping[str, Any]) -> QuotaAmounts:
    kind, ports = spec.get("type"), spec.get("ports") or ()
    node_ports = 0
    if kind == "NodePort" or (
        kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is not False
    ):
        node_ports = len(ports)
    elif kind == "LoadBalancer":
        node_ports = sum(bool(port.get("nodePort")) for port in ports)
    return {
        "services": ONE,
        "services.nodeports": Quantity.from_value(node_ports),
        "services.loadbalancers": ONE if kind == "LoadBalancer" else ZERO,
    }


def _of_claim(claim: Document) -> QuotaAmounts:
    spec, status = section(claim, "spec"), section(claim, "status")
    annotations = claim["metadata"].get("annotations") or {}
    name = annotations.get(_CLASS_ANNOTATION) or spec.get("storageClassName") or ""
    result = {"persistentvolumeclaims": ONE}
    asked = section(spec, "resources", "requests").get("storage")
    if asked is not None:
        size = parsed(asked)
        held = section(status, "allocatedResources").get("storage")
        if held is not None and parsed(held) > size:
            size = parsed(held)
        result["requests.storage"] = _whole(size)
    if name:
        result |= {f"{name}{_BY_CLASS}{of}": amount for of, amount in list(result.items())}
    return result


def _whole(size: Quantity) -> Quantity:
    try:
        return Quantity.from_value(size.value(Rounding.UP), size.format)
    except ValueError:  # beyond 64 bits there is nothing to round
        return size


def _claim_in_scope(claim: Document, requirement: Document) -> bool:
    if requirement.get("scopeName") != "VolumeAttributesClass":
        return False
    named = {
        section(claim, "spec").get("volumeAttributesClassName"),
        section(claim, "status").get("currentVolumeAttributesClassName"),
        section(claim, "status", "modifyVolumeStatus").get("targetVolumeAttributesClassName"),
    } - {None, ""}
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    return any(holds(operator, values, name) for name in named or {None})
