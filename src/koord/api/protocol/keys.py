# SPDX-License-Identifier: Apache-2.0
"""Every label and annotation key of the protocol, exactly as it is spelled on the wire."""

from __future__ import annotations

from typing import Final

# Pod: quality of service, priority, node agent.
QOS_CLASS: Final = "koordinator.sh/qosClass"
PRIORITY: Final = "koordinator.sh/priority"
PRIORITY_CLASS: Final = "koordinator.sh/priority-class"
NETWORK_QOS: Final = "koordinator.sh/networkQOS"
CPU_BURST: Final = "koordinator.sh/cpuBurst"
CPU_QOS: Final = "koordinator.sh/cpuQOS"
MEMORY_QOS: Final = "koordinator.sh/memoryQOS"
BLKIO_QOS: Final = "koordinator.sh/blkioQOS"
CORE_SCHED_GROUP_ID: Final = "koordinator.sh/core-sched-group-id"
CORE_SCHED_POLICY: Final = "koordinator.sh/core-sched-policy"
RESCTRL: Final = "node.koordinator.sh/resctrl"
EXTENDED_RESOURCE_SPEC: Final = "node.koordinator.sh/extended-resource-spec"
OOM_SCORE_ADJ: Final = "koordinator.sh/oom-score-adj"
OOM_SCORE_ADJ_SPEC: Final = "koordinator.sh/oom-score-adj-spec"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PROFILE_DRAWS: Final = "koordinator.sh/colocation-profile-draws"
MANAGED: Final = "koordinator.sh/managed"
BINDING_ADMISSION_BYPASS: Final = "koordinator.sh/binding-admission-bypass"
SKIP_HOOK_SERVER: Final = "runtimeproxy.koordinator.sh/skip-hookserver"

# Pod: eviction and migration.
EVICTION_ENABLED: Final = "koordinator.sh/eviction-enabled"
EVICTION_POLICY: Final = "koordinator.sh/eviction-policy"
EVICTION_PRIORITY: Final = "koordinator.sh/eviction-priority"
EVICTION_COST: Final = "scheduling.koordinator.sh/eviction-cost"
SOFT_EVICTION: Final = "scheduling.koordinator.sh/soft-eviction"
SOFT_EVICTION_JOB: Final = "descheduler.koordinator.sh/soft-eviction-job"  # koord
EVICT_POLICY: Final = "koordinator.sh/evict-policy"
EVICT_REASON: Final = "koordinator.sh/evict-reason"
EVICT_TRIGGER: Final = "koordinator.sh/evict-trigger"
JOB_CREATED_BY: Final = "koordinator.sh/job-created-by"
PASSED_ARBITRATION: Final = "descheduler.koordinator.sh/passed-arbitration"
POD_ARBITRATING: Final = "descheduler.koordinator.sh/pod-arbitrating"
JOB_GROUP: Final = "descheduler.koordinator.sh/job-group"
SURGE: Final = "descheduler.koordinator.sh/surge"  # koord
SURGE_JOB: Final = "descheduler.koordinator.sh/surge-job"  # koord
SURGE_COST: Final = "descheduler.koordinator.sh/surge-deletion-cost"  # koord
PLANNED_NODE: Final = "descheduler.koordinator.sh/planned-node"  # koord
CREATED_BY: Final = "app.kubernetes.io/created-by"
DESCHEDULER_EVICT: Final = "descheduler.alpha.kubernetes.io/evict"
PREFER_NO_EVICTION: Final = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
POD_DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
SCALE_DOWN_RANK: Final = "descheduler.koordinator.sh/scale-down-rank"  # koord
MIRROR_POD: Final = "kubernetes.io/config.mirror"
CONFIG_SOURCE: Final = "kubernetes.io/config.source"

# Pod: webhook switches.
MUTATING_UPDATE: Final = "pod.koordinator.sh/mutating-update"
SKIP_ENHANCED_VALIDATION: Final = "pod.koordinator.sh/skip-enhanced-validation"
REPLACE_RESOURCES: Final = "pod.koordinator.sh/replace-resources"
IS_PRE_ALLOCATABLE: Final = "pod.koordinator.sh/is-pre-allocatable"
PRE_ALLOCATABLE_PRIORITY: Final = "pod.koordinator.sh/pre-allocatable-priority"
SKIP_UPDATE_RESOURCES: Final = "config.koordinator.sh/skip-update-resources"
CONTROLLER_MANAGED: Final = "config.koordinator.sh/controller-managed"
CONFIGMAP_TYPE: Final = "koordinator.sh/configmap-type"

# Pod: scheduling.
SCHEDULER_NAME: Final = "scheduling.koordinator.sh/scheduler-name"
ORIGINAL_SCHEDULER_NAME: Final = "internal.scheduling.koordinator.sh/original-scheduler-name"
SCHEDULING_HINT: Final = "internal.scheduling.koordinator.sh/scheduling-hint"
SCHEDULING_HINT_OLD: Final = "scheduling.koordinator.sh/scheduling-hint"
RESOURCE_SPEC: Final = "scheduling.koordinator.sh/resource-spec"
RESOURCE_STATUS: Final = "scheduling.koordinator.sh/resource-status"
NUMA_TOPOLOGY_SPEC: Final = "scheduling.koordinator.sh/numa-topology-spec"
DEVICE_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
DEVICE_ALLOCATE_HINT: Final = "scheduling.koordinator.sh/device-allocate-hint"
DEVICE_JOINT_ALLOCATE: Final = "scheduling.koordinator.sh/device-joint-allocate"
GPU_PARTITION_SPEC: Final = "scheduling.koordinator.sh/gpu-partition-spec"
GPU_ISOLATION_PROVIDER: Final = "koordinator.sh/gpu-isolation-provider"
HAMI_VGPU_NODE: Final = "hami.io/vgpu-node"
BIND_TIMESTAMP: Final = "scheduling.koordinator.sh/bind-timestamp"
GPU_MINORS: Final = "scheduling.koordinator.sh/gpu-minors"
LOAD_ESTIMATED_SCALING_FACTORS: Final = "scheduling.koordinator.sh/load-estimated-scaling-factors"
LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED: Final = (
    "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
)
LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED: Final = (
    "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
)
PREEMPTION_POLICY: Final = "scheduling.koordinator.sh/preemption-policy"
DISABLE_PREEMPTIBLE: Final = "scheduling.koordinator.sh/disable-preemptible"
TOPOLOGY_KEY_TO_EXPLAIN: Final = "scheduling.koordinator.sh/topology-key-to-explain"
QUESTIONED_OBJECT_KEY: Final = "scheduling.koordinator.sh/questioned-object-key"
NETWORK_TOPOLOGY_SELECTOR: Final = "scheduling.koordinator.sh/network-topology-selector"

# Gangs.
POD_GROUP: Final = "pod-group.scheduling.sigs.k8s.io"
POD_GROUP_OLD: Final = "pod-group.scheduling.sigs.k8s.io/name"
POD_GROUP_MATCH_POLICY: Final = "pod-group.scheduling.sigs.k8s.io/match-policy"
POD_GROUP_MIN_AVAILABLE_OLD: Final = "pod-group.scheduling.sigs.k8s.io/min-available"
GANG_NAME: Final = "gang.scheduling.koordinator.sh/name"
GANG_MIN_AVAILABLE: Final = "gang.scheduling.koordinator.sh/min-available"
GANG_TOTAL_NUMBER: Final = "gang.scheduling.koordinator.sh/total-number"
GANG_WAITING_TIME: Final = "gang.scheduling.koordinator.sh/waiting-time"
GANG_MODE: Final = "gang.scheduling.koordinator.sh/mode"
GANG_GROUPS: Final = "gang.scheduling.koordinator.sh/groups"
GANG_MATCH_POLICY: Final = "gang.scheduling.koordinator.sh/match-policy"
GANG_TIMEOUT: Final = "gang.scheduling.koordinator.sh/timeout"
GANG_NETWORK_TOPOLOGY_INDEX: Final = "gang.scheduling.koordinator.sh/network-topology-index"
GANG_NETWORK_TOPOLOGY_SPEC: Final = "gang.scheduling.koordinator.sh/network-topology-spec"
BIND_GANG_GROUP_ID: Final = "internal.scheduling.koordinator.sh/bind-gang-group-id"
BIND_GANG_GROUP_ID_OLD: Final = "scheduling.koordinator.sh/bind-gang-group-id"
BIND_GANG_MEMBER_COUNT: Final = "internal.scheduling.koordinator.sh/bind-gang-member-count"
BIND_GANG_MEMBER_COUNT_OLD: Final = "scheduling.koordinator.sh/bind-gang-member-count"

# Reservations.
RESERVATION_IGNORED: Final = "scheduling.koordinator.sh/reservation-ignored"
PRE_ALLOCATION_REQUIRED: Final = "scheduling.koordinator.sh/pre-allocation-required"
RESERVATION_ORDER: Final = "scheduling.koordinator.sh/reservation-order"
RESERVATION_ALLOCATED: Final = "scheduling.koordinator.sh/reservation-allocated"
RESERVATION_AFFINITY: Final = "scheduling.koordinator.sh/reservation-affinity"
RESERVATION_RESTRICTED_OPTIONS: Final = "scheduling.koordinator.sh/reservation-restricted-options"
EXACT_MATCH_RESERVATION: Final = "scheduling.koordinator.sh/exact-match-reservation"
OPERATING_MODE: Final = "scheduling.koordinator.sh/operating-mode"
RESERVATION_OWNERS: Final = "scheduling.koordinator.sh/reservation-owners"
RESERVATION_CURRENT_OWNER: Final = "scheduling.koordinator.sh/reservation-current-owner"
RESERVE_POD: Final = "scheduling.koordinator.sh/reserve-pod"
RESERVATION_NAME: Final = "scheduling.koordinator.sh/reservation-name"
RESERVATION_NODE: Final = "scheduling.koordinator.sh/reservation-node"
RESERVATION_RESIZE_ALLOCATABLE: Final = "scheduling.koordinator.sh/reservation-resize-allocatable"
IS_PRE_ALLOCATION: Final = "scheduling.koordinator.sh/is-pre-allocation"

# Quota.
QUOTA_NAME: Final = "quota.scheduling.koordinator.sh/name"
QUOTA_PARENT: Final = "quota.scheduling.koordinator.sh/parent"
QUOTA_IS_PARENT: Final = "quota.scheduling.koordinator.sh/is-parent"
QUOTA_IS_ROOT: Final = "quota.scheduling.koordinator.sh/is-root"
QUOTA_TREE_ID: Final = "quota.scheduling.koordinator.sh/tree-id"
QUOTA_PROFILE: Final = "quota.scheduling.koordinator.sh/profile"
QUOTA_IGNORE_DEFAULT_TREE: Final = "quota.scheduling.koordinator.sh/ignore-default-tree"
QUOTA_ALLOW_LENT_RESOURCE: Final = "quota.scheduling.koordinator.sh/allow-lent-resource"
QUOTA_ALLOW_FORCE_UPDATE: Final = "quota.scheduling.koordinator.sh/allow-force-update"
QUOTA_PREEMPTIBLE: Final = "quota.scheduling.koordinator.sh/preemptible"
QUOTA_SHARED_WEIGHT: Final = "quota.scheduling.koordinator.sh/shared-weight"
QUOTA_RUNTIME: Final = "quota.scheduling.koordinator.sh/runtime"
QUOTA_REQUEST: Final = "quota.scheduling.koordinator.sh/request"
QUOTA_CHILD_REQUEST: Final = "quota.scheduling.koordinator.sh/child-request"
QUOTA_GUARANTEED: Final = "quota.scheduling.koordinator.sh/guaranteed"
QUOTA_ALLOCATED: Final = "quota.scheduling.koordinator.sh/allocated"
QUOTA_NON_PREEMPTIBLE_REQUEST: Final = "quota.scheduling.koordinator.sh/non-preemptible-request"
QUOTA_NON_PREEMPTIBLE_USED: Final = "quota.scheduling.koordinator.sh/non-preemptible-used"
QUOTA_UNSCHEDULABLE_RESOURCE: Final = "quota.scheduling.koordinator.sh/unschedulable-resource"
QUOTA_TOTAL_RESOURCE: Final = "quota.scheduling.koordinator.sh/total-resource"
QUOTA_ADMISSION: Final = "quota.scheduling.koordinator.sh/admission"
QUOTA_NAMESPACES: Final = "quota.scheduling.koordinator.sh/namespaces"
QUOTA_RESOURCE_KEYS: Final = "quota.scheduling.koordinator.sh/resource-keys"
QUOTA_MAX_STRICT_CHECK_RESOURCE_KEYS: Final = (
    "quota.scheduling.koordinator.sh/max-strict-check-resource-keys"
)

# Node, NodeResourceTopology and Device.
NODE_RESERVATION: Final = "node.koordinator.sh/reservation"
ENABLE_NUMA_RESERVATION: Final = "node.koordinator.sh/enable-numa-reservation"
COLOCATION_STRATEGY: Final = "node.koordinator.sh/colocation-strategy"
CPU_RECLAIM_RATIO: Final = "node.koordinator.sh/cpu-reclaim-ratio"
MEMORY_RECLAIM_RATIO: Final = "node.koordinator.sh/memory-reclaim-ratio"
MID_STATIC_CPU_RESERVED_RATIO: Final = "node.koordinator.sh/mid-static-cpu-reserved-ratio"
MID_STATIC_MEMORY_RESERVED_RATIO: Final = "node.koordinator.sh/mid-static-memory-reserved-ratio"
NETWORK_BANDWIDTH: Final = "node.koordinator.sh/network-bandwidth"
SYSTEM_QOS_RESOURCE: Final = "node.koordinator.sh/system-qos-resource"
CPU_NORMALIZATION_RATIO: Final = "node.koordinator.sh/cpu-normalization-ratio"
CPU_NORMALIZATION_ENABLED: Final = "node.koordinator.sh/cpu-normalization-enabled"
RESOURCE_AMPLIFICATION_RATIO: Final = "node.koordinator.sh/resource-amplification-ratio"
RAW_ALLOCATABLE: Final = "node.koordinator.sh/raw-allocatable"
ORIGIN_EXTENDED_ALLOCATABLE: Final = "node.koordinator.sh/originExtendedAllocatable"
THIRD_PARTY_ALLOCATIONS: Final = "node.koordinator.sh/thirdPartyAllocations"
CPU_BIND_POLICY: Final = "node.koordinator.sh/cpu-bind-policy"
NUMA_ALLOCATE_STRATEGY: Final = "node.koordinator.sh/numa-allocate-strategy"
NUMA_TOPOLOGY_POLICY: Final = "node.koordinator.sh/numa-topology-policy"
USAGE_THRESHOLDS: Final = "scheduling.koordinator.sh/usage-thresholds"
CPU_TOPOLOGY: Final = "node.koordinator.sh/cpu-topology"
POD_CPU_ALLOCS: Final = "node.koordinator.sh/pod-cpu-allocs"
CPU_SHARED_POOLS: Final = "node.koordinator.sh/cpu-shared-pools"
BE_CPU_SHARED_POOLS: Final = "node.koordinator.sh/be-cpu-shared-pools"
CPU_BASIC_INFO: Final = "node.koordinator.sh/cpu-basic-info"
CPU_MANAGER_POLICY: Final = "kubelet.koordinator.sh/cpu-manager-policy"
GPU_PARTITIONS: Final = "scheduling.koordinator.sh/gpu-partitions"
GPU_PARTITION_POLICY: Final = "node.koordinator.sh/gpu-partition-policy"
GPU_VENDOR: Final = "node.koordinator.sh/gpu-vendor"
GPU_MODEL: Final = "node.koordinator.sh/gpu-model"
GPU_DRIVER_VERSION: Final = "node.koordinator.sh/gpu-driver-version"
GPU_MODEL_OLD: Final = "kubernetes.io/gpu-model"
GPU_DRIVER_OLD: Final = "kubernetes.io/gpu-driver"
# Models of cards other than GPUs, which have no key of their own in Koordinator.
DEVICE_MODEL: Final = "node.koordinator.sh/{type}-model"
SECONDARY_DEVICE_WELL_PLANNED: Final = "node.koordinator.sh/secondary-device-well-planned"

# koord's own: what is wrong with an object, in one line; gone once nothing is.
PROBLEM: Final = "koord.sh/problem"
# koord's own: on a Namespace, those whose quotas its pods may use, with commas; * for all.
QUOTAS_FROM: Final = "koord.sh/quotas-from"
# koord's own: on a parent quota, the minimums of children that were admitted a moment ago.
QUOTA_CLAIMS: Final = "koord.sh/claimed-minimums"
# koord's own: on a quota, which batches of pods were charged to it last.
QUOTA_CHARGES: Final = "koord.sh/last-charges"
# koord's own: on a Node, the ratios that its allocatable was amplified by.
APPLIED_AMPLIFICATION: Final = "koord.sh/applied-amplification"
# koord's own: on a Reservation, the namespace of owners that name none.
OWNER_NAMESPACE: Final = "koord.sh/owner-namespace"
# koord's own: on the Lease of a leader, where it answers questions.
LEADER_ENDPOINT: Final = "koord.sh/endpoint"
