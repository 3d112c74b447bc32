# SPDX-License-Identifier: Apache-2.0
"""The webhooks as they are registered: names, paths, what each is asked about, gates.

Rule: docs/reference/admission.md#webhooks. The names and paths are Koordinator's, so that either
can serve the configurations of the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.controllers.webhook.framework.admission_request import Operation, ResourceName

if TYPE_CHECKING:
    from koord.base.documents import Document

_CREATE, _UPDATE, _DELETE = Operation.CREATE, Operation.UPDATE, Operation.DELETE
_PODS, _QUOTAS = ResourceName("", "pods"), ResourceName("scheduling.sigs.k8s.io", "elasticquotas")
_NO_CONTROL_PLANE = {"matchExpressions": [{"key": "control-plane", "operator": "DoesNotExist"}]}
MUTATE_POD = "/mutate-pod"
VALIDATE_POD = "/validate-pod"
VALIDATE_POD_BINDING = "/validate-pod-binding"
MUTATE_QUOTA = "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
VALIDATE_QUOTA = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
MUTATE_NODE_STATUS = "/mutate-node-status"
VALIDATE_NODE = "/validate-node"
VALIDATE_CONFIG_MAP = "/validate-configmap"
MUTATE_RESERVATION = "/mutate-reservation"
VALIDATE_GROUP_QUOTA = "/validate-quota-koordinator-sh-v1alpha1-elasticquota"
VALIDATE_MIGRATION_JOB = "/validate-podmigrationjob"
VALIDATE_DEVICE = "/validate-device"


@dataclass(frozen=True)
class Webhook:
    """One entry of a webhook configuration.

    Attributes:
        name: ends in ``.koordinator.sh``, koord's own in ``.koord.sh``.
        path: where it is asked.
        mutating: whether it may change the object.
        resource: what it is asked about.
        version: of the objects.
        operations: when it is asked.
        gate: switches it.
        failure_policy: the original's; the chart says ``Ignore``.
        namespace_selector: of namespaces that it is asked about; empty for all.
        object_selector: of objects; empty for all.
    """

    name: str
    path: str
    mutating: bool
    resource: ResourceName
    version: str
    operations: tuple[Operation, ...]
    gate: str
    failure_policy: str = "Fail"
    namespace_selector: Document = field(default_factory=dict)
    object_selector: Document = field(default_factory=dict)


WEBHOOKS = (
    Webhook(
        "mpod-create.koordinator.sh", MUTATE_POD, True, _PODS, "v1", (_CREATE,),
        "PodMutatingWebhook", namespace_selector=_NO_CONTROL_PLANE,
    ),
    Webhook(
        "mpod-update.koordinator.sh", MUTATE_POD, True, _PODS, "v1", (_UPDATE,),
        "PodMutatingWebhook", namespace_selector=_NO_CONTROL_PLANE,
        object_selector={"matchExpressions": [
            {"key": "pod.koordinator.sh/mutating-update", "operator": "In", "values": ["true"]},
        ]},
    ),
    Webhook(
        "vpod.koordinator.sh", VALIDATE_POD, False, _PODS, "v1", (_CREATE, _UPDATE),
        "PodValidatingWebhook", namespace_selector=_NO_CONTROL_PLANE,
    ),
    Webhook(
        "vpodbinding.koordinator.sh", VALIDATE_POD_BINDING, False,
        ResourceName("", "pods", "binding"), "v1", (_CREATE,), "PodValidatingWebhook", "Ignore",
    ),
    Webhook(
        "melasticquota.koordinator.sh", MUTATE_QUOTA, True, _QUOTAS, "v1alpha1", (_CREATE,),
        "ElasticMutatingWebhook",
    ),
    Webhook(
        "velasticquota.koordinator.sh", VALIDATE_QUOTA, False, _QUOTAS, "v1alpha1",
        (_CREATE, _UPDATE, _DELETE), "ElasticValidatingWebhook",
    ),
    Webhook(
        "mnode-status.koordinator.sh", MUTATE_NODE_STATUS, True,
        ResourceName("", "nodes", "status"), "v1", (_CREATE, _UPDATE), "NodeMutatingWebhook",
        "Ignore",
    ),
    Webhook(
        "vnode.koordinator.sh", VALIDATE_NODE, False, ResourceName("", "nodes"), "v1",
        (_CREATE, _UPDATE), "NodeValidatingWebhook", "Ignore",
    ),
    Webhook(
        "vconfigmap.koordinator.sh", VALIDATE_CONFIG_MAP, False, ResourceName("", "configmaps"),
        "v1", (_CREATE, _UPDATE, _DELETE), "ConfigMapValidatingWebhook",
        object_selector={"matchExpressions": [
            {"key": "koordinator.sh/configmap-type", "operator": "In",
             "values": ["slo-controller-config"]},
        ]},
    ),
    Webhook(
        "mreservation-create.koordinator.sh", MUTATE_RESERVATION, True,
        ResourceName("scheduling.koordinator.sh", "reservations"), "v1alpha1", (_CREATE,),
        "ReservationMutatingWebhook",
    ),
    # koord's own, which the original does not have.
    Webhook(
        "vgroupquota.koord.sh", VALIDATE_GROUP_QUOTA, False,
        ResourceName("quota.koordinator.sh", "elasticquotas"), "v1alpha1", (_CREATE, _UPDATE),
        "GroupQuotaValidatingWebhook", "Ignore",
    ),
    Webhook(
        "vpodmigrationjob.koord.sh", VALIDATE_MIGRATION_JOB, False,
        ResourceName("scheduling.koordinator.sh", "podmigrationjobs"), "v1alpha1",
        (_CREATE, _UPDATE), "PodMigrationJobValidatingWebhook", "Ignore",
    ),
    Webhook(
        "vdevice.koord.sh", VALIDATE_DEVICE, False,
        ResourceName("scheduling.koordinator.sh", "devices"), "v1alpha1", (_CREATE, _UPDATE),
        "DeviceValidatingWebhook", "Ignore",
    ),
)  # fmt: skip
"""In the order in which they are asked."""
