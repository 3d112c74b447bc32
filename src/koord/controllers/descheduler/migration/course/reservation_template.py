# SPDX-License-Identifier: Apache-2.0
"""The Reservation of a job, from the job and its pod.

Rule: docs/reference/migration.md#reservation-of-a-job. Whole documents, so that nothing that koord
has no field for is lost on the way to the new place.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys

if TYPE_CHECKING:
    from koord.base.documents import Document

CREATOR = "koord-descheduler"
_BY_CLAIM = ("persistentVolumeClaim", "ephemeral")
# What only the server, or its kubelet, gives a pod.
_OF_SERVER = (
    "uid", "resourceVersion", "generation", "creationTimestamp", "deletionTimestamp",
    "deletionGracePeriodSeconds", "managedFields", "selfLink",
)  # fmt: skip


def reservation_of(
    job: Document, pod: Document, now_millis: int, without_claims: bool = False
) -> Document:
    """What is created for a job.

    Args:
        job: as the API has it.
        pod: likewise.
        now_millis: wall time, the order among reservations.
        without_claims: leave volumes of claims out (gate ``DisablePVCReservation``).
    """
    spec = job.get("spec") or {}
    given = copy.deepcopy((spec.get("reservationOptions") or {}).get("template") or {})
    made_meta, made = given.get("metadata") or {}, given.get("spec") or {}
    meta = {key: made_meta[key] for key in ("labels", "annotations") if made_meta.get(key)}
    meta["name"] = made_meta.get("name") or job["metadata"]["uid"]
    meta["labels"] = {
        **meta.get("labels", {}),
        keys.CREATED_BY: CREATOR,
        keys.RESERVATION_ORDER: str(now_millis),
    }
    meta["ownerReferences"] = [_owner(job)]
    template = made.get("template") or _template_of(pod)
    target = (job["metadata"].get("annotations") or {}).get(keys.PLANNED_NODE, "")
    template["spec"] = _placed_elsewhere(template.get("spec") or {}, pod, target, without_claims)
    made = {**made, "template": template, "allocateOnce": True}
    made["owners"] = made.get("owners") or owners_of(pod)
    ttl = spec.get("ttl")
    if not made.get("ttl") and not made.get("expires") and ttl and ttl not in ("0", "0s"):
        made["ttl"] = ttl
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "Reservation",
        "metadata": meta, "spec": made,
    }  # fmt: skip


def owners_of(pod: Document) -> list[Document]:
    """Who may use the reservation: the pod itself where it has no node yet, else its controller."""
    meta = pod["metadata"]
    if _is_unschedulable(pod):
        reference = {key: meta[key] for key in ("uid", "name", "namespace") if meta.get(key)}
        return [{"object": {"kind": "Pod", **reference}}]
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return [{"controller": {**owner, "namespace": meta.get("namespace", "")}}]
    return []


def _owner(job: Document) -> Document:
    """The job: with it its reservation goes, whoever is there to see it."""
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1", "kind": "PodMigrationJob",
        "name": job["metadata"]["name"], "uid": job["metadata"]["uid"],
    }  # fmt: skip


def _template_of(pod: Document) -> Document:
    meta = {key: value for key, value in pod["metadata"].items() if key not in _OF_SERVER}
    return copy.deepcopy({"metadata": meta, "spec": pod.get("spec") or {}})


def _placed_elsewhere(spec: Document, pod: Document, target: str, without_claims: bool) -> Document:
    """The spec without its node, away from the node of the pod, and on a plan's if it has one."""
    spec = {key: value for key, value in spec.items() if key != "nodeName"}
    node = (pod.get("spec") or {}).get("nodeName")
    if node:
        _require(spec, "NotIn", node)
    if target:
        _require(spec, "In", target)
    if without_claims and spec.get("volumes"):
        kept = [each for each in spec["volumes"] if not any(each.get(key) for key in _BY_CLAIM)]
        spec["volumes"] = kept
    return spec


def _require(spec: Document, operator: str, node: str) -> None:
    """Every term of the required node affinity says so, since these are alternatives."""
    affinity = dict(spec.get("affinity") or {})
    of_nodes = dict(affinity.get("nodeAffinity") or {})
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    required = dict(of_nodes.get(key) or {})
    field = {"key": "metadata.name", "operator": operator, "values": [node]}
    terms: list[Any] = required.get("nodeSelectorTerms") or [{}]
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), field]} for term in terms
    ]
    of_nodes[key] = required
    affinity["nodeAffinity"] = of_nodes
    spec["affinity"] = affinity


def _is_unschedulable(pod: Document) -> bool:
    status = pod.get("status") or {}
    return status.get("phase") == "Pending" and any(
        (each.get("type"), each.get("status")) == ("PodScheduled", "False")
        for each in status.get("conditions") or ()
    )
