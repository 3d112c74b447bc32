# SPDX-License-Identifier: Apache-2.0
"""The NodeSLO and the NodeMetric's spec that are in force: defaults under what was received."""

from __future__ import annotations

from typing import Any

import msgspec

from koord.api.duration import Duration
from koord.api.kinds.nodemetric import (
    NodeAggregatePolicy,
    NodeMetricCollectPolicy,
    NodeMetricSpec,
)
from koord.api.kinds.nodeslo import NodeSLOSpec
from koord.api.kinds.qos_strategy import ResourceQOS, ResourceQOSStrategy
from koord.api.sloconfig import sections
from koord.api.sloconfig.defaults import default_strategy, no_quality, recommended_qos
from koord.api.sloconfig.overlay import overlay

MIN_AGGREGATE_SECONDS = 60
MIN_REPORT_SECONDS = 30

# Classes whose switched-off qualities become neutral; the others keep what they say.
_NEUTRALIZED_CLASSES = ("lsr_class", "ls_class", "be_class")
_NEUTRALIZED = ("cpu_qos", "resctrl_qos", "memory_qos")


def effective_slo(received: NodeSLOSpec) -> NodeSLOSpec:
    """What a node does under a NodeSLO.

    Every section is its defaults overlaid by what the spec sets; of LSR, LS and BE a quality that
    is not enabled gets neutral values. Rule: docs/reference/measuring.md#nodeslo-of-the-node.
    """
    qos = _over(recommended_qos(), received.resource_qos_strategy)
    return NodeSLOSpec(
        resource_used_threshold_with_be=_over(
            default_strategy(sections.THRESHOLD), received.resource_used_threshold_with_be
        ),
        resource_qos_strategy=_neutralized(qos),
        cpu_burst_strategy=_over(default_strategy(sections.BURST), received.cpu_burst_strategy),
        system_strategy=_over(default_strategy(sections.SYSTEM), received.system_strategy),
        extensions=received.extensions,
        host_applications=received.host_applications,
    )


def effective_metric_spec(received: NodeMetricSpec) -> NodeMetricSpec:
    """What a node reports; times below their floor are raised.

    Rule: docs/reference/measuring.md#nodemetric-spec.
    """
    policy = _over(_metric_defaults(), received.metric_collect_policy)
    return NodeMetricSpec(
        metric_collect_policy=msgspec.structs.replace(
            policy,
            aggregate_duration_seconds=max(
                MIN_AGGREGATE_SECONDS, policy.aggregate_duration_seconds or 0
            ),
            report_interval_seconds=max(MIN_REPORT_SECONDS, policy.report_interval_seconds or 0),
        )
    )


def _metric_defaults() -> NodeMetricCollectPolicy:
    return NodeMetricCollectPolicy(
        aggregate_duration_seconds=300,
        report_interval_seconds=60,
        node_aggregate_policy=NodeAggregatePolicy(
            durations=[Duration.parse(text) for text in ("5m0s", "10m0s", "30m0s")]
        ),
        node_memory_collect_policy="usageWithoutPageCache",
    )


def _over(base: Any, received: Any) -> Any:
    return base if received is None else overlay(base, received)


def _neutralized(qos: ResourceQOSStrategy) -> ResourceQOSStrategy:
    changes = {
        name: _neutral_where_off(getattr(qos, name))
        for name in _NEUTRALIZED_CLASSES
        if getattr(qos, name) is not None
    }
    return msgspec.structs.replace(qos, **changes)


def _neutral_where_off(quality: ResourceQOS) -> ResourceQOS:
    neutral = no_quality()
    changes = {}
    for name in _NEUTRALIZED:
        part = getattr(quality, name)
        if part is not None and part.enable is False:
            changes[name] = getattr(neutral, name)
    return msgspec.structs.replace(quality, **changes)
