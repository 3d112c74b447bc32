# SPDX-License-Identifier: Apache-2.0
"""The manager's feature gates, with the names and defaults of Koordinator's.

Rule: docs/reference/manager.md#feature-gates. Manager and webhook share them.
"""

from __future__ import annotations

from koord.base.feature_gates import FeatureGates, Gate, GateStage, unused

_ON = {
    "ElasticMutatingWebhook": "defaults of new ElasticQuotas",
    "ElasticValidatingWebhook": "rules of ElasticQuotas",
    "PodMutatingWebhook": "profiles and resource translation",
    "PodValidatingWebhook": "rules of pods",
    "WebhookFramework": "all webhooks",
}
_ADMISSION = {
    "BindingAdmissionWebhook": "who may bind pods",
    "ColocationProfileSkipMutatingResources": "profiles translate no resources",
    "ColocationProfileSkipValidatingPriority": "the label koordinator.sh/priority may change",
    "ConfigMapValidatingWebhook": "rules of slo-controller-config",
    "DisableDefaultQuota": "a pod's quota is its label as it is",
    "DisableDeviceResourceSpec": "no device resource spec",
    "DisableExtendedResourceSpec": "no extended resource spec",
    "ElasticQuotaEnableUpdateResourceKey": "a child's max may name fewer resources",
    "ElasticQuotaEvaluationTransformPod": "transformers are applied before charging",
    "ElasticQuotaIgnorePodOverhead": "overhead of pods is not charged",
    "ElasticQuotaGuaranteeUsage": "a min must be guaranteed above",
    "EnablePodEnhancedValidator": "labels that pods must have",
    "EnableQuotaAdmission": "pods are charged when they are made",
    "EnableQuotaAdmissionOnUpdate": "and when their quota changes",
    "MultiQuotaTree": "pods stay on the nodes of their quota tree",
    "NodeMutatingWebhook": "amplification of nodes' resources",
    "NodeValidatingWebhook": "rules of nodes' labels",
    "ReplaceResourcesTransformer": "pods are charged as replace-resources has them",
    "ReservationMutatingWebhook": "profiles on Reservations",
    "SupportParentQuotaSubmitPod": "pods may use a parent quota",
    "ValidatePodDeviceResource": "rules of device resources",
}
_OFF = {
    "ColocationProfileController": "profiles change pods that wait, too",
    "EnableSyncGPUSharedResource": "nodes offer koordinator.sh/gpu.shared",
}
_AS_THEY_ARE = "the manager reads pods as they are"
_OWN = {
    "DeviceValidatingWebhook": "ours: rules of Devices",
    "GroupQuotaValidatingWebhook": "ours: rules of ElasticQuotas of quota.koordinator.sh",
    "PodMigrationJobValidatingWebhook": "ours: rules of PodMigrationJobs",
}
"""Webhooks that the original does not have."""
_TRANSFORMERS = (
    "PreemptionPolicyTransformer",
    "PriorityTransformer",
)


def feature_gates(text: str = "") -> FeatureGates:
    """All gates at their defaults, changed by ``A=true,B=false``.

    Raises:
        KoordError: an unknown gate, or no such form.
    """
    gates = FeatureGates(
        [
            *(Gate(name, False, GateStage.ALPHA, doc) for name, doc in _OFF.items()),
            *(Gate(name, True, GateStage.BETA, doc) for name, doc in _ON.items()),
            *(Gate(name, False, GateStage.ALPHA, doc) for name, doc in _ADMISSION.items()),
            *(Gate(name, False, GateStage.ALPHA, doc) for name, doc in _OWN.items()),
            *(unused(name, False, GateStage.ALPHA, _AS_THEY_ARE) for name in _TRANSFORMERS),
            unused("DisablePVCReservation", False, GateStage.BETA, "it is the descheduler's"),
            Gate(
                "SyncOldGPULabels",
                True,
                GateStage.DEPRECATED,
                "kubernetes.io/gpu-model, gpu-driver",
            ),
        ]
    )
    if text:
        gates.set_from(text)
    return gates
