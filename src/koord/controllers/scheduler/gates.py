# SPDX-License-Identifier: Apache-2.0
"""The scheduler's feature gates, with the names and defaults of Koordinator's."""

from __future__ import annotations

from koord.base.gates import FeatureGates, Gate, Stage

_OFF = {
    "CleanExpiredReservationAllocated": "deleting a reservation unmarks the pods that used it",
    "CrossSchedulerNomination": "nominations of other schedulers' pods count",
    "DevicePluginAdaption": "write what vendors' device plugins expect",
    "DisableDefaultQuota": "pods without a quota are not charged to the default one",
    "ElasticQuotaEnableUpdateResourceKey": "a quota's resource names may change",
    "ElasticQuotaGuaranteeUsage": "what a quota uses is guaranteed to it",
    "ElasticQuotaIgnorePodOverhead": "pod overhead is not charged",
    "ElasticQuotaIgnoreTerminatingPod": "pods past their grace period are not charged",
    "ElasticQuotaImmediateIgnoreTerminatingPod": "pods that are being deleted are not charged",
    "EnableInlineBatchSchedule": "accepted; gangs are always planned whole",
    "LazyReservationRestore": "accepted; reservations cost nothing where they do not match",
    "MultiQuotaTree": "several quota trees",
    "OmitNodeLabelsForReservation": "reservation affinity does not see node labels",
    "ResizePod": "accepted; has no effect",
    "SkipFilterWithNominatedPods": "do not filter again with nominated pods",
    "SkipReservationFitsNode": "a single matched reservation is not checked against its node",
    "SupportParentQuotaSubmitPod": "pods may use a parent quota",
    "SyncBarrier": "accepted; has no effect",
}
_ON = {
    "DynamicSchedulerCheck": "look once more before binding whether the pod is still ours",
    "GangPendingPodsConditionPatch": "tell waiting members of a failed gang why",
}


def feature_gates(text: str = "") -> FeatureGates:
    """All gates at their defaults, changed by ``A=true,B=false``.

    Raises:
        KoordError: an unknown gate, or no such form.
    """
    gates = FeatureGates(
        [
            *(Gate(name, False, Stage.ALPHA, doc) for name, doc in _OFF.items()),
            *(Gate(name, True, Stage.BETA, doc) for name, doc in _ON.items()),
        ]
    )
    if text:
        gates.set_from(text)
    return gates
