# SPDX-License-Identifier: Apache-2.0
"""Nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.ages import age
from koord.controlplane.kinds.documents import NONE, bring, condition, section
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.quantities import normalise
from koord.controlplane.kinds.validation.resources import check_amount
from koord.controlplane.kinds.validation.scheduling import check_taints
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


_ROLE_PREFIX = "node-role.kubernetes.io/"
_UNKNOWN = "<unknown>"
_INFO_FIELDS = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)


class NodeStrategy(Strategy):
    """Nodes (``registry/core/node``): a new one may bring its status along."""

    status_subresource = True
    columns = (
        Column("Name", format="name"),
        Column("Status"),
        Column("Roles"),
        Column("Age"),
        Column("Version"),
        Column("Internal-IP", priority=1),
        Column("External-IP", priority=1),
        Column("OS-Image", priority=1),
        Column("Kernel-Version", priority=1),
        Column("Container-Runtime", priority=1),
    )
    selectable = ("spec.unschedulable",)

    def default(self, document: Document) -> None:
        """Allocatable is the capacity; the fields that are always written are there."""
        document.setdefault("spec", {})
        status = document.setdefault("status", {})
        capacity, allocatable = status.get("capacity"), status.get("allocatable")
        if capacity:
            normalise(capacity)
        if allocatable:
            normalise(allocatable)
        elif capacity:
            status["allocatable"] = dict(capacity)
        endpoints = status.setdefault("daemonEndpoints", {})
        endpoints.setdefault("kubeletEndpoint", {}).setdefault("Port", 0)
        info = status.setdefault("nodeInfo", {})
        for name in _INFO_FIELDS:
            info.setdefault(name, "")

    def prepare_create(self, document: Document, context: Context) -> None:
        """Status is kept: kubelets register with one."""

    def prepare_update(self, document: Document, old: Document, context: Context) -> None:
        """Status goes through its subresource."""
        bring(document, old, "status")

    def validate(self, document: Document) -> list[StatusCause]:
        """Taints and amounts."""
        causes = Causes()
        if taints := document["spec"].get("taints"):
            check_taints(taints, "metadata.taints", causes)
        for part in ("capacity", "allocatable"):
            for name, amount in (document["status"].get(part) or {}).items():
                check_amount(name, amount, f"status.{part}.{name}", causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """Addresses for pods and the provider's id are set once."""
        causes = Causes(self.validate(document))
        spec, before = document["spec"], old["spec"]
        if before.get("podCIDRs") and spec.get("podCIDRs") != before["podCIDRs"]:
            why = 'node updates may not change podCIDR except from "" to valid'
            causes.forbidden("spec.podCIDRs", why)
        if before.get("providerID") and spec.get("providerID") != before["providerID"]:
            why = 'node updates may not change providerID except from "" to valid'
            causes.forbidden("spec.providerID", why)
        return causes

    def fields(self, document: Document) -> Mapping[str, str]:
        """Whether it is cordoned."""
        cordoned = section(document, "spec").get("unschedulable")
        return {"spec.unschedulable": "true" if cordoned else "false"}

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        info = section(document, "status", "nodeInfo")
        return [
            metadata["name"],
            _status_words(document),
            ",".join(_roles(metadata.get("labels") or {})) or NONE,
            age(metadata.get("creationTimestamp"), now_seconds),
            info.get("kubeletVersion", ""),
            _address(document, "InternalIP"),
            _address(document, "ExternalIP"),
            info.get("osImage") or _UNKNOWN,
            info.get("kernelVersion") or _UNKNOWN,
            info.get("containerRuntimeVersion") or _UNKNOWN,
        ]


def _status_words(node: Document) -> str:
    ready = condition(node, "Ready")
    word = "Unknown"
    if ready is not None:
        word = "Ready" if ready.get("status") == "True" else "NotReady"
    cordoned = section(node, "spec").get("unschedulable")
    return f"{word},SchedulingDisabled" if cordoned else word


def _roles(labels: Mapping[str, str]) -> list[str]:
    named = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    named.add(labels.get("kubernetes.io/role", ""))
    return sorted(named - {""})


def _address(node: Document, kind: str) -> str:
    for entry in section(node, "status").get("addresses") or ():
        if entry.get("type") == kind:
            return str(entry.get("address", ""))
    return NONE
