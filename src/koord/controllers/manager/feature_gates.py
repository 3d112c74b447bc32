# SPDX-License-Identifier: Apache-2.0
"""The manager's feature gates, with the names and defaults of Koordinator's.

Rule: docs/reference/manager.md#feature-gates. Manager and webhook share them.
"""

from __future__ import annotations

from koord.base.feature_gates import FeatureGates, Gate, GateStage, unused

_NO_WEBHOOK = "there is no webhook yet"
_ON = (
    "ElasticMutatingWebhook",
    "ElasticValidatingWebhook",
    "PodMutatingWebhook",
    "PodValidatingWebhook",
    "WebhookFramework",
)
_ADMISSION = (
    "BindingAdmissionWebhook",
    "ColocationProfileSkipMutatingResources",
    "ColocationProfileSkipValidatingPriority",
    "ConfigMapValidatingWebhook",
    "DisableDefaultQuota",
    "DisableDeviceResourceSpec",
    "DisableExtendedResourceSpec",
    "ElasticQuotaEnableUpdateResourceKey",
    "ElasticQuotaEvaluationTransformPod",
    "ElasticQuotaGuaranteeUsage",
    "ElasticQuotaIgnorePodOverhead",
    "EnablePodEnhancedValidator",
    "EnableQuotaAdmission",
    "EnableQuotaAdmissionOnUpdate",
    "MultiQuotaTree",
    "NodeMutatingWebhook",
    "NodeValidatingWebhook",
    "ReservationMutatingWebhook",
    "SupportParentQuotaSubmitPod",
    "ValidatePodDeviceResource",
)
_OFF = {
    "ColocationProfileController": "profiles change pods that wait, too",
    "EnableSyncGPUSharedResource": "nodes offer koordinator.sh/gpu.shared",
}
_AS_THEY_ARE = "the manager reads pods as they are"
_OWN = (
    "DeviceValidatingWebhook",
    "GroupQuotaValidatingWebhook",
    "PodMigrationJobValidatingWebhook",
)
"""Webhooks that the original does not have."""
_TRANSFORMERS = (
    "PreemptionPolicyTransformer",
    "PriorityTransformer",
    "ReplaceResourcesTransformer",
)


def feature_gates(text: str = "") -> FeatureGates:
    """All gates at their defaults, changed by ``A=true,B=false``.

    Raises:
        KoordError: an unknown gate, or no such form.
    """
    gates = FeatureGates(
        [
            *(Gate(name, False, GateStage.ALPHA, doc) for name, doc in _OFF.items()),
            *(unused(name, True, GateStage.BETA, _NO_WEBHOOK) for name in _ON),
            *(unused(name, False, GateStage.ALPHA, _NO_WEBHOOK) for name in _ADMISSION),
            *(unused(name, False, GateStage.ALPHA, _NO_WEBHOOK) for name in _OWN),
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
