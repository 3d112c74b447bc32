# SPDX-License-Identifier: Apache-2.0
"""Whether the Deployment of a pod may be surged, and whether it is.

Rule: docs/reference/migration.md#surge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koord.api.kinds.pod import Pod
    from koord.base.documents import Document

MANAGER = "koord-descheduler"
SURGED = 2
"""Replicas while a pod is moved."""


@dataclass(frozen=True)
class SurgeState:
    """A Deployment that asks for a surge, or is surged.

    Attributes:
        document: the Deployment as the server has it.
        replicas: that it wants.
        is_begun: whether it is surged for the job in question.
        refusal: why it may not be, or be no longer; empty where it may.
    """

    document: Document
    replicas: int
    is_begun: bool
    refusal: str = ""

    @property
    def title(self) -> str:
        """For people."""
        meta = self.document["metadata"]
        return f"Deployment {meta['namespace']}/{meta['name']}"


def asks_for_surge(annotations: dict[str, str]) -> bool:
    """Whether the owner of a Deployment asks that its only pod be moved by a surge."""
    return annotations.get(keys.SURGE) == "true"


def is_marked(pod: Pod | None) -> bool:
    """Whether a pod is to go first for a surge."""
    return pod is not None and keys.SURGE_COST in pod.metadata.annotations


def surge_state(document: Document, job: str, autoscalers: Iterable[Document]) -> SurgeState:
    """What a Deployment says.

    Args:
        document: the Deployment as the server has it.
        job: uid.
        autoscalers: HorizontalPodAutoscalers of its namespace.
    """
    meta = document["metadata"]
    annotations, replicas = meta.get("annotations") or {}, document["spec"].get("replicas", 1)
    surged_for = annotations.get(keys.SURGE_JOB, "")
    refusals = (
        _not_eligible(annotations, replicas, surged_for, job),
        *_autoscaled(meta["name"], autoscalers),
        *_managed(meta.get("managedFields") or ()),
    )
    why = next(filter(None, refusals), "")
    return SurgeState(document, replicas, surged_for == job, why)


def _not_eligible(annotations: dict[str, str], replicas: int, surged_for: str, job: str) -> str:
    if surged_for == job:
        return ""
    if surged_for:
        return f"it is surged for another job, {surged_for}"
    if not asks_for_surge(annotations):
        return f"it asks for a surge no longer, by the annotation {keys.SURGE}"
    return "" if replicas == 1 else f"it wants {replicas} replicas; only a single one is surged"


def _autoscaled(name: str, autoscalers: Iterable[Document]) -> Iterator[str]:
    for each in autoscalers:
        target = each["spec"].get("scaleTargetRef") or {}
        if (target.get("kind"), target.get("name")) == ("Deployment", name):
            title = f"HorizontalPodAutoscaler {each['metadata']['name']}"
            yield f"{title} sets its replicas; a surge would be against it"


def _managed(entries: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Who else sets the replicas: whoever writes them without writing the pods' template, or
    writes them again and again. The author of the Deployment, who wrote both once, may."""
    for entry in entries:
        spec = (entry.get("fieldsV1") or {}).get("f:spec") or {}
        if "f:replicas" not in spec:
            continue
        name, sub = entry.get("manager", ""), entry.get("subresource", "")
        applied = entry.get("operation") == "Apply"
        if name == MANAGER and not sub and not applied:
            continue
        if applied or sub or "f:template" not in spec:
            by = f'"{name}"' + (f" by the subresource {sub}" if sub else "")
            by += " by server-side apply" if applied else ""
            yield f"{by} manages its replicas (metadata.managedFields)"
