# SPDX-License-Identifier: Apache-2.0
"""What crosses the wire: typed objects (`kinds`), the label and annotation protocol (`protocol`),
slo-controller-config (`sloconfig`), the CRDs. Public. Begin with `objects.decode`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from koord.api.codec import decode_json as decode_json
    from koord.api.codec import to_document as to_document
    from koord.api.codec import to_json as to_json
    from koord.api.definitions import crds as crds
    from koord.api.definitions import priority_classes as priority_classes
    from koord.api.draft import Draft as Draft
    from koord.api.draft import merge_patch as merge_patch
    from koord.api.duration import Duration as Duration
    from koord.api.kinds.cluster import ConfigMap as ConfigMap
    from koord.api.kinds.cluster import Event as Event
    from koord.api.kinds.cluster import Lease as Lease
    from koord.api.kinds.cluster import Namespace as Namespace
    from koord.api.kinds.cluster import PriorityClass as PriorityClass
    from koord.api.kinds.device import Device as Device
    from koord.api.kinds.device import DeviceInfo as DeviceInfo
    from koord.api.kinds.explanation import ScheduleExplanation as ScheduleExplanation
    from koord.api.kinds.meta import LabelSelector as LabelSelector
    from koord.api.kinds.meta import Object as Object
    from koord.api.kinds.meta import ObjectMeta as ObjectMeta
    from koord.api.kinds.meta import ObjectReference as ObjectReference
    from koord.api.kinds.meta import OwnerReference as OwnerReference
    from koord.api.kinds.meta import ResourceList as ResourceList
    from koord.api.kinds.migration import PodMigrationJob as PodMigrationJob
    from koord.api.kinds.network_topology import ClusterNetworkTopology as ClusterNetworkTopology
    from koord.api.kinds.node import Node as Node
    from koord.api.kinds.nodemetric import NodeMetric as NodeMetric
    from koord.api.kinds.nodeslo import NodeSLO as NodeSLO
    from koord.api.kinds.pod import Container as Container
    from koord.api.kinds.pod import Pod as Pod
    from koord.api.kinds.profile import ClusterColocationProfile as ClusterColocationProfile
    from koord.api.kinds.quota import ElasticQuota as ElasticQuota
    from koord.api.kinds.quota import ElasticQuotaProfile as ElasticQuotaProfile
    from koord.api.kinds.quota import GroupQuota as GroupQuota
    from koord.api.kinds.quota import PodGroup as PodGroup
    from koord.api.kinds.recommendation import Recommendation as Recommendation
    from koord.api.kinds.registry import KINDS as KINDS
    from koord.api.kinds.registry import Kind as Kind
    from koord.api.kinds.reservation import Reservation as Reservation
    from koord.api.kinds.topology import NodeResourceTopology as NodeResourceTopology
    from koord.api.kinds.workloads import DaemonSet as DaemonSet
    from koord.api.kinds.workloads import Deployment as Deployment
    from koord.api.kinds.workloads import Job as Job
    from koord.api.kinds.workloads import PodDisruptionBudget as PodDisruptionBudget
    from koord.api.kinds.workloads import ReplicaSet as ReplicaSet
    from koord.api.kinds.workloads import StatefulSet as StatefulSet
    from koord.api.objects import decode as decode
    from koord.api.objects import decode_as as decode_as
    from koord.api.objects import encode as encode
    from koord.api.objects import load_manifests as load_manifests
    from koord.api.objects import read_manifests as read_manifests
    from koord.api.protocol.qos import QoSClass as QoSClass

_EXPORTS: dict[str, tuple[str, ...]] = {
    "codec": ("decode_json", "to_document", "to_json"),
    "definitions": ("crds", "priority_classes"),
    "draft": ("Draft", "merge_patch"),
    "duration": ("Duration",),
    "kinds.cluster": ("ConfigMap", "Event", "Lease", "Namespace", "PriorityClass"),
    "kinds.device": ("Device", "DeviceInfo"),
    "kinds.explanation": ("ScheduleExplanation",),
    "kinds.meta": (
        "LabelSelector", "Object", "ObjectMeta", "ObjectReference", "OwnerReference",
        "ResourceList",
    ),
    "kinds.migration": ("PodMigrationJob",),
    "kinds.network_topology": ("ClusterNetworkTopology",),
    "kinds.node": ("Node",),
    "kinds.nodemetric": ("NodeMetric",),
    "kinds.nodeslo": ("NodeSLO",),
    "kinds.pod": ("Container", "Pod"),
    "kinds.profile": ("ClusterColocationProfile",),
    "kinds.quota": ("ElasticQuota", "ElasticQuotaProfile", "GroupQuota", "PodGroup"),
    "kinds.recommendation": ("Recommendation",),
    "kinds.registry": ("KINDS", "Kind"),
    "kinds.reservation": ("Reservation",),
    "kinds.topology": ("NodeResourceTopology",),
    "kinds.workloads": (
        "DaemonSet", "Deployment", "Job", "PodDisruptionBudget", "ReplicaSet", "StatefulSet",
    ),
    "objects": ("decode", "decode_as", "encode", "load_manifests", "read_manifests"),
    "protocol.qos": ("QoSClass",),
}  # fmt: skip
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF})
