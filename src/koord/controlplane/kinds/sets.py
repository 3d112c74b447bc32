# SPDX-License-Identifier: Apache-2.0
"""StatefulSets, DaemonSets, their ControllerRevisions, and PodTemplates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controlplane.kinds.causes import Causes
from koord.controlplane.kinds.documents import NONE, section
from koord.controlplane.kinds.pod_defaults import default_claim_spec, default_template
from koord.controlplane.kinds.pod_rules import check_template
from koord.controlplane.kinds.rows import (
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
from koord.controlplane.kinds.workload_rules import (
    check_counts,
    check_int_or_percent,
    check_workload,
    is_zero,
)
from koord.controlplane.kinds.workloads import SCALE, WorkloadStrategy
from koord.controlplane.resource import Column, Strategy

if TYPE_CHECKING:
    from koord.controlplane.resource import Context
    from koord.kube.errors import StatusCause

Document = dict[str, Any]

_CHANGEABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_FIXED = (
    f"updates to statefulset spec for fields other than "
    f"{', '.join(repr(field) for field in _CHANGEABLE[:-1])} and {_CHANGEABLE[-1]!r} are forbidden"
)


class StatefulSetStrategy(WorkloadStrategy):
    """StatefulSets."""

    scale = SCALE
    status_zeros = ("replicas", "availableReplicas")
    columns = (NAME, Column("Ready"), AGE, *CONTAINERS)

    def default(self, document: Document) -> None:
        """One replica at a time, in order; claims are kept."""
        spec = document.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        spec.setdefault("podManagementPolicy", "OrderedReady")
        spec.setdefault("serviceName", "")
        strategy = spec.setdefault("updateStrategy", {})
        if "type" not in strategy:
            strategy["type"] = "RollingUpdate"
            strategy.setdefault("rollingUpdate", {})
        if strategy["type"] == "RollingUpdate" and "rollingUpdate" in strategy:
            strategy["rollingUpdate"].setdefault("partition", 0)
        kept = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        kept.setdefault("whenDeleted", "Retain")
        kept.setdefault("whenScaled", "Retain")
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim.setdefault("apiVersion", "v1")
            claim.setdefault("kind", "PersistentVolumeClaim")
            claim.setdefault("metadata", {})
            default_claim_spec(claim.setdefault("spec", {}))
            claim.setdefault("status", {}).setdefault("phase", "Pending")

    def validate(self, document: Document) -> list[StatusCause]:
        """Policies, counts, selector, template."""
        causes = Causes()
        spec = document["spec"]
        policy, strategy = spec["podManagementPolicy"], spec["updateStrategy"]
        if policy not in ("OrderedReady", "Parallel"):
            why = "must be 'OrderedReady' or 'Parallel'"
            causes.invalid("spec.podManagementPolicy", policy, why)
        if strategy["type"] not in ("RollingUpdate", "OnDelete"):
            value = {"Type": strategy["type"], "RollingUpdate": strategy.get("rollingUpdate")}
            causes.invalid("spec.updateStrategy", value, "must be 'RollingUpdate' or 'OnDelete'")
        elif strategy["type"] == "OnDelete" and "rollingUpdate" in strategy:
            why = "only allowed for updateStrategy 'RollingUpdate'"
            causes.invalid("spec.updateStrategy.rollingUpdate", strategy["rollingUpdate"], why)
        rolling = strategy.get("rollingUpdate") or {}
        path = "spec.updateStrategy.rollingUpdate"
        causes.negative(f"{path}.partition", rolling.get("partition"))
        check_int_or_percent(rolling.get("maxUnavailable"), f"{path}.maxUnavailable", causes)
        check_counts(spec, ("replicas", "minReadySeconds", "revisionHistoryLimit"), "spec", causes)
        causes.negative("spec.ordinals.start", section(spec, "ordinals").get("start"))
        empty = "empty selector is invalid for statefulset"
        check_workload(_with_claims(spec), empty, "ReplicaSet", causes)
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """Most of the spec is fixed; of a status the counts."""
        causes = Causes()
        if document["spec"] is old["spec"]:
            status = section(document, "status")
            counts = ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")
            check_counts(status, (*counts, "availableReplicas", "collisionCount"), "status", causes)
            return causes
        causes.extend(self.validate(document))
        if _fixed_part(document["spec"]) != _fixed_part(old["spec"]):
            causes.forbidden("spec", _FIXED)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        spec, status = document["spec"], section(document, "status")
        return [
            document["metadata"]["name"],
            f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
            age_of(document, now_seconds),
            *container_cells(section(spec, "template", "spec")),
        ]


def _fixed_part(spec: Document) -> Document:
    return {key: value for key, value in spec.items() if key not in _CHANGEABLE}


def _with_claims(spec: Document) -> Document:
    """A spec whose template has the volumes of its claims, as its pods will have them."""
    names = [section(claim, "metadata").get("name", "") for claim in _claims(spec)]
    template = spec.get("template") or {}
    if not names or not isinstance(template.get("spec"), dict):
        return spec
    volumes: list[Document] = [
        {"name": name, "persistentVolumeClaim": {"claimName": "claim-name"}} for name in names
    ]
    volumes += [v for v in template["spec"].get("volumes") or () if v.get("name") not in names]
    return {**spec, "template": {**template, "spec": {**template["spec"], "volumes": volumes}}}


def _claims(spec: Document) -> list[Document]:
    return spec.get("volumeClaimTemplates") or []


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


class ControllerRevisionStrategy(Strategy):
    """ControllerRevisions: data that never changes under a number that may."""

    columns = (NAME, Column("Controller"), Column("Revision"), AGE)

    def validate(self, document: Document) -> list[StatusCause]:
        """There is data, and the number is not negative."""
        causes = Causes()
        if "data" not in document:
            causes.required("data", "data is mandatory")
        causes.negative("revision", document.setdefault("revision", 0))
        return causes

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """The data is fixed."""
        causes = Causes(self.validate(document))
        causes.fixed("data", document.get("data"), old.get("data"))
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        metadata = document["metadata"]
        owners = metadata.get("ownerReferences") or ()
        owner = next((entry for entry in owners if entry.get("controller")), None)
        named = NONE
        if owner is not None:
            group = owner["apiVersion"].rpartition("/")[0]
            kind = owner["kind"].lower() + (f".{group}" if group else "")
            named = f"{kind}/{owner['name']}"
        revision = document.get("revision", 0)
        return [metadata["name"], named, revision, age_of(document, now_seconds)]


class PodTemplateStrategy(Strategy):
    """PodTemplates."""

    returns_deleted = True
    generation = True
    columns = (NAME, Column("Containers"), Column("Images"), Column("Pod Labels"))

    def default(self, document: Document) -> None:
        """As for the templates of workloads."""
        default_template(document.setdefault("template", {}))

    def validate(self, document: Document) -> list[StatusCause]:
        """As for the templates of workloads."""
        causes = Causes()
        check_template(document["template"], "template", causes)
        return causes

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        template = section(document, "template")
        labels = labels_text(section(template, "metadata").get("labels"))
        return [
            document["metadata"]["name"],
            *container_cells(section(template, "spec")),
            labels,
        ]
