# SPDX-License-Identifier: Apache-2.0
"""What somebody may write by mistake who may write a node's objects: values that cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

_OF_NODE = (
    "node.koordinator.sh/reservation", "node.koordinator.sh/cpu-normalization-ratio",
    "node.koordinator.sh/resource-amplification-ratio", "node.koordinator.sh/system-qos-resource",
    "node.koordinator.sh/network-bandwidth",
)  # fmt: skip


def mistakes() -> Iterator[tuple[str, dict[str, Any]]]:
    """Kinds, each with what is merged into the node's object of that kind."""
    thresholds = (
        {"enable": True, "cpuSuppressThresholdPercent": -(2**60)},
        {
            "enable": True,
            "cpuSuppressThresholdPercent": 2**62,
            "memoryEvictThresholdPercent": 2**62,
        },
        {"enable": True, "cpuSuppressPolicy": "x" * 10_000},
    )
    for section in thresholds:
        yield "NodeSLO", {"spec": {"resourceUsedThresholdWithBE": section}}
    odd = {"enable": True, "memoryQOS": {"wmarkRatio": -(2**60), "minLimitPercent": 2**62}}
    classes = ("lsrClass", "lsClass", "beClass", "systemClass", "cgroupRoot")
    yield "NodeSLO", {"spec": {"resourceQOSStrategy": dict.fromkeys(classes, odd)}}
    cache = {"resctrlQOS": {"enable": True, "catRangeStartPercent": 99, "catRangeEndPercent": -9}}
    yield "NodeSLO", {"spec": {"resourceQOSStrategy": dict.fromkeys(classes, cache)}}
    yield "NodeSLO", {"spec": {"cpuBurstStrategy": {"policy": "auto", "cpuBurstPercent": 2**62}}}
    yield "NodeSLO", {"spec": {"systemStrategy": {"minFreeKbytesFactor": 2**62}}}
    yield "NodeSLO", {"spec": {"extensions": {"k" * 200: [{}] * 5000}}}
    yield "NodeSLO", {"metadata": {"annotations": {"a": "x" * 200_000}}}
    policy = {"reportIntervalSeconds": -(2**60), "aggregateDurationSeconds": 2**62}
    yield "NodeMetric", {"spec": {"metricCollectPolicy": policy}}
    yield "NodeMetric", {"spec": {"metricCollectPolicy": {"reportIntervalSeconds": 2**62}}}
    cards = [{"type": "gpu", "minor": n, "health": True, "id": "x"} for n in range(-3, 3000)]
    yield "Device", {"spec": {"devices": cards}}
    zones = [{"name": f"node-{n}", "type": "Node"} for n in range(3000)]
    yield "NodeResourceTopology", {"zones": zones}
    for text in ("[" * 50_000, "null", '{"cpu":"-1"}', "9" * 5000):
        yield "Node", {"metadata": {"annotations": dict.fromkeys(_OF_NODE, text)}}
