# SPDX-License-Identifier: Apache-2.0
"""The manager's feature gates, with the names and defaults of Koordinator's.

Rule: docs/reference/manager.md#feature-gates. Manager and webhook share them.
"""

from __future__ import annotations

from koord.base.gates import FeatureGates, Gate, Stage, unused

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
            *(Gate(name, False, Stage.ALPHA, doc) for name, doc in _OFF.items()),
            *(unused(name, True, Stage.BETA, _NO_WEBHOOK) for name in _ON),
            *(unused(name, False, Stage.ALPHA, _NO_WEBHOOK) for name in _ADMISSION),
            *(unused(name, False, Stage.ALPHA, _AS_THEY_ARE) for name in _TRANSFORMERS),
            unused("DisablePVCReservation", False, Stage.BETA, "it is the descheduler's"),
            Gate("SyncOldGPULabels", True, Stage.DEPRECATED, "kubernetes.io/gpu-model, gpu-driver"),
        ]
    )
    if text:
        gates.set_from(text)
    return gates
