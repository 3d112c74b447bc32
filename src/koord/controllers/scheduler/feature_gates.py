# SPDX-License-Identifier: Apache-2.0
"""The scheduler's feature gates, with the names and defaults of Koordinator's.

Rule: docs/reference/scheduling.md#feature-gates. The gates of kube-scheduler itself are known
too; see :mod:`koord.controllers.scheduler.config.kube_scheduler_gates`.
"""

from __future__ import annotations

from koord.base.feature_gates import FeatureGates, Gate, GateStage, unused
from koord.controllers.scheduler.config.kube_scheduler_gates import stock_gates

_OFF = {
    "CleanExpiredReservationAllocated": "deleting a reservation unmarks the pods that used it",
    "DevicePluginAdaption": "write what vendors' device plugins expect",
    "DisableDefaultQuota": "pods without a quota are not charged to the default one",
    "ElasticQuotaGuaranteeUsage": "what a quota uses is guaranteed to it",
    "ElasticQuotaIgnorePodOverhead": "pod overhead is not charged",
    "ElasticQuotaIgnoreTerminatingPod": "pods past their grace period are not charged",
    "ElasticQuotaImmediateIgnoreTerminatingPod": "pods that are being deleted are not charged",
    "MultiQuotaTree": "several quota trees",
    "OmitNodeLabelsForReservation": "reservation affinity does not see node labels",
    "PreemptionPolicyTransformer": "a pod's label, not its spec, says whether it preempts",
    "PriorityTransformer": "a pod without a priority has that of its class",
    "ReplaceResourcesTransformer": "a pod asks for what its annotation makes of its resources",
    "ResizePod": "a Reservation of devices has as much as the cards it got",
    "SkipReservationFitsNode": "a single matched reservation is not checked against its node",
}
_UNUSED_OFF = {
    "CompatibleCSIStorageCapacity": "storage.k8s.io/v1 is read",
    "CompatiblePodDisruptionBudget": "policy/v1 is read",
    "CrossSchedulerNomination": "nominations of other schedulers' pods never count",
    "DisableCSIStorageCapacityInformer": "a kind that the API server lacks counts as empty",
    "DisableDynamicResourceAllocationInformer": "koord reads no resource claims",
    "DisablePodDisruptionBudgetInformer": "a kind that the API server lacks counts as empty",
    "ElasticQuotaEnableUpdateResourceKey": "it is the webhook's",
    "EnableInlineBatchSchedule": "gangs are always planned whole",
    "LazyReservationRestore": "reservations cost nothing where they do not match",
    "SkipFilterWithNominatedPods": "nodes are filtered with and without nominated pods",
    "SupportParentQuotaSubmitPod": "it is the webhook's",
    "SyncBarrier": "there is no barrier pod",
}
_UNUSED_ON = {
    ("CSIStorageCapacity", GateStage.GA): "capacities always count",
    ("DynamicSchedulerCheck", GateStage.ALPHA): "the API server binds no pod that is being deleted",
    ("EnableBatchScheduleNodeSnapshot", GateStage.BETA): "no snapshots are made",
    ("GenericEphemeralVolume", GateStage.GA): "ephemeral volumes always count",
    ("PodDisruptionBudget", GateStage.GA): "budgets always count",
}


def feature_gates(text: str = "") -> FeatureGates:
    """All gates at their defaults, changed by ``A=true,B=false``.

    Raises:
        KoordError: an unknown gate, or no such form.
    """
    gates = FeatureGates([*stock_gates(), *own_gates()])
    if text:
        gates.set_from(text)
    return gates


def own_gates() -> list[Gate]:
    """Those that kube-scheduler lacks."""
    return [
        *(Gate(name, False, GateStage.ALPHA, doc) for name, doc in _OFF.items()),
        Gate(
            "GangPendingPodsConditionPatch",
            True,
            GateStage.BETA,
            "tell waiting members of a failed gang why",
        ),
        *(unused(name, False, GateStage.ALPHA, why) for name, why in _UNUSED_OFF.items()),
        *(unused(name, True, stage, why) for (name, stage), why in _UNUSED_ON.items()),
    ]
