# SPDX-License-Identifier: Apache-2.0
"""Nodes that are not ready: new ones take no pods yet, and pods stay on others for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.admission.plugin import AdmissionPlugin

if TYPE_CHECKING:
    from koord.controlplane.extension import Attributes

SECONDS = 300
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(AdmissionPlugin):
    """Kubernetes' plugin of that name: pods stay 300 s on a node that is not ready or reachable."""

    mutates = True
    resources = ("pods",)

    def mutate(self, attributes: Attributes) -> None:
        """Adds the tolerations that the pod lacks, on creation and update."""
        if attributes.resource.storage != "pods" or attributes.subresource:
            return
        if attributes.operation not in ("CREATE", "UPDATE") or attributes.document is None:
            return
        spec = attributes.document["spec"]
        tolerations: list[dict[str, Any]] = spec.get("tolerations") or []
        tolerated = _tolerated(tolerations)
        missing = [key for key in _KEYS if key not in tolerated] if "" not in tolerated else ()
        if missing:
            spec["tolerations"] = tolerations + [
                {
                    "key": key,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": SECONDS,
                }
                for key in missing
            ]


def _tolerated(tolerations: list[dict[str, Any]]) -> set[str]:
    """The keys of taints that evict and are tolerated; the empty one is all keys."""
    return {
        entry.get("key", "")
        for entry in tolerations
        if entry.get("effect", "") in ("NoExecute", "")
    }


class TaintNewNodes(AdmissionPlugin):
    """Kubernetes' plugin TaintNodesByCondition: a new node is tainted until the node life cycle
    controller says that it is ready.
    """

    mutates = True
    resources = ("nodes",)

    def mutate(self, attributes: Attributes) -> None:
        """Adds the taint to a node that is created."""
        if attributes.resource.storage != "nodes" or attributes.operation != "CREATE":
            return
        if attributes.subresource or attributes.document is None:
            return
        spec = attributes.document.setdefault("spec", {})
        taints = spec.get("taints") or []
        kept = [taint for taint in taints if not _is_not_ready_taint(taint)]
        if len(kept) == len(taints):
            spec["taints"] = [*taints, dict(NOT_READY)]


def _is_not_ready_taint(taint: dict[str, str]) -> bool:
    return all(taint.get(key) == value for key, value in NOT_READY.items())
