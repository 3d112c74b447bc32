# SPDX-License-Identifier: Apache-2.0
"""Every gate of the original's programs is known to koord's, and does something or says not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import koord
from koord.agent.feature_gates import feature_gates as of_agent
from koord.base.errors import KoordError
from koord.base.feature_gates import FeatureGates, Gate, GateStage
from koord.cli.options.go_flags import warn_of_gates
from koord.controllers.manager.feature_gates import feature_gates as of_manager
from koord.controllers.scheduler.feature_gates import feature_gates as of_scheduler
from koord.controllers.scheduler.feature_gates import own_gates
from tests.cli.pages import compatibility

# What Koordinator's programs say of their gates: default and stage.
_ORIGINALS = {
    "scheduler": {
        "on ALPHA": "DynamicSchedulerCheck",
        "on BETA": "GangPendingPodsConditionPatch EnableBatchScheduleNodeSnapshot",
        "on GA": "CSIStorageCapacity GenericEphemeralVolume PodDisruptionBudget",
        "off ALPHA": """
            CompatibleCSIStorageCapacity DisableCSIStorageCapacityInformer
            CompatiblePodDisruptionBudget DisablePodDisruptionBudgetInformer
            DisableDynamicResourceAllocationInformer ResizePod MultiQuotaTree
            ElasticQuotaIgnorePodOverhead ElasticQuotaIgnoreTerminatingPod
            ElasticQuotaImmediateIgnoreTerminatingPod ElasticQuotaGuaranteeUsage
            DisableDefaultQuota SupportParentQuotaSubmitPod LazyReservationRestore
            OmitNodeLabelsForReservation SkipReservationFitsNode DevicePluginAdaption
            CleanExpiredReservationAllocated SkipFilterWithNominatedPods SyncBarrier
            CrossSchedulerNomination EnableInlineBatchSchedule
            PriorityTransformer PreemptionPolicyTransformer ReplaceResourcesTransformer
        """,
    },
    "manager": {
        "on BETA": """
            PodMutatingWebhook PodValidatingWebhook ElasticMutatingWebhook
            ElasticValidatingWebhook WebhookFramework
        """,
        "off BETA": "DisablePVCReservation",
        "off ALPHA": """
            NodeMutatingWebhook NodeValidatingWebhook ConfigMapValidatingWebhook
            ReservationMutatingWebhook ColocationProfileSkipMutatingResources
            ColocationProfileSkipValidatingPriority MultiQuotaTree ElasticQuotaIgnorePodOverhead
            ElasticQuotaGuaranteeUsage ElasticQuotaEnableUpdateResourceKey
            ElasticQuotaEvaluationTransformPod DisableDefaultQuota SupportParentQuotaSubmitPod
            EnableQuotaAdmission EnableQuotaAdmissionOnUpdate EnableSyncGPUSharedResource
            ColocationProfileController ValidatePodDeviceResource EnablePodEnhancedValidator
            DisableExtendedResourceSpec DisableDeviceResourceSpec BindingAdmissionWebhook
            PriorityTransformer PreemptionPolicyTransformer ReplaceResourcesTransformer
        """,
    },
    "koordlet": {
        "on BETA": """
            BECPUSuppress CPUBurst RdtResctrl NodeTopologyReport
            GroupIdentity CPUSetAllocator BatchResource
        """,
        "off ALPHA": """
            AuditEvents AuditEventsHTTPHandler BECPUManager BECPUEvict CPUEvict
            CPUAllocatableEvict BEMemoryEvict MemoryEvict MemoryAllocatableEvict SystemConfig
            ResctrlCollector CgroupReconcile Accelerators RDMADevices CPICollector Libpfm4
            PSICollector BlkIOReconcile ColdPageCollector HugePageReport PodResourcesProxy
            HamiCoreVGPUMonitor PerCPUMetric NodeMetricPromMetrics
            GPUEnvInject RDMADeviceInject CPUNormalization CoreSched TerwayQoS TCNetworkQoS
            Resctrl OOMScoreAdj
        """,
    },
}
_PROGRAMS = {"scheduler": of_scheduler, "manager": of_manager, "koordlet": of_agent}
# Some of what `kube-scheduler --feature-gates` of 1.35 lists.
_STOCK = {
    "on GA": "DynamicResourceAllocation PodSchedulingReadiness SchedulerQueueingHints",
    "on BETA": "SchedulerAsyncPreemption WatchListClient",
    "off ALPHA": "GangScheduling StorageCapacityScoring NodeDeclaredFeatures",
    "off DEPRECATED": "KMSv1",
}
# Where a component's own gates are asked for.
_SOURCES = {
    "scheduler": ("controllers/scheduler", "api/transforms.py"),
    "manager": ("controllers/manager", "controllers/webhook"),
    "koordlet": ("agent",),
}
_TABLES = (
    "feature_gates.py",
    "kube_scheduler_gates.py",
    "unused_flags.py",
)


def wrong(gates: FeatureGates, said: dict[str, str]) -> dict[str, str]:
    """The gates that are not as they are said to be, and how they are."""
    known = {gate.name: gate for gate in gates.known()}
    found = {}
    for what, names in said.items():
        default, stage = what.split()
        for name in names.split():
            gate = known.get(name)
            if gate is None or (gate.default, gate.stage) != (default == "on", GateStage(stage)):
                found[name] = str(gate)
    return found


@pytest.mark.parametrize("program", _PROGRAMS)
def test_the_originals_gates_are_known_with_its_defaults_and_stages(program: str) -> None:
    assert wrong(_PROGRAMS[program](), _ORIGINALS[program]) == {}


def test_gates_of_kube_scheduler_start_the_scheduler() -> None:
    gates = of_scheduler("PriorityTransformer=true,EnableBatchScheduleNodeSnapshot=false")
    gates.set_from("SchedulerQueueingHints=true,AllAlpha=true,DynamicResourceAllocation=false")
    assert wrong(gates, _STOCK) == {}
    assert gates.without_effect() == [
        "DynamicResourceAllocation", "EnableBatchScheduleNodeSnapshot", "SchedulerQueueingHints",
    ]  # fmt: skip
    assert len(gates.known()) == 216 + len(own_gates())
    with pytest.raises(KoordError, match="such as SchedulerQueueingHints"):
        of_scheduler("SchedulerQueuingHints=true")


@pytest.mark.parametrize("program", _PROGRAMS)
def test_what_has_an_effect_is_asked_for_and_nothing_else_is(program: str) -> None:
    places = [Path(koord.__file__).parent / place for place in _SOURCES[program]]
    files = [path for place in places for path in (place, *place.rglob("*.py")) if path.is_file()]
    text = "\n".join(path.read_text("utf-8") for path in files if path.name not in _TABLES)
    asked = set(re.findall(r'"([A-Z]\w+)"', text))
    for gate in _PROGRAMS[program]().known():
        assert (gate.name in asked) is gate.effect, gate


def test_the_page_on_compatibility_has_every_gate_of_the_schedulers_own() -> None:
    def row(gate: Gate) -> str:
        return f"{'on' if gate.default else 'off'}: {gate.doc}"

    assert compatibility("Scheduler: feature gates") == {g.name: row(g) for g in own_gates()}


def test_one_warning_names_the_gates_that_were_set_and_do_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    warn_of_gates("scheduler", of_scheduler("MultiQuotaTree=true,AllBeta=false"))
    assert caplog.records == []
    warn_of_gates("scheduler", of_scheduler("SyncBarrier=true,ResizePod=true,KMSv1=false"))
    assert [record.getMessage() for record in caplog.records] == [
        "feature gates without effect here"
    ]
    assert "KMSv1 SyncBarrier" in str(vars(caplog.records[0]))
