# SPDX-License-Identifier: Apache-2.0
"""Pods of a quota tree stay on the nodes of that tree.

Rule: docs/reference/admission.md#quota-tree-affinity. A second time changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.selectors import IN
from koord.controllers.webhook.pods.documents import child

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from koord.api.kinds.meta import LabelSelector
    from koord.api.kinds.quota import ElasticQuotaProfile
    from koord.base.documents import Document

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def profile_of_tree(
    profiles: Iterable[ElasticQuotaProfile],
) -> ElasticQuotaProfile | None:
    """The profile whose nodes a tree has: of several the first by namespace and name."""
    return min(
        profiles, key=lambda each: (each.metadata.namespace, each.metadata.name), default=None
    )


def require_nodes(pod: Document, selector: LabelSelector) -> Iterator[str]:
    """Adds the nodes of a tree to each term of the pod's required node affinity.

    Args:
        pod: changed in place.
        selector: of the tree's nodes.
    """
    requirements = list(_requirements(selector))
    if not requirements:  # All nodes; a term that says nothing would allow none.
        return
    affinity = child(child(child(pod, "spec"), "affinity"), "nodeAffinity")
    required = child(affinity, _REQUIRED)
    terms = required.get("nodeSelectorTerms") or []
    required["nodeSelectorTerms"] = terms or [{"matchExpressions": requirements}]
    added = 0 if terms else len(requirements)
    for term in terms:
        given = term.get("matchExpressions") or []
        missing = [each for each in requirements if each not in given]
        term["matchExpressions"] = [*given, *missing]
        added += len(missing)
    if added or not terms:
        shown = ", ".join(_text(each) for each in requirements)
        yield f"spec.affinity.nodeAffinity requires {shown}"


def _requirements(selector: LabelSelector) -> Iterator[Document]:
    for key, value in sorted(selector.match_labels.items()):
        yield {"key": key, "operator": IN, "values": [value]}
    for each in selector.match_expressions:
        found: Document = {"key": each.key, "operator": each.operator}
        if each.values:
            found["values"] = list(each.values)
        yield found


def _text(requirement: Document) -> str:
    values = ", ".join(requirement.get("values", ()))
    return f"{requirement['key']} {requirement['operator']} {values}".strip()
