# SPDX-License-Identifier: Apache-2.0
"""Pods: what a new one looks like, how one may change, how one is found and shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from koord.base.documents import Document
from koord.controlplane.kinds.documents import bring, section
from koord.controlplane.kinds.pod import split_spec, table_row
from koord.controlplane.kinds.pod.defaults import default_pod, qos_class
from koord.controlplane.kinds.pod.resize import (
    check_ephemeral_change,
    check_resize,
    keep_all_but_ephemeral,
    keep_all_but_resources,
)
from koord.controlplane.kinds.pod.spec_validation import check_new_pod
from koord.controlplane.kinds.pod.update_validation import check_change
from koord.controlplane.resource import Strategy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controlplane.resource import Context, StoredParts
    from koord.kernels.splitter import SplitObject
    from koord.kube.errors import StatusCause


_encode = msgspec.json.Encoder().encode
_GATED = "Scheduling is blocked due to non-empty scheduling gates"


class PodStrategy(Strategy):
    """Pods (core ``registry/core/pod``)."""

    status_subresource = True
    graceful = True
    returns_deleted = True
    generation = True
    has_templates = True
    columns = table_row.COLUMNS
    selectable = (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    )

    def default(self, document: Document) -> None:
        """Everything that the API server fills in for a pod, save what admission adds."""
        default_pod(document.setdefault("spec", {}))

    def prepare_create(self, document: Document, context: Context) -> None:
        """A new pod is Pending, whatever status came along."""
        spec = document["spec"]
        status: Document = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            status["conditions"] = [gated_condition(context.now)]
        status["qosClass"] = qos_class(spec)
        document["status"] = status
        if "affinity" in spec or "topologySpreadConstraints" in spec:
            _merge_label_keys(document)

    def prepare_update(self, document: Document, old: Document, context: Context) -> None:
        """Status stays."""
        bring(document, old, "status")

    def prepare_status(self, document: Document, old: Document, context: Context) -> None:
        """Spec, owners and QoS class stay."""
        super().prepare_status(document, old, context)
        bring(document["metadata"], old["metadata"], "ownerReferences")
        status = document.setdefault("status", {})
        before = section(old, "status")
        if not status.get("qosClass") and before.get("qosClass"):
            status["qosClass"] = before["qosClass"]
        _keep_observed_generations(status, before)

    def repeats(self, spec: Document) -> bool:
        """Not if the time matters (gates), or labels become part of the spec (their keys)."""
        text = _encode(spec)
        return b'"schedulingGates"' not in text and b'abelKeys"' not in text

    def split(self, spec: bytes) -> SplitObject | None:
        """Containers, volumes and the like are parts."""
        return split_spec.split(spec)

    def stored_parts(self, spec: SplitObject) -> StoredParts | None:
        """The QoS class follows from what containers ask for."""
        return split_spec.stored_parts(spec)

    def validate(self, document: Document) -> list[StatusCause]:
        """What is wrong with a new pod."""
        return check_new_pod(document)

    def validate_update(self, document: Document, old: Document) -> list[StatusCause]:
        """What is wrong with a changed pod or its changed status."""
        return check_change(document, old)

    def prepare_subresource(
        self, subresource: str, document: Document, old: Document, context: Context
    ) -> None:
        """``resize`` changes resources, ``ephemeralcontainers`` adds containers."""
        if subresource == "resize":
            keep_all_but_resources(document, old)
        elif subresource == "ephemeralcontainers":
            keep_all_but_ephemeral(document, old)
        else:
            self.prepare_status(document, old, context)
            return
        bring(document, old, "status")

    def validate_subresource(
        self, subresource: str, document: Document, old: Document
    ) -> list[StatusCause]:
        """Of ``resize`` the resources, of ``ephemeralcontainers`` those, else the status."""
        if subresource == "resize":
            return check_resize(document, old)
        if subresource == "ephemeralcontainers":
            return check_ephemeral_change(document, old)
        return check_change(document, old)

    def grace_period_seconds(self, document: Document, requested: int | None) -> int:
        """What was asked or the spec says; nothing for a pod that no node runs."""
        spec = section(document, "spec")
        if not spec.get("nodeName"):
            return 0
        if section(document, "status").get("phase") in ("Succeeded", "Failed"):
            return 0
        seconds = spec.get("terminationGracePeriodSeconds", 0) if requested is None else requested
        return int(seconds) if seconds >= 0 else 1

    def fields(self, document: Document) -> Mapping[str, str]:
        """Where it runs, who schedules it, how it is."""
        spec, status = section(document, "spec"), section(document, "status")
        addresses = status.get("podIPs")
        return {
            "spec.nodeName": spec.get("nodeName", ""),
            "spec.restartPolicy": spec.get("restartPolicy", ""),
            "spec.schedulerName": spec.get("schedulerName", ""),
            "spec.serviceAccountName": spec.get("serviceAccountName", ""),
            "spec.hostNetwork": "true" if spec.get("hostNetwork") else "false",
            "status.phase": status.get("phase", ""),
            "status.podIP": addresses[0].get("ip", "") if addresses else "",
            "status.nominatedNodeName": status.get("nominatedNodeName", ""),
        }

    def row(self, document: Document, now_seconds: float) -> list[Any]:
        """The cells of one table row."""
        return table_row.row(document, now_seconds)


def gated_condition(now: str) -> Document:
    """``PodScheduled`` of a pod with scheduling gates."""
    return {
        "type": "PodScheduled",
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": "SchedulingGated",
        "message": _GATED,
    }


def _merge_label_keys(pod: Document) -> None:
    """``matchLabelKeys`` become requirements of the selectors beside them."""
    labels = pod["metadata"].get("labels") or {}
    spec = pod["spec"]
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_into(constraint, "matchLabelKeys", "In", labels)
    every = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = every.get(kind)
        if not affinity:
            continue
        terms = list(affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ())
        weighted = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        terms += [entry.get("podAffinityTerm") or {} for entry in weighted]
        for term in terms:
            _merge_into(term, "matchLabelKeys", "In", labels)
            _merge_into(term, "mismatchLabelKeys", "NotIn", labels)


def _merge_into(term: Document, key: str, operator: str, labels: Mapping[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for label in term.get(key) or ():
        if label in labels:
            selector.setdefault("matchExpressions", []).append(
                {"key": label, "operator": operator, "values": [labels[label]]}
            )


def _keep_observed_generations(status: Document, before: Document) -> None:
    if not status.get("observedGeneration") and before.get("observedGeneration"):
        status["observedGeneration"] = before["observedGeneration"]
    known = {
        entry.get("type"): entry["observedGeneration"]
        for entry in reversed(before.get("conditions") or ())
        if entry.get("observedGeneration")
    }
    for entry in status.get("conditions") or ():
        if not entry.get("observedGeneration") and entry.get("type") in known:
            entry["observedGeneration"] = known[entry["type"]]
