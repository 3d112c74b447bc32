# SPDX-License-Identifier: Apache-2.0
"""StatefulSets: defaults, what may change, table rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base.documents import Document
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.pod.defaults import default_claim_spec, default_template
from koord.controlplane.kinds.table_cells import (
    AGE,
    CONTAINERS,
    NAME,
    age_of,
    container_cells,
)
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.kinds.validation.workload_spec import (
    check_counts,
    check_int_or_percent,
    check_workload,
)
from koord.controlplane.kinds.workload.deployments import SCALE, WorkloadStrategy
from koord.controlplane.resource import Column

if TYPE_CHECKING:
    from koord.kube.errors import StatusCause

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
