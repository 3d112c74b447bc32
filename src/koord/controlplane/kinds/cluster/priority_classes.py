# SPDX-License-Identifier: Apache-2.0
"""PriorityClasses, and the two that Kubernetes has of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.table_cells import AGE, NAME, age_of, integer
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


class PriorityClassStrategy(Strategy):
    """PriorityClasses: the value never changes."""

    columns = (
        NAME,
        integer("Value"),
        Column("Global-Default", type="boolean"),
        AGE,
        Column("PreemptionPolicy"),
    )

    def default(self, document: Document) -> None:
        """Pods of a class preempt others."""
        document.setdefault("value", 0)
        document.setdefault("preemptionPolicy", "PreemptLowerPriority")

    def prepare_create(self, document: Document, context: Context) -> None:
        """The only generation."""
        document["metadata"]["generation"] = 1

    def validate(self, document: Document) -> list[StatusCause]:
        """The highest values belong to the system."""
        causes = Causes()
        name, value = document["metadata"].get("name", ""), document["value"]
        if name.startswith(SYSTEM_PREFIX):
            if SYSTEM_CLASSES.get(name) != value:
                why = (
                    f"priority class names with '{SYSTEM_PREFIX}' prefix are reserved for system "
                    f"use only. error: {_system_fault(name)}"
                )
                causes.forbidden("metadata.name", why)
        elif value > HIGHEST_USER_PRIORITY:
            why = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            causes.forbidden("value", why)
        policy = document["preemptionPolicy"]
        if policy not in PREEMPTION_POLICIES:
            causes.not_supported("preemptionPolicy", policy, PREEMPTION_POLICIES)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """Value and policy are fixed."""
        causes = Causes()
        if document["value"] != old.get("value", 0):
            causes.forbidden("value", "may not be changed in an update.")
        policy = document["preemptionPolicy"]
        causes.fixed("preemptionPolicy", policy, old.get("preemptionPolicy", policy))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        return [
            document["metadata"]["name"],
            document.get("value", 0),
            document.get("globalDefault", False),
            age_of(document, now_seconds),
            document.get("preemptionPolicy", ""),
        ]


def _system_fault(name: str) -> str:
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    return f"value of {name} PriorityClass must be {SYSTEM_CLASSES[name]}"
