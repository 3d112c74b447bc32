# SPDX-License-Identifier: Apache-2.0
"""The manager's feature gates, with the names and defaults of Koordinator's.

Rule: manager spec, section 12. Manager and webhook share them.
"""

from __future__ import annotations

from koord.base.gates import FeatureGates, Gate, Stage

WEBHOOK = "accepted; there is no webhook yet"
"""What is said of a gate of admission."""

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
    **dict.fromkeys(_ADMISSION, WEBHOOK),
    "ColocationProfileController": "profiles change pods that wait, too",
    "EnableSyncGPUSharedResource": "nodes offer koordinator.sh/gpu.shared",
    "PreemptionPolicyTransformer": "accepted; has no effect",
    "PriorityTransformer": "accepted; has no effect",
    "ReplaceResourcesTransformer": "accepted; has no effect",
}


def feature_gates(text: str = "") -> FeatureGates:
    """All gates at their defaults, changed by ``A=true,B=false``.

    Raises:
        KoordError: an unknown gate, or no such form.
    """
    gates = FeatureGates(
        [
            *(Gate(name, False, Stage.ALPHA, doc) for name, doc in _OFF.items()),
            *(Gate(name, True, Stage.BETA, WEBHOOK) for name in _ON),
            Gate("SyncOldGPULabels", True, Stage.DEPRECATED, "kubernetes.io/gpu-model, gpu-driver"),
        ]
    )
    if text:
        gates.set_from(text)
    return gates
