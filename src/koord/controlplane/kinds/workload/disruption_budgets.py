# SPDX-License-Identifier: Apache-2.0
"""PodDisruptionBudgets: defaults, validation, table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.table_cells import AGE, NAME, age_of, integer
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.scheduling import check_selector
from koord.controlplane.kinds.validation.workload_spec import check_counts, check_int_or_percent
from koord.controlplane.kinds.workload.deployments import WorkloadStrategy
from koord.controlplane.resource import Column

if TYPE_CHECKING:
    from koord.kube.errors import StatusCause

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
