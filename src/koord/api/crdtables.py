# SPDX-License-Identifier: Apache-2.0
"""What the CRDs say that the types do not: columns, subresources, extra shapes that are taken."""

from __future__ import annotations

from typing import Any

_SLO, _SCHEDULING = "slo.koordinator.sh", "scheduling.koordinator.sh"
_SIGS, _QUOTA = "scheduling.sigs.k8s.io", "quota.koordinator.sh"
_NRT, _ANALYSIS = "topology.node.k8s.io", "analysis.koordinator.sh"
_CONFIG = "config.koordinator.sh"

# Groups under k8s.io are protected: the API server wants to see who approved the definition.
PROTECTED_GROUP = {
    _SIGS: "https://github.com/kubernetes-sigs/scheduler-plugins/pull/52",
    _NRT: "https://github.com/kubernetes/enhancements/pull/1870",
}

WITH_STATUS = {
    (_SLO, "NodeSLO"),
    (_SLO, "NodeMetric"),
    (_SCHEDULING, "Reservation"),
    (_SCHEDULING, "PodMigrationJob"),
    (_SCHEDULING, "ClusterNetworkTopology"),
    (_SCHEDULING, "ScheduleExplanation"),
    (_CONFIG, "ClusterColocationProfile"),
    (_ANALYSIS, "Recommendation"),
    (_QUOTA, "ElasticQuota"),
}

# Fields that only one version of a kind requires.
REQUIRED_IN_VERSION = {("NodeResourceTopology", "v1alpha1"): ("topologyPolicies",)}

_AGE = ("Age", "date", ".metadata.creationTimestamp")
# What koord-scheduler found wrong, where the kind has no conditions; last, for it is long.
_PROBLEM = ("Problem", "string", r".metadata.annotations.koord\.sh/problem")
_QUOTA_COLUMNS = [
    ("MinCPU", "string", ".spec.min.cpu"),
    ("MaxCPU", "string", ".spec.max.cpu"),
    ("UsedCPU", "string", ".status.used.cpu"),
    ("MinMemory", "string", ".spec.min.memory"),
    ("MaxMemory", "string", ".spec.max.memory"),
    ("UsedMemory", "string", ".status.used.memory"),
    _AGE,
    _PROBLEM,
]

# (name, type, path); where Koordinator has columns ours are the same.
COLUMNS: dict[tuple[str, str], list[tuple[str, str, str]]] = {
    (_SLO, "NodeSLO"): [
        ("Suppress", "boolean", ".spec.resourceUsedThresholdWithBE.enable"),
        ("CPU%", "integer", ".spec.resourceUsedThresholdWithBE.cpuSuppressThresholdPercent"),
        ("Memory%", "integer", ".spec.resourceUsedThresholdWithBE.memoryEvictThresholdPercent"),
        ("Burst", "string", ".spec.cpuBurstStrategy.policy"),
        _AGE,
    ],
    (_SLO, "NodeMetric"): [
        ("CPU", "string", ".status.nodeMetric.nodeUsage.resources.cpu"),
        ("Memory", "string", ".status.nodeMetric.nodeUsage.resources.memory"),
        ("SystemCPU", "string", ".status.nodeMetric.systemUsage.resources.cpu"),
        ("Updated", "date", ".status.updateTime"),
        _AGE,
    ],
    (_SCHEDULING, "Reservation"): [
        ("Phase", "string", ".status.phase"),
        _AGE,
        ("Node", "string", ".status.nodeName"),
        ("TTL", "string", ".spec.ttl"),
        ("Expires", "string", ".spec.expires"),
        ("Problem", "string", '.status.conditions[?(@.status=="False")].message'),
    ],
    (_SCHEDULING, "PodMigrationJob"): [
        ("Phase", "string", ".status.phase"),
        ("Status", "string", ".status.status"),
        _AGE,
        ("Node", "string", ".status.nodeName"),
        ("Reservation", "string", ".spec.reservationOptions.reservationRef.name"),
        ("PodNamespace", "string", ".spec.podRef.namespace"),
        ("Pod", "string", ".spec.podRef.name"),
        ("NewPod", "string", ".status.podRef.name"),
        ("TTL", "string", ".spec.ttl"),
    ],
    (_SCHEDULING, "Device"): [
        ("Type", "string", ".spec.devices[0].type"),
        ("Model", "string", r".metadata.labels.node\.koordinator\.sh/gpu-model"),
        ("Driver", "string", r".metadata.labels.node\.koordinator\.sh/gpu-driver-version"),
        _AGE,
    ],
    (_ANALYSIS, "Recommendation"): [
        _AGE,
        ("Type", "string", ".spec.target.type"),
        ("Kind", "string", ".spec.target.workload.kind"),
        ("Name", "string", ".spec.target.workload.name"),
        ("LastUpdateTime", "date", ".status.updateTime"),
    ],
    (_SIGS, "ElasticQuota"): _QUOTA_COLUMNS,
    (_QUOTA, "ElasticQuota"): [
        ("Priority", "integer", ".spec.priority"),
        ("HardCPU", "string", ".spec.hard.cpu"),
        *_QUOTA_COLUMNS,
    ],
    (_QUOTA, "ElasticQuotaProfile"): [
        ("Quota", "string", ".spec.quotaName"),
        ("Ratio", "string", ".spec.resourceRatio"),
        _AGE,
    ],
    (_SIGS, "PodGroup"): [
        ("Phase", "string", ".status.phase"),
        ("MinMember", "integer", ".spec.minMember"),
        ("Scheduled", "integer", ".status.scheduled"),
        ("Running", "integer", ".status.running"),
        _AGE,
        _PROBLEM,
    ],
    (_CONFIG, "ClusterColocationProfile"): [
        ("QoS", "string", ".spec.qosClass"),
        ("Priority", "string", ".spec.priorityClassName"),
        ("Scheduler", "string", ".spec.schedulerName"),
        _AGE,
    ],
    (_SCHEDULING, "ScheduleExplanation"): [
        ("Question", "string", ".spec.questionObjectKey"),
        ("Schedulable", "boolean", ".status.schedulable"),
        ("Message", "string", ".status.failedMessage"),
        _AGE,
    ],
    (_NRT, "NodeResourceTopology"): [
        ("Policy", "string", ".topologyPolicies[0]"),
        _AGE,
    ],
}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _list(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "format": "int64"}
_NUMBER_OR_TEXT = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_KEPT = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_POD = _object(namespace=_TEXT, name=_TEXT)
_CLASSES = ("lsrClass", "lsClass", "beClass", "systemClass", "cgroupRoot")

# Fields of other shapes, by path: listed so that they are not pruned before koord reads them.
EXTRAS: dict[tuple[str, str], dict[str, dict[str, Any]]] = {
    (_SLO, "NodeSLO"): {
        "spec.resourceThresholdStrategy": _object(
            enable={"type": "boolean"},
            thresholds={"type": "object", "additionalProperties": _COUNT},
        ),
        **{f"spec.resourceQOSStrategy.{name}.blkIOQOS": _KEPT for name in _CLASSES},
        "status.nodeMetric": _KEPT,
    },
    (_SLO, "NodeMetric"): {
        "spec.nodeName": _TEXT,
        "spec.collectionIntervalSeconds": _COUNT,
    },
    (_SCHEDULING, "Device"): {
        "spec.devices.[].deviceType": _TEXT,
        "spec.devices.[].deviceModel": _TEXT,
        "spec.devices.[].uuid": _TEXT,
        "spec.devices.[].totalMemory": _NUMBER_OR_TEXT,
        "status.deviceAllocations": _list(
            _object(
                device=_object(deviceType=_TEXT, uuid=_TEXT),
                allocations=_list(_object(pod=_POD, container=_TEXT, allocated=_TEXT)),
            )
        ),
    },
    # An empty status that the reference schemas list and no component writes.
    (_QUOTA, "ElasticQuotaProfile"): {"status": {"type": "object"}},
}
