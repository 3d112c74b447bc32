# SPDX-License-Identifier: Apache-2.0
"""DaemonSets: defaults, what may change, table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.pod.defaults import default_template
from koord.controlplane.kinds.table_cells import (
    AGE,
    CONTAINERS,
    NAME,
    SELECTOR,
    age_of,
    container_cells,
    integer,
    labels_text,
    selector_text,
)
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.workload_spec import (
    check_counts,
    check_int_or_percent,
    check_workload,
    is_zero,
)
from koord.controlplane.kinds.workload.deployments import WorkloadStrategy
from koord.controlplane.resource import Column

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


class DaemonSetStrategy(WorkloadStrategy):
    """DaemonSets."""

    status_zeros = (
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
    )
    columns = (
        NAME,
        *map(integer, ("Desired", "Current", "Ready", "Up-to-date", "Available")),
        Column("Node Selector"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )

    def default(self, document: Document) -> None:
        """A rolling update of one node at a time."""
        spec = document.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        strategy = spec.setdefault("updateStrategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def prepare_create(self, document: Document, context: Context) -> None:
        """The first generation of the template."""
        super().prepare_create(document, context)
        _count_template(document, 1)

    def prepare_update(self, document: Document, old: Document, context: Context) -> None:
        """A changed template is a new generation of it."""
        super().prepare_update(document, old, context)
        annotations = section(old, "metadata", "annotations")
        count = int(annotations.get(_TEMPLATE_GENERATION, "1"))
        changed = document["spec"]["template"] != old["spec"]["template"]
        _count_template(document, count + changed)

    def validate(self, document: Document) -> list[StatusCause]:
        """Selector, template, strategy."""
        causes = Causes()
        spec = document["spec"]
        check_workload(spec, "empty selector is invalid for daemonset", "DaemonSet", causes)
        check_counts(spec, ("minReadySeconds", "revisionHistoryLimit"), "spec", causes)
        strategy = spec["updateStrategy"]
        if strategy["type"] not in ("RollingUpdate", "OnDelete"):
            value = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
            causes.not_supported("spec.updateStrategy", value, ("RollingUpdate", "OnDelete"))
        elif strategy["type"] == "RollingUpdate":
            rolling, path = strategy["rollingUpdate"], "spec.updateStrategy.rollingUpdate"
            for field in ("maxUnavailable", "maxSurge"):
                check_int_or_percent(rolling.get(field), f"{path}.{field}", causes)
            unavailable, surge = is_zero(rolling["maxUnavailable"]), is_zero(rolling["maxSurge"])
            if unavailable and surge:
                causes.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
            elif not unavailable and not surge:
                why = "may not be set when maxUnavailable is non-zero"
                causes.invalid(f"{path}.maxSurge", rolling["maxSurge"], why)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The selector is fixed; of a status the counts."""
        if document["spec"] is old["spec"]:
            causes = Causes()
            more = ("observedGeneration", "updatedNumberScheduled", "numberAvailable")
            counts = (*self.status_zeros, *more, "numberUnavailable")
            check_counts(section(document, "status"), counts, "status", causes)
            return causes
        causes = Causes(self.validate(document))
        causes.fixed("spec.selector", document["spec"].get("selector"), old["spec"].get("selector"))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec, status = document["spec"], section(document, "status")
        pods = section(spec, "template", "spec")
        return [
            document["metadata"]["name"],
            status.get("desiredNumberScheduled", 0),
            status.get("currentNumberScheduled", 0),
            status.get("numberReady", 0),
            status.get("updatedNumberScheduled", 0),
            status.get("numberAvailable", 0),
            labels_text(pods.get("nodeSelector")),
            age_of(document, now_seconds),
            *container_cells(pods),
            selector_text(spec.get("selector")),
        ]


_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


def _count_template(document: Document, count: int) -> None:
    document["metadata"].setdefault("annotations", {})[_TEMPLATE_GENERATION] = str(count)
