# SPDX-License-Identifier: Apache-2.0
"""Every annotation that holds JSON, with the type of its value, and every key of the protocol."""

from __future__ import annotations

from typing import Any

from koord.api.kinds.meta import ObjectReference, ResourceList
from koord.api.kinds.qos_strategy import CPUQOS, BlkIOQOS
from koord.api.kinds.reservation import ReservationOwner
from koord.api.kinds.slo_strategies import CPUBurstStrategy
from koord.api.protocol import (
    agent,
    eviction,
    gang,
    keys,
    node_reservation,
    nodes,
    reservations,
    scheduling,
    topology,
)
from koord.api.sloconfig.strategies import ColocationStrategy

DOCUMENTS: dict[str, Any] = {
    keys.NETWORK_QOS: agent.NetworkLimits,
    keys.CPU_BURST: CPUBurstStrategy,
    keys.CPU_QOS: CPUQOS,
    keys.MEMORY_QOS: agent.PodMemoryQOS,
    keys.BLKIO_QOS: BlkIOQOS,
    keys.RESCTRL: agent.ResctrlConfig,
    keys.EXTENDED_RESOURCE_SPEC: agent.ExtendedResourceSpec,
    keys.OOM_SCORE_ADJ_SPEC: dict[str, int],
    keys.EVICTION_POLICY: list[str],
    keys.SOFT_EVICTION: eviction.SoftEviction,
    keys.SCHEDULING_HINT: scheduling.SchedulingHint,
    keys.SCHEDULING_HINT_OLD: scheduling.SchedulingHint,
    keys.RESOURCE_SPEC: scheduling.ResourceSpec,
    keys.RESOURCE_STATUS: scheduling.ResourceStatus,
    keys.NUMA_TOPOLOGY_SPEC: scheduling.NUMATopologySpec,
    keys.DEVICE_ALLOCATED: scheduling.DeviceAllocations,
    keys.DEVICE_ALLOCATE_HINT: dict[str, scheduling.DeviceHint],
    keys.DEVICE_JOINT_ALLOCATE: scheduling.DeviceJointAllocate,
    keys.GPU_PARTITION_SPEC: scheduling.GPUPartitionSpec,
    keys.LOAD_ESTIMATED_SCALING_FACTORS: dict[str, int],
    keys.GANG_GROUPS: list[str],
    keys.GANG_NETWORK_TOPOLOGY_SPEC: gang.NetworkTopologySpec,
    keys.RESERVATION_ALLOCATED: reservations.ReservationAllocated,
    keys.RESERVATION_AFFINITY: reservations.ReservationAffinity,
    keys.RESERVATION_RESTRICTED_OPTIONS: reservations.RestrictedOptions,
    keys.EXACT_MATCH_RESERVATION: reservations.ExactMatch,
    keys.RESERVATION_OWNERS: list[ReservationOwner],
    keys.RESERVATION_CURRENT_OWNER: ObjectReference,
    keys.RESERVATION_RESIZE_ALLOCATABLE: reservations.ReservedResources,
    keys.QUOTA_SHARED_WEIGHT: ResourceList,
    keys.QUOTA_RUNTIME: ResourceList,
    keys.QUOTA_REQUEST: ResourceList,
    keys.QUOTA_CHILD_REQUEST: ResourceList,
    keys.QUOTA_GUARANTEED: ResourceList,
    keys.QUOTA_ALLOCATED: ResourceList,
    keys.QUOTA_NON_PREEMPTIBLE_REQUEST: ResourceList,
    keys.QUOTA_NON_PREEMPTIBLE_USED: ResourceList,
    keys.QUOTA_UNSCHEDULABLE_RESOURCE: ResourceList,
    keys.QUOTA_TOTAL_RESOURCE: ResourceList,
    keys.QUOTA_ADMISSION: ResourceList,
    keys.QUOTA_NAMESPACES: list[str],
    keys.QUOTA_RESOURCE_KEYS: list[str],
    keys.QUOTA_MAX_STRICT_CHECK_RESOURCE_KEYS: list[str],
    keys.NODE_RESERVATION: node_reservation.NodeReservation,
    keys.COLOCATION_STRATEGY: ColocationStrategy,
    keys.SYSTEM_QOS_RESOURCE: nodes.SystemQOSResource,
    keys.RESOURCE_AMPLIFICATION_RATIO: dict[str, float],
    keys.RAW_ALLOCATABLE: ResourceList,
    keys.ORIGIN_EXTENDED_ALLOCATABLE: nodes.OriginAllocatable,
    keys.THIRD_PARTY_ALLOCATIONS: nodes.ThirdPartyAllocations,
    keys.USAGE_THRESHOLDS: nodes.UsageThresholds,
    keys.CPU_TOPOLOGY: topology.CPUTopology,
    keys.POD_CPU_ALLOCS: list[topology.PodCPUAlloc],
    keys.CPU_SHARED_POOLS: list[topology.CPUSharedPool],
    keys.BE_CPU_SHARED_POOLS: list[topology.CPUSharedPool],
    keys.CPU_BASIC_INFO: topology.CPUBasicInfo,
    keys.CPU_MANAGER_POLICY: topology.KubeletCPUManagerPolicy,
    keys.GPU_PARTITIONS: dict[str, list[topology.GPUPartition]],
}
"""Annotation to the type of its value."""

LABELS = frozenset((
    keys.QOS_CLASS, keys.PRIORITY, keys.PRIORITY_CLASS, keys.CORE_SCHED_GROUP_ID,
    keys.CORE_SCHED_POLICY, keys.EVICTION_ENABLED, keys.SCHEDULER_NAME, keys.PREEMPTION_POLICY,
    keys.DISABLE_PREEMPTIBLE, keys.POD_GROUP, keys.POD_GROUP_OLD,
    keys.POD_GROUP_MIN_AVAILABLE_OLD, keys.RESERVATION_IGNORED, keys.PRE_ALLOCATION_REQUIRED,
    keys.RESERVATION_ORDER, keys.OPERATING_MODE, keys.QUOTA_NAME, keys.QUOTA_PARENT,
    keys.QUOTA_IS_PARENT, keys.QUOTA_IS_ROOT, keys.QUOTA_TREE_ID, keys.QUOTA_IGNORE_DEFAULT_TREE,
    keys.QUOTA_ALLOW_LENT_RESOURCE, keys.QUOTA_ALLOW_FORCE_UPDATE, keys.QUOTA_PREEMPTIBLE,
    keys.CPU_RECLAIM_RATIO, keys.MEMORY_RECLAIM_RATIO, keys.MID_STATIC_CPU_RESERVED_RATIO,
    keys.MID_STATIC_MEMORY_RESERVED_RATIO, keys.CPU_NORMALIZATION_ENABLED, keys.CPU_BIND_POLICY,
    keys.NUMA_ALLOCATE_STRATEGY, keys.GPU_ISOLATION_PROVIDER,
))  # fmt: skip
"""Keys that count as labels only; as annotations they say nothing."""

ALL_KEYS = frozenset(
    value for name, value in vars(keys).items() if name.isupper() and isinstance(value, str)
)
"""Every key, as label or annotation."""
