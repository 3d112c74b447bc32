# SPDX-License-Identifier: Apache-2.0
"""Cells that the rows of several kinds share, and strategies that need no more than a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.base.documents import Document
from koord.controlplane.ages import age
from koord.controlplane.kinds.documents import NONE
from koord.controlplane.resource import Column

if TYPE_CHECKING:
    from collections.abc import Mapping


NAME = Column("Name", format="name")
AGE = Column("Age")
CONTAINERS = (Column("Containers", priority=1), Column("Images", priority=1))
SELECTOR = Column("Selector", priority=1)
UNSET = "<unset>"


def integer(name: str) -> Column:
    """A column of numbers."""
    return Column(name, type="integer")


def age_of(document: Document, now_seconds: float) -> str:
    """How long ago an object was made."""
    return age(document["metadata"].get("creationTimestamp"), now_seconds)


def container_cells(spec: Document) -> list[str]:
    """Names and images of the containers of a pod's spec."""
    containers = spec.get("containers") or ()
    return [
        ",".join(container.get("name", "") for container in containers),
        ",".join(container.get("image", "") for container in containers),
    ]


def labels_text(labels: Mapping[str, str] | None) -> str:
    """``a=b,c=d`` in order of the keys."""
    return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) if labels else NONE


def selector_text(selector: Document | None, empty: str = NONE) -> str:
    """A label selector as kubectl writes it."""
    if not selector:
        return empty
    labels = selector.get("matchLabels") or {}
    parts = [(key, f"{key}={value}") for key, value in labels.items()]
    for requirement in selector.get("matchExpressions") or ():
        key, operator = requirement.get("key", ""), requirement.get("operator")
        listed = ",".join(sorted(requirement.get("values") or ()))
        text = {
            "In": f"{key} in ({listed})",
            "NotIn": f"{key} notin ({listed})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }.get(operator, "<error>")
        parts.append((key, text))
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0])) or empty
