# SPDX-License-Identifier: Apache-2.0
"""The core resources that the server serves, as kube-apiserver's discovery names them."""

from __future__ import annotations

from typing import Any

from koord.controlplane.customresources.strategies import DefinitionStrategy
from koord.controlplane.kinds.autoscaling.v1 import HorizontalPodAutoscalerV1Strategy
from koord.controlplane.kinds.autoscaling.v2 import HorizontalPodAutoscalerStrategy
from koord.controlplane.kinds.cluster.admissionregistration import (
    AdmissionPolicyBindingStrategy,
    AdmissionPolicyStrategy,
    WebhookConfigurationStrategy,
)
from koord.controlplane.kinds.cluster.configmaps import ConfigMapStrategy
from koord.controlplane.kinds.cluster.events import EventsGroupStrategy, EventStrategy
from koord.controlplane.kinds.cluster.leases import LeaseStrategy
from koord.controlplane.kinds.cluster.namespaces import NamespaceStrategy
from koord.controlplane.kinds.cluster.nodes import NodeStrategy
from koord.controlplane.kinds.cluster.priority_classes import PriorityClassStrategy
from koord.controlplane.kinds.cluster.quotas import (
    LimitRangeStrategy,
    ResourceQuotaStrategy,
    ServiceAccountStrategy,
)
from koord.controlplane.kinds.cluster.rbac import RoleBindingStrategy, RoleStrategy
from koord.controlplane.kinds.cluster.secrets import SecretStrategy
from koord.controlplane.kinds.cluster.storage_classes import (
    CSIDriverStrategy,
    CSINodeStrategy,
    CSIStorageCapacityStrategy,
    StorageClassStrategy,
    VolumeAttachmentStrategy,
)
from koord.controlplane.kinds.cluster.volume_claims import PersistentVolumeClaimStrategy
from koord.controlplane.kinds.cluster.volumes import PersistentVolumeStrategy
from koord.controlplane.kinds.networking.ingress_classes import IngressClassStrategy
from koord.controlplane.kinds.networking.ingresses import IngressStrategy
from koord.controlplane.kinds.networking.network_policies import NetworkPolicyStrategy
from koord.controlplane.kinds.networking.services import (
    EndpointSliceStrategy,
    EndpointsStrategy,
    ServiceStrategy,
)
from koord.controlplane.kinds.pod.strategy import PodStrategy
from koord.controlplane.kinds.workload.daemon_sets import DaemonSetStrategy
from koord.controlplane.kinds.workload.deployments import (
    DeploymentStrategy,
    ReplicaSetStrategy,
    ReplicationControllerStrategy,
)
from koord.controlplane.kinds.workload.disruption_budgets import PodDisruptionBudgetStrategy
from koord.controlplane.kinds.workload.jobs import CronJobStrategy, JobStrategy
from koord.controlplane.kinds.workload.pod_templates import (
    ControllerRevisionStrategy,
    PodTemplateStrategy,
)
from koord.controlplane.kinds.workload.stateful_sets import StatefulSetStrategy
from koord.controlplane.resource import Resource, Strategy
from koord.controlplane.schema import core_schema

_ADMISSION, _APPS, _BATCH = "admissionregistration.k8s.io", "apps", "batch"
_DEVICES, _NETWORKING = "resource.k8s.io", "networking.k8s.io"
_RBAC, _STORAGE = "rbac.authorization.k8s.io", "storage.k8s.io"
_POD_SUBRESOURCES = (
    "status", "binding", "eviction", "ephemeralcontainers", "resize", "log", "exec", "attach",
    "portforward", "proxy",
)  # fmt: skip
_ALL, _EXTENSIONS = ("all",), ("api-extensions",)
_STATUS, _SCALE = ("status",), ("status", "scale")


_TABLE: list[dict[str, Any]] = []


class DeviceKindStrategy(Strategy):
    """Kinds of devices that schedulers and controllers watch, stored as they come."""

    returns_deleted = True


class ResourceClaimStrategy(DeviceKindStrategy):
    """ResourceClaims, whose status is the scheduler's and the driver's."""

    status_subresource = True


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
_serve("", "Secret", "secrets", SecretStrategy())
_serve(
    "",
    "Service",
    "services",
    ServiceStrategy(),
    short_names=("svc",),
    categories=_ALL,
    subresources=_STATUS,
)
_serve(
    "",
    "Endpoints",
    "endpoints",
    EndpointsStrategy(),
    short_names=("ep",),
    warning="v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
)
_serve("", "Event", "events", EventStrategy(), short_names=("ev",))
_serve(
    "",
    "ServiceAccount",
    "serviceaccounts",
    ServiceAccountStrategy(),
    short_names=("sa",),
    subresources=("token",),
)
_cluster(
    "",
    "PersistentVolume",
    "persistentvolumes",
    PersistentVolumeStrategy(),
    short_names=("pv",),
    subresources=_STATUS,
)
_serve(
    "",
    "PersistentVolumeClaim",
    "persistentvolumeclaims",
    PersistentVolumeClaimStrategy(),
    short_names=("pvc",),
    subresources=_STATUS,
)
_serve("", "LimitRange", "limitranges", LimitRangeStrategy(), short_names=("limits",))
_serve(
    "",
    "ResourceQuota",
    "resourcequotas",
    ResourceQuotaStrategy(),
    short_names=("quota",),
    subresources=_STATUS,
)
_serve("", "PodTemplate", "podtemplates", PodTemplateStrategy())
_serve(
    "",
    "ReplicationController",
    "replicationcontrollers",
    ReplicationControllerStrategy(),
    short_names=("rc",),
    categories=_ALL,
    subresources=_SCALE,
)
for _kind, _plural, _short, _strategy in (
    ("Deployment", "deployments", "deploy", DeploymentStrategy()),
    ("ReplicaSet", "replicasets", "rs", ReplicaSetStrategy()),
    ("StatefulSet", "statefulsets", "sts", StatefulSetStrategy()),
):
    _serve(
        _APPS,
        _kind,
        _plural,
        _strategy,
        short_names=(_short,),
        categories=_ALL,
        subresources=_SCALE,
    )
_serve(
    _APPS,
    "DaemonSet",
    "daemonsets",
    DaemonSetStrategy(),
    short_names=("ds",),
    categories=_ALL,
    subresources=_STATUS,
)
_serve(_APPS, "ControllerRevision", "controllerrevisions", ControllerRevisionStrategy())
_serve(_BATCH, "Job", "jobs", JobStrategy(), categories=_ALL, subresources=_STATUS)
_serve(
    _BATCH,
    "CronJob",
    "cronjobs",
    CronJobStrategy(),
    short_names=("cj",),
    categories=_ALL,
    subresources=_STATUS,
)
for _version, _scaler in (
    ("v1", HorizontalPodAutoscalerV1Strategy()),
    ("v2", HorizontalPodAutoscalerStrategy()),
):
    _serve(
        "autoscaling",
        "HorizontalPodAutoscaler",
        "horizontalpodautoscalers",
        _scaler,
        version=_version,
        storage_api_version="autoscaling/v2",
        short_names=("hpa",),
        categories=_ALL,
        subresources=_STATUS,
    )
_serve(
    "policy",
    "PodDisruptionBudget",
    "poddisruptionbudgets",
    PodDisruptionBudgetStrategy(),
    short_names=("pdb",),
    subresources=_STATUS,
)
_serve("coordination.k8s.io", "Lease", "leases", LeaseStrategy())
_cluster(
    "scheduling.k8s.io",
    "PriorityClass",
    "priorityclasses",
    PriorityClassStrategy(),
    short_names=("pc",),
)
_serve(
    "events.k8s.io",
    "Event",
    "events",
    EventsGroupStrategy(),
    short_names=("ev",),
    storage="events",
    storage_api_version="v1",
)
_serve(
    _NETWORKING,
    "Ingress",
    "ingresses",
    IngressStrategy(),
    short_names=("ing",),
    subresources=_STATUS,
)
_cluster(_NETWORKING, "IngressClass", "ingressclasses", IngressClassStrategy())
_serve(
    _NETWORKING,
    "NetworkPolicy",
    "networkpolicies",
    NetworkPolicyStrategy(),
    short_names=("netpol",),
)
_serve("discovery.k8s.io", "EndpointSlice", "endpointslices", EndpointSliceStrategy())
_cluster(_STORAGE, "StorageClass", "storageclasses", StorageClassStrategy(), short_names=("sc",))
_cluster(_STORAGE, "CSINode", "csinodes", CSINodeStrategy())
_cluster(_STORAGE, "CSIDriver", "csidrivers", CSIDriverStrategy())
_serve(_STORAGE, "CSIStorageCapacity", "csistoragecapacities", CSIStorageCapacityStrategy())
_cluster(
    _STORAGE,
    "VolumeAttachment",
    "volumeattachments",
    VolumeAttachmentStrategy(),
    subresources=_STATUS,
)
# kube-scheduler and kube-controller-manager wait until they have lists of these, empty as they are.
_cluster(
    _STORAGE,
    "VolumeAttributesClass",
    "volumeattributesclasses",
    DeviceKindStrategy(),
    short_names=("vac",),
)
_cluster(_DEVICES, "DeviceClass", "deviceclasses", DeviceKindStrategy())
_cluster(_DEVICES, "ResourceSlice", "resourceslices", DeviceKindStrategy())
_serve(_DEVICES, "ResourceClaimTemplate", "resourceclaimtemplates", DeviceKindStrategy())
_serve(
    _DEVICES,
    "ResourceClaim",
    "resourceclaims",
    ResourceClaimStrategy(),
    subresources=_STATUS,
)
_serve(_RBAC, "Role", "roles", RoleStrategy())
_serve(_RBAC, "RoleBinding", "rolebindings", RoleBindingStrategy())
_cluster(_RBAC, "ClusterRole", "clusterroles", RoleStrategy(cluster=True))
_cluster(_RBAC, "ClusterRoleBinding", "clusterrolebindings", RoleBindingStrategy(cluster=True))
for _kind, _mutating in (
    ("MutatingWebhookConfiguration", True),
    ("ValidatingWebhookConfiguration", False),
):
    _webhooks = WebhookConfigurationStrategy(mutating=_mutating)
    _cluster(_ADMISSION, _kind, f"{_kind.lower()}s", _webhooks, categories=_EXTENSIONS)
_cluster(
    _ADMISSION,
    "ValidatingAdmissionPolicy",
    "validatingadmissionpolicies",
    AdmissionPolicyStrategy(),
    categories=_EXTENSIONS,
    subresources=_STATUS,
)
_cluster(
    _ADMISSION,
    "ValidatingAdmissionPolicyBinding",
    "validatingadmissionpolicybindings",
    AdmissionPolicyBindingStrategy(),
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
