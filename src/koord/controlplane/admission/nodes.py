# SPDX-License-Identifier: Apache-2.0
"""New nodes take no pods until the node lifecycle controller says that they are ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.admission.rule import Rule

if TYPE_CHECKING:
    from koord.controlplane.extension import Attributes

NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class TaintNewNodes(Rule):
    """Kubernetes' plugin TaintNodesByCondition."""

    mutates = True

    def mutate(self, attributes: Attributes) -> None:
        """Adds the taint to a node that is created."""
        if attributes.resource.storage != "nodes" or attributes.operation != "CREATE":
            return
        if attributes.subresource or attributes.document is None:
            return
        spec = attributes.document.setdefault("spec", {})
        taints = spec.get("taints") or []
        kept = [taint for taint in taints if not _same(taint)]
        if len(kept) == len(taints):
            spec["taints"] = [*taints, dict(NOT_READY)]


def _same(taint: dict[str, str]) -> bool:
    return all(taint.get(key) == value for key, value in NOT_READY.items())
