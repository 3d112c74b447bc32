# SPDX-License-Identifier: Apache-2.0
"""What an API server has done with a new object before it asks any webhook."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING

from koord.controllers.webhook.pods.documents import all_containers, child, present

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.cluster import PriorityClass
    from koord.api.kinds.registry import Kind
    from koord.base.documents import Document


def completed(
    document: Document, kind: Kind, namespace: str, classes: Mapping[str, PriorityClass]
) -> Document:
    """A new document: its namespace; of a pod, requests that are limits, and its priority.

    Args:
        document: has been read as its kind; stays as it is.
        kind: of the object.
        namespace: that it is made in, empty for none.
        classes: priority classes by name.
    """
    found = deepcopy(document)
    if namespace:
        child(found, "metadata")["namespace"] = namespace
    if kind.name == "Pod" and not kind.group:
        _complete_requests(found)
        _resolve_priority(child(found, "spec"), classes)
    return found


def _complete_requests(pod: Document) -> None:
    for container in all_containers(pod):
        given = present(container.document, "resources")
        for name, amount in present(given, "limits").items():
            if present(given, "requests").get(name) is None:
                child(given, "requests")[name] = amount


def _resolve_priority(spec: Document, classes: Mapping[str, PriorityClass]) -> None:
    """As the admission plugin Priority does, which comes before webhooks."""
    if spec.get("priority") is not None:
        return
    name = spec.get("priorityClassName")
    chosen = classes.get(name) if isinstance(name, str) and name else None
    if not name:
        chosen = max(
            (each for each in classes.values() if each.global_default),
            key=lambda each: each.value,
            default=None,
        )
    spec["priority"] = chosen.value if chosen is not None else 0
    if chosen is not None:
        spec["priorityClassName"] = chosen.metadata.name
        if spec.get("preemptionPolicy") is None and chosen.preemption_policy is not None:
            spec["preemptionPolicy"] = chosen.preemption_policy
