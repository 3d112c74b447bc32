# SPDX-License-Identifier: Apache-2.0
"""The core resources that the server serves, as kube-apiserver's discovery names them."""

from __future__ import annotations

from typing import Any

from koord.controlplane.custom import DefinitionStrategy
from koord.controlplane.kinds.config import ConfigMapStrategy
from koord.controlplane.kinds.namespaces import NamespaceStrategy
from koord.controlplane.kinds.nodes import NodeStrategy
from koord.controlplane.kinds.pods import PodStrategy
from koord.controlplane.resource import Resource, ScalePaths, Strategy
from koord.controlplane.schema import core_schema

_ADMISSION, _APPS, _BATCH = "admissionregistration.k8s.io", "apps", "batch"
_RBAC, _STORAGE = "rbac.authorization.k8s.io", "storage.k8s.io"
_POD_SUBRESOURCES = ("status", "binding", "eviction", "ephemeralcontainers", "resize", "log")
_ALL, _EXTENSIONS = ("all",), ("api-extensions",)
_STATUS, _SCALE = ("status",), ("status", "scale")


class _WithStatus(Strategy):
    status_subresource = True


class _Workload(Strategy):
    status_subresource = True
    generation = True


class _Scaled(_Workload):
    scale = ScalePaths("spec.replicas", "status.replicas", "spec.selector")


_TABLE: list[dict[str, Any]] = []


def _serve(
    group: str, kind: str, plural: str, strategy: Strategy | None = None, **fields: Any
) -> None:
    fields.setdefault("namespaced", True)
    fields.setdefault("version", "v1")
    strategy = strategy or Strategy()
    _TABLE.append({"group": group, "kind": kind, "plural": plural, "strategy": strategy, **fields})


def _cluster(
    group: str, kind: str, plural: str, strategy: Strategy | None = None, **fields: Any
) -> None:
    _serve(group, kind, plural, strategy, namespaced=False, **fields)


_serve(
    "",
    "Pod",
    "pods",
    PodStrategy(),
    short_names=("po",),
    categories=_ALL,
    subresources=_POD_SUBRESOURCES,
)
_cluster("", "Node", "nodes", NodeStrategy(), short_names=("no",), subresources=_STATUS)
_cluster(
    "",
    "Namespace",
    "namespaces",
    NamespaceStrategy(),
    short_names=("ns",),
    subresources=("status", "finalize"),
    verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
)
_serve("", "ConfigMap", "configmaps", ConfigMapStrategy(), short_names=("cm",))
_serve("", "Secret", "secrets")
_serve(
    "",
    "Service",
    "services",
    _WithStatus(),
    short_names=("svc",),
    categories=_ALL,
    subresources=_STATUS,
)
_serve("", "Endpoints", "endpoints", short_names=("ep",))
_serve("", "Event", "events", short_names=("ev",))
_serve("", "ServiceAccount", "serviceaccounts", short_names=("sa",), subresources=("token",))
_cluster(
    "",
    "PersistentVolume",
    "persistentvolumes",
    _WithStatus(),
    short_names=("pv",),
    subresources=_STATUS,
)
_serve(
    "",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    _WithStatus(),
    short_names=("pvc",),
    subresources=_STATUS,
)
_serve("", "LimitRange", "limitranges", short_names=("limits",))
_serve(
    "",
    "ResourceQuota",
    "resourcequotas",
    _WithStatus(),
    short_names=("quota",),
    subresources=_STATUS,
)
_serve("", "PodTemplate", "podtemplates")
_serve(
    "",
    "ReplicationController",
    "replicationcontrollers",
    _Scaled(),
    short_names=("rc",),
    categories=_ALL,
    subresources=_SCALE,
)
for _kind, _plural, _short in (
    ("Deployment", "deployments", "deploy"),
    ("ReplicaSet", "replicasets", "rs"),
    ("StatefulSet", "statefulsets", "sts"),
):
    _serve(
        _APPS,
        _kind,
        _plural,
        _Scaled(),
        short_names=(_short,),
        categories=_ALL,
        subresources=_SCALE,
    )
_serve(
    _APPS,
    "DaemonSet",
    "daemonsets",
    _Workload(),
    short_names=("ds",),
    categories=_ALL,
    subresources=_STATUS,
)
_serve(_APPS, "ControllerRevision", "controllerrevisions")
_serve(_BATCH, "Job", "jobs", _Workload(), categories=_ALL, subresources=_STATUS)
_serve(
    _BATCH,
    "CronJob",
    "cronjobs",
    _Workload(),
    short_names=("cj",),
    categories=_ALL,
    subresources=_STATUS,
)
_serve(
    "policy",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    _Workload(),
    short_names=("pdb",),
    subresources=_STATUS,
)
_serve("coordination.k8s.io", "Lease", "leases")
_cluster("scheduling.k8s.io", "PriorityClass", "priorityclasses", short_names=("pc",))
_serve(
    "events.k8s.io",
    "Event",
    "events",
    short_names=("ev",),
    storage="events",
    storage_api_version="v1",
)
_serve("discovery.k8s.io", "EndpointSlice", "endpointslices")
_cluster(_STORAGE, "StorageClass", "storageclasses", short_names=("sc",))
_cluster(_STORAGE, "CSINode", "csinodes")
_cluster(_STORAGE, "CSIDriver", "csidrivers")
_serve(_STORAGE, "CSIStorageCapacity", "csistoragecapacities")
_cluster(_STORAGE, "VolumeAttachment", "volumeattachments", _WithStatus(), subresources=_STATUS)
_serve(_RBAC, "Role", "roles")
_serve(_RBAC, "RoleBinding", "rolebindings")
_cluster(_RBAC, "ClusterRole", "clusterroles")
_cluster(_RBAC, "ClusterRoleBinding", "clusterrolebindings")
for _kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
    _cluster(_ADMISSION, _kind, f"{_kind.lower()}s", categories=_EXTENSIONS)
_cluster(
    _ADMISSION,
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    _WithStatus(),
    categories=_EXTENSIONS,
    subresources=_STATUS,
)
_cluster(
    _ADMISSION,
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    categories=_EXTENSIONS,
)
_cluster(
    "apiextensions.k8s.io",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    DefinitionStrategy(),
    short_names=("crd", "crds"),
    categories=_EXTENSIONS,
    subresources=_STATUS,
)


def resources() -> tuple[Resource, ...]:
    """Every core resource."""
    return tuple(
        Resource(schema=core_schema(entry["group"], entry["version"], entry["kind"]), **entry)
        for entry in _TABLE
    )
