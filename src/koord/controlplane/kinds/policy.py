# SPDX-License-Identifier: Apache-2.0
"""PodDisruptionBudgets, PriorityClasses and Leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.kinds.causes import Causes
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.rows import AGE, NAME, age_of, integer
from koord.controlplane.kinds.scheduling_rules import check_selector
from koord.controlplane.kinds.workload_rules import check_counts, check_int_or_percent
from koord.controlplane.kinds.workloads import WorkloadStrategy
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause

Document = dict[str, Any]

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_PREFIX = "system-"
SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudgetStrategy(WorkloadStrategy):
    """PodDisruptionBudgets."""

    any_finalizer = True
    status_zeros = _COUNTS
    unconditional_update = False
    columns = (
        NAME,
        Column("Min Available"),
        Column("Max Unavailable"),
        integer("Allowed Disruptions"),
        AGE,
    )

    def default(self, document: Document) -> None:
        """Nothing but the fields that are always written."""
        document.setdefault("spec", {})
        status = document.setdefault("status", {})
        for field in _COUNTS:
            status.setdefault(field, 0)

    def validate(self, document: Document) -> list[StatusCause]:
        """One of the two bounds at most; a selector."""
        causes = Causes()
        spec = document["spec"]
        if "minAvailable" in spec and "maxUnavailable" in spec:
            why = "minAvailable and maxUnavailable cannot be both set"
            causes.invalid("spec", spec, why)
        for field in ("minAvailable", "maxUnavailable"):
            check_int_or_percent(spec.get(field), f"spec.{field}", causes)
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy not in (None, "AlwaysAllow", "IfHealthyBudget"):
            allowed = ("AlwaysAllow", "IfHealthyBudget")
            causes.not_supported("spec.unhealthyPodEvictionPolicy", policy, allowed)
        check_selector(spec.get("selector"), "spec.selector", causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """All of the spec may change; of a status the counts."""
        if document["spec"] is not old["spec"]:
            return self.validate(document)
        causes = Causes()
        check_counts(section(document, "status"), _COUNTS, "status", causes)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec = section(document, "spec")
        return [
            document["metadata"]["name"],
            str(spec.get("minAvailable", "N/A")),
            str(spec.get("maxUnavailable", "N/A")),
            section(document, "status").get("disruptionsAllowed", 0),
            age_of(document, now_seconds),
        ]


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


class LeaseStrategy(Strategy):
    """Leases: whoever wants one may write it by PUT, new or not."""

    any_finalizer = True
    create_on_update = True
    unconditional_update = False
    columns = (NAME, Column("Holder"), AGE)

    def default(self, document: Document) -> None:
        """The spec is always written."""
        document.setdefault("spec", {})

    def validate(self, document: Document) -> list[StatusCause]:
        """Lengths and counts."""
        causes = Causes()
        spec = document["spec"]
        seconds = spec.get("leaseDurationSeconds")
        if seconds is not None and seconds <= 0:
            causes.invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0")
        causes.negative("spec.leaseTransitions", spec.get("leaseTransitions"))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        holder = section(document, "spec").get("holderIdentity", "")
        return [document["metadata"]["name"], holder, age_of(document, now_seconds)]
