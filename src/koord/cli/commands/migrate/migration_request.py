# SPDX-License-Identifier: Apache-2.0
"""The PodMigrationJob that moves a pod, out of the pod as it is.

Rule: docs/reference/migration.md#reservation-of-a-job.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.duration import Duration
from koord.api.kinds.migration import RESERVATION_FIRST, PodMigrationJob
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.registry import kind_of_type
from koord.api.protocol import keys
from koord.base.errors import Code, KoordError
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from koord.base.documents import Document
    from koord.kube.client import Client

JOB = kind_of_type(PodMigrationJob)
TRIGGER = "koord migrate"
_NOT_FOUND = 404
_FINISHED = ("Succeeded", "Failed")
_LONGEST_PREFIX = 50
# What a pod template may say of metadata.
_TEMPLATE_METADATA = ("labels", "annotations")


class MigrationRequest(NamedTuple):
    """What was asked for.

    Attributes:
        namespace, name: of the pod.
        node: where it is to go; empty for wherever the scheduler says.
        mode: ReservationFirst or EvictDirectly.
        ttl_seconds: how long the job may take; 0 for ever.
    """

    namespace: str
    name: str
    node: str = ""
    mode: str = RESERVATION_FIRST
    ttl_seconds: float = 300.0


async def job_of(client: Client, request: MigrationRequest) -> Document:
    """The job, not stored yet.

    Raises:
        KoordError: there is no such pod or node, or the pod cannot move, or not there.
    """
    pod = await _existing(client, Pod, "POD", request.name, request.namespace)
    _check_pod(pod, request)
    if request.node:
        node = await _existing(client, Node, "--to", request.node, "")
        _check_node(pod, node, request.node)
    meta = pod["metadata"]
    reference = {"namespace": request.namespace, "name": request.name, "uid": meta["uid"]}
    spec: Document = {
        "podRef": reference,
        "mode": request.mode,
        "ttl": str(Duration.of_seconds(request.ttl_seconds)),
    }
    if request.node:
        spec["reservationOptions"] = {
            "template": {"spec": {"template": template_on(pod, request.node)}}
        }
    return {
        "apiVersion": f"{JOB.group}/{JOB.version}",
        "kind": JOB.name,
        "metadata": {
            "generateName": f"{request.name[:_LONGEST_PREFIX].rstrip('-.')}-",
            "annotations": {
                keys.EVICT_TRIGGER: TRIGGER,
                keys.EVICT_REASON: f"asked for by {TRIGGER}",
            },
        },
        "spec": spec,
    }


def template_on(pod: Document, node: str) -> Document:
    """A pod's template that goes to one node alone: every term of its required node affinity says
    so, since these are alternatives.
    """
    meta = {key: pod["metadata"][key] for key in _TEMPLATE_METADATA if key in pod["metadata"]}
    spec = copy.deepcopy(pod["spec"])
    spec.pop("nodeName", None)
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms: list[Document] = required.setdefault("nodeSelectorTerms", []) or [{}]
    required["nodeSelectorTerms"] = terms
    for term in terms:
        fields = term.setdefault("matchFields", [])
        fields.append({"key": "metadata.name", "operator": "In", "values": [node]})
    return {"metadata": meta, "spec": spec}


async def _existing(client: Client, kind: type, argument: str, name: str, namespace: str) -> Any:
    try:
        return await client.get(kind_of_type(kind), name, namespace)
    except ApiError as error:
        if error.http_status != _NOT_FOUND:
            raise
        where = f" in namespace {namespace}" if namespace else ""
        expected = f"the name of a {kind.__name__.lower()}{where}"
        raise KoordError(argument, "", name, expected, Code.NOT_FOUND) from None


def _check_pod(pod: Document, request: MigrationRequest) -> None:
    title = f"pod {request.namespace}/{request.name}"
    phase = pod.get("status", {}).get("phase", "")
    if phase in _FINISHED:
        raise KoordError(title, "status.phase", phase, "a pod that still runs")
    if pod["metadata"].get("deletionTimestamp"):
        got = pod["metadata"]["deletionTimestamp"]
        raise KoordError(title, "metadata.deletionTimestamp", got, "a pod that stays")
    if not pod["spec"].get("nodeName"):
        raise KoordError(title, "spec.nodeName", "", "a pod that has a node")


def _check_node(pod: Document, node: Document, name: str) -> None:
    if pod["spec"]["nodeName"] == name:
        raise KoordError("--to", "", name, "another node: the pod is there already")
    if node.get("spec", {}).get("unschedulable"):
        raise KoordError("--to", "", name, "a node that takes pods: this one is cordoned")
