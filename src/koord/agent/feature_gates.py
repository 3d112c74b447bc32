# SPDX-License-Identifier: Apache-2.0
"""Feature gates of the agent, under the original's names and with its defaults.

Rule: docs/reference/measuring.md#feature-gates.
"""

from __future__ import annotations

from koord.base.feature_gates import FeatureGates, Gate, GateStage, unused

_ON = (
    ("BECPUSuppress", "keep BE pods within what services leave"),
    ("CPUBurst", "let throttled containers exceed their CPU limit for a while"),
    ("RdtResctrl", "give QoS classes their part of cache and memory bandwidth"),
    ("NodeTopologyReport", "write NodeResourceTopology"),
    ("GroupIdentity", "scheduling priority of classes (cpu.bvt_warp_ns)"),
    ("CPUSetAllocator", "CPUs of containers"),
    ("BatchResource", "limits of pods on batch resources"),
)
_OFF = (
    ("BECPUEvict", "evict BE pods that get too little of the CPU they asked for"),
    ("CPUEvict", "evict by the node's CPU usage"),
    ("CPUAllocatableEvict", "evict by requested CPU against what is allocatable"),
    ("BEMemoryEvict", "evict BE pods by the node's memory usage"),
    ("MemoryEvict", "evict by the node's memory usage"),
    ("MemoryAllocatableEvict", "evict by requested memory against what is allocatable"),
    ("CgroupReconcile", "memory quality of service"),
    ("BlkIOReconcile", "block I/O of classes and pods"),
    ("SystemConfig", "kernel settings"),
    ("BECPUManager", "BE pods on CPUs of their NUMA nodes; switches suppression off"),
    ("CPICollector", "cycles per instruction"),
    ("PSICollector", "pressure stall information of pods and containers"),
    ("ColdPageCollector", "pages not touched for long, where the kernel tells"),
    ("ResctrlCollector", "cache occupancy and memory bandwidth of classes"),
    ("HugePageReport", "huge pages in NodeResourceTopology"),
    ("Accelerators", "GPUs and other accelerators"),
    ("RDMADevices", "RDMA devices"),
    ("HamiCoreVGPUMonitor", "shared memory of HAMi-core's GPU isolation"),
    ("AuditEvents", "write down what was changed and why"),
    ("AuditEventsHTTPHandler", "serve those events"),
    ("PerCPUMetric", "a series a CPU of the shared pools"),
    ("NodeMetricPromMetrics", "the reported NodeMetric as Prometheus series"),
    ("CPUNormalization", "quota by how fast this node's CPUs are"),
    ("GPUEnvInject", "GPUs of a container in its environment"),
    ("RDMADeviceInject", "RDMA devices of a container"),
    ("CoreSched", "no hyperthread shared between classes"),
    ("Resctrl", "cache and memory bandwidth of single pods"),
    ("TerwayQoS", "network quality of service through terway"),
    ("TCNetworkQoS", "parts of the node's link for classes, and limits of single pods"),
    ("OOMScoreAdj", "order in which the kernel kills"),
)

_UNUSED = (
    ("Libpfm4", "counters are read as one group in any case"),
    ("PodResourcesProxy", "koord answers no questions of the kubelet's yet"),
)


def feature_gates(text: str = "") -> FeatureGates:
    """The gates, set from ``A=true,B=false``.

    Raises:
        KoordError: an item is malformed or names no gate.
    """
    gates = FeatureGates(
        [Gate(name, True, GateStage.BETA, doc) for name, doc in _ON]
        + [Gate(name, False, GateStage.ALPHA, doc) for name, doc in _OFF]
        + [unused(name, False, GateStage.ALPHA, why) for name, why in _UNUSED]
    )
    gates.set_from(text)
    return gates
