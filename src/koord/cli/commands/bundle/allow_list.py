# SPDX-License-Identifier: Apache-2.0
"""Which objects a bundle has, and which of their fields: what is not named here is left out.

Secrets are never asked for. Of containers nothing is kept but name, image, resources and the flags
of koord's own programs that say no secret; of annotations and labels those of koord and Kubernetes.
Rule: docs/guide-support-bundle.md#what-is-in-it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from koord.base.documents import Document

Tree = Mapping[str, Any]
"""Fields that are kept: True for a value as it is, a tree for an object's or each item's fields;
``*`` stands for every key.
"""

LEFT_OUT: Final = "<left out>"
_NAMES: Final = ("koordinator.sh", "koord.sh", "k8s.io", "kubernetes.io")
_NEVER: Final = ("kubectl.kubernetes.io/last-applied-configuration",)
_FLAGS: Final = frozenset(
    (
        "addr", "api-check-period", "bind-address", "cgroup-root-dir", "config", "controllers",
        "config-namespace", "descheduling-interval", "disable-query-kubelet-config", "dry-run",
        "enable-leader-election", "feature-gates", "health-probe-addr", "leader-elect",
        "leader-election-namespace", "metrics-addr", "node-selector", "only-evict-by-api",
        "pods-from", "policy-config-file", "port", "quota-scope", "reservation-scope", "rounds",
        "scheduler-config", "scheduling-timeout", "secure-port", "slo-config-name",
        "tls-cert-file", "tls-private-key-file", "v",
    )
)  # fmt: skip
"""Flags of koord's programs whose values say nothing secret."""


class Kept:
    """Marks fields that a function makes safe: see :func:`kept`."""

    def __init__(self, name: str) -> None:
        self.name = name


_KEYS, _ARGUMENTS = Kept("keys"), Kept("arguments")
_META: Tree = {
    "name": True, "namespace": True, "generation": True, "creationTimestamp": True,
    "deletionTimestamp": True, "finalizers": True, "labels": _KEYS, "annotations": _KEYS,
    "ownerReferences": {"kind": True, "name": True, "controller": True},
}  # fmt: skip
_CONTAINER: Tree = {"name": True, "image": True, "resources": True}
_POD_SPEC: Tree = {
    "nodeName": True, "schedulerName": True, "priority": True, "priorityClassName": True,
    "nodeSelector": True, "affinity": True, "tolerations": True, "topologySpreadConstraints": True,
    "schedulingGates": True, "serviceAccountName": True, "hostNetwork": True, "overhead": True,
    "containers": _CONTAINER, "initContainers": _CONTAINER,
}  # fmt: skip
_TEMPLATE: Tree = {"metadata": _META, "spec": _POD_SPEC}
_OWN_POD_SPEC: Tree = {**_POD_SPEC, "containers": {**_CONTAINER, "args": _ARGUMENTS}}
_CONDITION: Tree = {
    "type": True, "status": True, "reason": True, "message": True, "lastTransitionTime": True,
    "observedGeneration": True,
}  # fmt: skip
_CONTAINER_STATE: Tree = {"reason": True, "startedAt": True, "finishedAt": True, "exitCode": True}
_STATES: Tree = {"waiting": _CONTAINER_STATE, "running": _CONTAINER_STATE,
                 "terminated": _CONTAINER_STATE}  # fmt: skip
_POD_STATUS: Tree = {
    "phase": True, "reason": True, "startTime": True, "qosClass": True,
    "nominatedNodeName": True, "conditions": _CONDITION,
    "containerStatuses": {
        "name": True, "image": True, "imageID": True, "ready": True, "restartCount": True,
        "state": _STATES, "lastState": _STATES,
    },
}  # fmt: skip
_WORKLOAD: Tree = {
    "metadata": _META,
    "spec": {"replicas": True, "strategy": True, "updateStrategy": True,
             "template": {"metadata": _META, "spec": _OWN_POD_SPEC}},
    "status": {"*": True, "conditions": _CONDITION},
}  # fmt: skip
_CUSTOM: Tree = {"metadata": _META, "spec": True, "status": True}
OWN_POD: Tree = {"metadata": _META, "spec": _OWN_POD_SPEC, "status": _POD_STATUS}
POD: Tree = {"metadata": _META, "spec": _POD_SPEC, "status": _POD_STATUS}
CONFIGURATION: Tree = {"metadata": _META, "data": True}
# Of an agent's status: neither pods, which are objects of their own, nor files and what is in them.
_CALLS: Tree = {"method": True, "count": True, "failures": True, "at": True,
                "tookMilliseconds": True, "error": True}  # fmt: skip
_RUNTIME: Tree = {
    "way": True, "socket": True, "connected": True, "synchronized": True, "runtime": True,
    "connections": True, "error": True, "calls": _CALLS, "unknownPods": True,
    "missingOnHost": True,
    "hookServer": {"socket": True, "serving": True, "stepsAside": True, "stages": True,
                   "error": True, "calls": _CALLS, "unknownPods": True},
}  # fmt: skip
AGENT_STATUS: Tree = {
    "node": True, "time": True, "ready": True, "dryRun": True, "machine": True, "states": True,
    "collectors": True, "usage": True, "strategies": True, "failures": True, "unsupported": True,
    "parts": True, "hookProblems": True, "ignoredAnnotations": True, "memory": True,
    "runtime": _RUNTIME,
}  # fmt: skip
EVENT: Tree = {
    "involvedObject": {"kind": True, "namespace": True, "name": True},
    "regarding": {"kind": True, "namespace": True, "name": True},
    "type": True, "reason": True, "message": True, "note": True, "count": True,
    "firstTimestamp": True, "lastTimestamp": True, "eventTime": True, "reportingComponent": True,
    "source": {"component": True, "host": True}, "series": True,
}  # fmt: skip
_WEBHOOK: Tree = {
    "name": True, "rules": True, "failurePolicy": True, "timeoutSeconds": True,
    "namespaceSelector": True, "objectSelector": True, "matchConditions": True,
    "clientConfig": {"service": True},
}  # fmt: skip


class BundledKind(NamedTuple):
    """A kind of which a bundle has objects.

    Attributes:
        name: of the file.
        path: where they are listed, with ``{namespace}`` for koord's own.
        fields: that are kept.
    """

    name: str
    path: str
    fields: Tree


def _custom(group: str, plural: str, fields: Tree = _CUSTOM, version: str = "v1alpha1") -> Any:
    return BundledKind(f"{plural}.{group}", f"/apis/{group}/{version}/{plural}", fields)


_RESERVED: Tree = {**_CUSTOM, "spec": {
    "template": _TEMPLATE, "owners": True, "ttl": True, "expires": True, "preAllocation": True,
    "allocateOnce": True, "allocatePolicy": True, "unschedulable": True, "taints": True,
}}  # fmt: skip
_MIGRATED: Tree = {**_CUSTOM, "spec": {
    "paused": True, "ttl": True, "mode": True, "podRef": True, "deleteOptions": True,
    "reservationOptions": {"reservationRef": True, "template": _RESERVED},
}}  # fmt: skip
_SCHEDULING, _SLO = "scheduling.koordinator.sh", "slo.koordinator.sh"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CLUSTER_KINDS: Final = (
    BundledKind("deployments", "/apis/apps/v1/namespaces/{namespace}/deployments", _WORKLOAD),
    BundledKind("daemonsets", "/apis/apps/v1/namespaces/{namespace}/daemonsets", _WORKLOAD),
    BundledKind("own-pods", "/api/v1/namespaces/{namespace}/pods", OWN_POD),
    BundledKind(
        "leases", "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases",
        {"metadata": _META, "spec": True},
    ),
    BundledKind(
        "nodes", "/api/v1/nodes",
        {
            "metadata": _META, "spec": {"unschedulable": True, "taints": True},
            "status": {
                "capacity": True, "allocatable": True, "nodeInfo": True, "conditions": _CONDITION,
            },
        },
    ),
    BundledKind(
        "webhooks-mutating", f"{_ADMISSION}/mutatingwebhookconfigurations",
        {"metadata": _META, "webhooks": _WEBHOOK},
    ),
    BundledKind(
        "webhooks-validating", f"{_ADMISSION}/validatingwebhookconfigurations",
        {"metadata": _META, "webhooks": _WEBHOOK},
    ),
    BundledKind(
        "definitions", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": _META,
            "spec": {"versions": {"name": True, "served": True, "storage": True}},
            "status": {"conditions": _CONDITION, "storedVersions": True},
        },
    ),
    _custom(_SLO, "nodemetrics"),
    _custom(_SLO, "nodeslos"),
    _custom(_SCHEDULING, "devices"),
    _custom(_SCHEDULING, "reservations", _RESERVED),
    _custom(_SCHEDULING, "podmigrationjobs", _MIGRATED),
    _custom(_SCHEDULING, "clusternetworktopologies"),
    _custom("scheduling.sigs.k8s.io", "elasticquotas"),
    _custom("scheduling.sigs.k8s.io", "podgroups"),
    _custom("quota.koordinator.sh", "elasticquotaprofiles"),
    _custom("config.koordinator.sh", "clustercolocationprofiles"),
    _custom("topology.node.k8s.io", "noderesourcetopologies"),
)  # fmt: skip
CONFIGURATIONS: Final = {
    "slo-controller-config": (
        "colocation-config", "resource-threshold-config", "resource-qos-config",
        "cpu-burst-config", "system-config", "host-application-config", "cpu-normalization-config",
        "resource-amplification-config",
    ),
    "koord-scheduler-config": ("koord-scheduler.yaml", "koord-scheduler-config"),
    "koord-descheduler-config": ("koord-descheduler.yaml", "koord-descheduler-config"),
}  # fmt: skip
"""ConfigMaps of koord's own namespace, and the keys that are kept of each."""


def kept(value: Any, fields: Tree | Kept | bool) -> Any:
    """What may stay of a value.

    Args:
        value: of JSON.
        fields: that stay.
    """
    if fields is True:
        return value
    if fields is _KEYS:
        return _own_keys(value)
    if fields is _ARGUMENTS:
        return _arguments(value)
    if isinstance(value, list):
        return [kept(each, fields) for each in value]
    if not isinstance(value, dict) or not isinstance(fields, Mapping):
        return LEFT_OUT
    rest = fields.get("*")
    chosen = ((key, fields.get(key, rest)) for key in value)
    return {
        # Under a name of their own, since arguments as they are never stay.
        "flags" if each is _ARGUMENTS else key: kept(value[key], each)
        for key, each in chosen
        if each is not None
    }


def configuration(document: Document) -> Document:
    """A ConfigMap with the keys that are kept of it."""
    found: Document = kept(document, CONFIGURATION)
    keys = CONFIGURATIONS[document["metadata"]["name"]]
    found["data"] = {key: text for key, text in found.get("data", {}).items() if key in keys}
    return found


def _own_keys(value: Any) -> Any:
    """Of labels and annotations those that Kubernetes and koord write."""
    if not isinstance(value, dict):
        return LEFT_OUT
    return {
        key: text
        for key, text in value.items()
        if key not in _NEVER and "/" in key and key.partition("/")[0].endswith(_NAMES)
    }


def _arguments(value: Any) -> Any:
    """Flags with their values where these are no secrets; words alone are left out."""
    if not isinstance(value, list):
        return LEFT_OUT
    return [_argument(str(word)) for word in value]


def _argument(word: str) -> str:
    name, equals, text = word.partition("=")
    flag = name.lstrip("-")
    if not name.startswith("-") or not flag:
        return LEFT_OUT
    return f"{name}{equals}{text if flag in _FLAGS else LEFT_OUT}" if equals else name
