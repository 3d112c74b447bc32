# SPDX-License-Identifier: Apache-2.0
"""What every pod tolerates for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.admission.rule import Rule

if TYPE_CHECKING:
    from koord.controlplane.extension import Attributes

SECONDS = 300
_KEYS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class DefaultTolerationSeconds(Rule):
    """Kubernetes' plugin: pods stay 300 s on a node that is not ready or not reachable."""

    mutates = True

    def mutate(self, attributes: Attributes) -> None:
        """Adds the tolerations that the pod lacks, on creation and update."""
        if attributes.resource.storage != "pods" or attributes.subresource:
            return
        if attributes.operation not in ("CREATE", "UPDATE") or attributes.document is None:
            return
        spec = attributes.document["spec"]
        tolerations: list[dict[str, Any]] = spec.get("tolerations") or []
        missing = [key for key in _KEYS if not _tolerated(tolerations, key)]
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


def _tolerated(tolerations: list[dict[str, Any]], key: str) -> bool:
    return any(
        entry.get("key", "") in (key, "") and entry.get("effect", "") in ("NoExecute", "")
        for entry in tolerations
    )
