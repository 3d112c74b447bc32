# SPDX-License-Identifier: Apache-2.0
"""``POST pods/NAME/binding``: a pod is given to a node, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.base import faults
from koord.base.documents import Document
from koord.controlplane.api_errors import (
    bad_request,
    conflict,
    failure,
    listed,
    method_not_allowed,
    precondition_failed,
)
from koord.controlplane.kinds.documents import section
from koord.controlplane.kinds.validation.causes import Causes
from koord.controlplane.requests.bodies import checked
from koord.controlplane.storage.conversion import StoreReader

if TYPE_CHECKING:
    from koord.controlplane.subresources.request import SubresourceRequest
    from koord.kube.errors import ApiError


TOPOLOGY_LABELS = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region")


async def bind(call: SubresourceRequest) -> tuple[int, Document]:
    """Sets the node of a pod and merges the binding's annotations and labels into the pod's.

    Raises:
        ApiError: 404 no pod; 409 a node already, a deletion, gates, or another uid or version.
    """
    if call.method != "POST":
        raise method_not_allowed()
    binding = checked(call.document or {}, "", "v1", "Binding")
    metadata = binding.get("metadata") or {}
    if metadata.get("name", call.name) != call.name:
        raise bad_request("name in URL does not match name in Binding object")
    node = _target(binding)
    labels = {**_topology(call, node), **(metadata.get("labels") or {})}

    def assign(pod: Document) -> None:
        _check(call, pod, metadata)
        pod["spec"]["nodeName"] = node
        status = pod.setdefault("status", {})
        status.pop("nominatedNodeName", None)
        for key, added in (("annotations", metadata.get("annotations")), ("labels", labels)):
            if added:
                pod["metadata"][key] = {**(pod["metadata"].get(key) or {}), **added}
        set_condition(status, {"type": "PodScheduled", "status": "True"}, call.context.now)

    faults.point("controlplane.bind")
    await call.verbs.change(call.resource, call.namespace, call.name, assign, call.context)
    return 201, {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "code": 201,
    }


def set_condition(status: Document, condition: Document, now: str) -> None:
    """Puts a condition in place of the one of its type; the time changes with the status only."""
    conditions = status.setdefault("conditions", [])
    changed = {"lastProbeTime": None, "lastTransitionTime": now, **condition}
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            if present.get("status") == condition["status"] and "lastTransitionTime" in present:
                changed["lastTransitionTime"] = present["lastTransitionTime"]
            conditions[index] = changed
            return
    conditions.append(changed)


def _target(binding: Document) -> str:
    target = binding.get("target") or {}
    causes = Causes()
    if target.get("kind") not in (None, "", "Node"):
        causes.not_supported("target.kind", target["kind"], ("Node", "<empty>"))
    if not target.get("name"):
        causes.required("target.name")
    if causes:
        raise _unusable(listed(causes))
    return str(target["name"])


def _unusable(why: str) -> ApiError:
    """The original answers a binding without a node with a bare 500."""
    return failure(500, "", why)


def _check(call: SubresourceRequest, pod: Document, metadata: Document) -> None:
    found, name = pod["metadata"], call.name
    for key, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        wanted = metadata.get(key)
        if wanted and wanted != found.get(key):
            raise precondition_failed(call.resource, found, label, wanted)
    why = ""
    if "deletionTimestamp" in found:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
    elif node := pod["spec"].get("nodeName"):
        why = f'pod {name} is already assigned to node "{node}"'
    elif pod["spec"].get("schedulingGates"):
        why = f"pod {name} has non-empty .spec.schedulingGates"
    if why:
        refusal = conflict(call.resource, name, why)
        _name_subresource(refusal.status, name, why)
        raise refusal


def _name_subresource(status: Any, name: str, why: str) -> None:
    """The original words these conflicts as being about ``pods/binding``."""
    status.message = f'Operation cannot be fulfilled on pods/binding "{name}": {why}'
    status.details.kind = "pods/binding"


def _topology(call: SubresourceRequest, node: str) -> Document:
    """Zone and region of the node: pods carry them since Kubernetes 1.35."""
    found = StoreReader(call.verbs.store).document("nodes", "", node) or {}
    labels = section(found, "metadata", "labels")
    return {key: labels[key] for key in TOPOLOGY_LABELS if key in labels}
