# SPDX-License-Identifier: Apache-2.0
"""Deployments, ReplicaSets and ReplicationControllers."""

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
    check_long_lived_template,
    check_workload,
    is_zero,
)
from koord.controlplane.resource import Column, ScalePaths, Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause


SCALE = ScalePaths("spec.replicas", "status.replicas", "spec.selector")
_STRATEGIES = ("Recreate", "RollingUpdate")
_EMPTY_SELECTOR = "empty selector is invalid for deployment"
_REPLICA_COUNTS = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
)


class WorkloadStrategy(Strategy):
    """What all kinds with a pod template share: a status of its own, a counted spec.

    Attributes:
        status_zeros: counts that are always written.
    """

    status_subresource = True
    generation = True
    status_zeros: tuple[str, ...] = ()

    def prepare_create(self, document: Document, context: Context) -> None:
        """A new one has an empty status."""
        document["status"] = dict.fromkeys(self.status_zeros, 0)

    def prepare_status(self, document: Document, old: Document, context: Context) -> None:
        """Everything but the status stays; counts that are always written are there."""
        super().prepare_status(document, old, context)
        status = document.setdefault("status", {})
        for field in self.status_zeros:
            status.setdefault(field, 0)


class DeploymentStrategy(WorkloadStrategy):
    """Deployments."""

    scale = SCALE
    columns = (
        NAME,
        Column("Ready"),
        Column("Up-to-date"),
        Column("Available"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )

    def default(self, document: Document) -> None:
        """One replica, a rolling update by quarters, ten revisions, ten minutes to progress."""
        spec = document.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", "25%")
            rolling.setdefault("maxSurge", "25%")
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def prepare_status(self, document: Document, old: Document, context: Context) -> None:
        """Labels stay too."""
        super().prepare_status(document, old, context)
        if "labels" in old["metadata"]:
            document["metadata"]["labels"] = old["metadata"]["labels"]

    def validate(self, document: Document) -> list[StatusCause]:
        """Counts, selector, template, strategy."""
        causes = Causes()
        spec = document["spec"]
        check_counts(spec, ("replicas", "minReadySeconds", "revisionHistoryLimit"), "spec", causes)
        check_workload(spec, _EMPTY_SELECTOR, "ReplicaSet", causes)
        self._check_strategy(spec["strategy"], causes)
        deadline = spec["progressDeadlineSeconds"]
        causes.negative("spec.progressDeadlineSeconds", deadline)
        ready = spec.get("minReadySeconds", 0)
        if 0 < deadline <= ready:
            causes.invalid(
                "spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"
            )
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The selector is fixed; of a status the counts."""
        if document["spec"] is old["spec"]:
            return _check_status(section(document, "status"), "updatedReplicas")
        causes = Causes(self.validate(document))
        causes.fixed("spec.selector", document["spec"].get("selector"), old["spec"].get("selector"))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec, status = document["spec"], section(document, "status")
        return [
            document["metadata"]["name"],
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            status.get("updatedReplicas", 0),
            status.get("availableReplicas", 0),
            age_of(document, now_seconds),
            *container_cells(section(spec, "template", "spec")),
            selector_text(spec.get("selector")),
        ]

    def _check_strategy(self, strategy: Document, causes: Causes) -> None:
        path = "spec.strategy"
        if strategy["type"] == "Recreate":
            if "rollingUpdate" in strategy:
                why = "may not be specified when strategy `type` is 'Recreate'"
                causes.forbidden(f"{path}.rollingUpdate", why)
        elif strategy["type"] != "RollingUpdate":
            value = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
            causes.not_supported(path, value, _STRATEGIES)
        else:
            rolling = strategy["rollingUpdate"]
            path = f"{path}.rollingUpdate"
            for field in ("maxUnavailable", "maxSurge"):
                check_int_or_percent(rolling.get(field), f"{path}.{field}", causes)
            if is_zero(rolling.get("maxUnavailable")) and is_zero(rolling.get("maxSurge")):
                why = "may not be 0 when `maxSurge` is 0"
                causes.invalid(f"{path}.maxUnavailable", rolling.get("maxUnavailable"), why)


class ReplicaSetStrategy(WorkloadStrategy):
    """ReplicaSets."""

    scale = SCALE
    status_zeros = ("replicas",)
    columns = (
        NAME,
        integer("Desired"),
        integer("Current"),
        integer("Ready"),
        AGE,
        *CONTAINERS,
        SELECTOR,
    )
    selectable = ("status.replicas",)

    def default(self, document: Document) -> None:
        """One replica."""
        spec = document.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        spec.setdefault("replicas", 1)

    def validate(self, document: Document) -> list[StatusCause]:
        """Counts, selector, template."""
        causes = Causes()
        spec = document["spec"]
        check_counts(spec, ("replicas", "minReadySeconds"), "spec", causes)
        check_workload(spec, _EMPTY_SELECTOR, "ReplicaSet", causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The selector is fixed; of a status the counts."""
        if document["spec"] is old["spec"]:
            return _check_status(section(document, "status"), "fullyLabeledReplicas")
        causes = Causes(self.validate(document))
        causes.fixed("spec.selector", document["spec"].get("selector"), old["spec"].get("selector"))
        return causes

    def fields(self, document: Document) -> Mapping[str, str]:
        """How many there are."""
        return {"status.replicas": str(section(document, "status").get("replicas", 0))}

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec, status = document["spec"], section(document, "status")
        return [
            document["metadata"]["name"],
            spec.get("replicas", 0),
            status.get("replicas", 0),
            status.get("readyReplicas", 0),
            age_of(document, now_seconds),
            *container_cells(section(spec, "template", "spec")),
            self._selector(spec),
        ]

    def _selector(self, spec: Document) -> str:
        return selector_text(spec.get("selector"))


class ReplicationControllerStrategy(ReplicaSetStrategy):
    """ReplicationControllers: the same with a selector that is a map of labels."""

    def default(self, document: Document) -> None:
        """Selector and labels are those of the template."""
        super().default(document)
        spec = document["spec"]
        labels = section(spec, "template", "metadata").get("labels")
        if labels:
            spec.setdefault("selector", dict(labels))
            if not document["metadata"].get("labels"):
                document["metadata"]["labels"] = dict(labels)

    def validate(self, document: Document) -> list[StatusCause]:
        """Counts, selector, template."""
        causes = Causes()
        spec = document["spec"]
        check_counts(spec, ("replicas", "minReadySeconds"), "spec", causes)
        selector, template = spec.get("selector"), spec["template"]
        labels = template["metadata"].get("labels") or {}
        if not selector:
            causes.required("spec.selector")
        elif any(labels.get(key) != value for key, value in selector.items()):
            why = "`selector` does not match template `labels`"
            causes.invalid("spec.template.metadata.labels", labels, why)
        check_long_lived_template(template, "ReplicationController", "spec.template", causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The selector may change here."""
        if document["spec"] is old["spec"]:
            return _check_status(section(document, "status"), "fullyLabeledReplicas")
        return self.validate(document)

    def _selector(self, spec: Document) -> str:
        return labels_text(spec.get("selector"))


def _check_status(status: Document, other: str) -> Causes:
    """Counts of replicas: not negative, and no part larger than the whole."""
    causes = Causes()
    check_counts(status, (*_REPLICA_COUNTS, "updatedReplicas"), "status", causes)
    whole = status.get("replicas", 0)
    for field in (other, "readyReplicas", "availableReplicas"):
        count = status.get(field, 0)
        if count > whole:
            causes.invalid(f"status.{field}", count, "cannot be greater than status.replicas")
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        why = "cannot be greater than readyReplicas"
        causes.invalid("status.availableReplicas", available, why)
    return causes
