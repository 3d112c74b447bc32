# SPDX-License-Identifier: Apache-2.0
"""What NodeSLOs ask for, as columns: a row a machine, written when its NodeSLO changes.

The merge with the defaults and the checks of ranges are the agent's. What a spec leaves out or sets
to something invalid is :data:`UNSET` here, and the feature rests on that machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.agent.states.effective_specs import effective_slo
from koord.agent.strategies.cpuburst.burst_containers import RAISES
from koord.agent.strategies.cpuevict.decision import USAGE_THRESHOLD_PERCENT
from koord.agent.strategies.cpuevict.strategy import BY_ALLOCATABLE
from koord.agent.strategies.cpusuppress.decision import UNSET
from koord.agent.strategies.cpusuppress.strategy import CFS_QUOTA
from koord.agent.strategies.eviction import thresholds
from koord.agent.strategies.eviction.thresholds import ThresholdRange
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.api.kinds.nodeslo import NodeSLOSpec
    from koord.api.kinds.slo_strategies import CPUBurstStrategy, ResourceThresholdStrategy

LONGEST_WINDOW_SECONDS = 300
"""A longer window of CPU figures counts as one of this."""
FOREVER = -1
"""Of a period of raised quotas: no end."""
_OFF = ThresholdRange(UNSET, UNSET)


class SLORow(NamedTuple):
    """One machine's settings; percentages, seconds and priorities, 1 for yes.

    A pair ``x_percent``, ``x_lower`` is where a feature's eviction begins and ends.
    """

    known: int = 0
    enabled: int = 0
    suppress_percent: int = UNSET
    suppress_least: int = UNSET
    by_quota: int = 0
    window_seconds: int = 1
    by_allocatable: int = 0
    satisfied_percent: int = UNSET
    satisfied_lower: int = UNSET
    be_usage_percent: int = USAGE_THRESHOLD_PERCENT
    cpu_percent: int = UNSET
    cpu_lower: int = UNSET
    memory_percent: int = UNSET
    memory_lower: int = UNSET
    cpu_promised_percent: int = UNSET
    cpu_promised_lower: int = UNSET
    memory_promised_percent: int = UNSET
    memory_promised_lower: int = UNSET
    has_usage_priority: int = 0
    usage_priority: int = 0
    has_promised_priority: int = 0
    promised_priority: int = 0
    raises: int = 0
    raise_percent: int = UNSET
    raise_seconds: int = FOREVER
    pool_percent: int = UNSET


def slo_row(received: NodeSLOSpec) -> SLORow:
    """The settings under a NodeSLO."""
    slo = effective_slo(received)
    config, burst = slo.resource_used_threshold_with_be, slo.cpu_burst_strategy
    assert config is not None, "has defaults"
    assert burst is not None, "has defaults"
    made = _raising(_evicting(SLORow(known=1, enabled=int(bool(config.enable))), config), burst)
    return made._replace(
        suppress_percent=_or(config.cpu_suppress_threshold_percent, UNSET),
        suppress_least=_or(config.cpu_suppress_min_percent, UNSET),
        by_quota=int(config.cpu_suppress_policy == CFS_QUOTA),
    )


def _evicting(made: SLORow, config: ResourceThresholdStrategy) -> SLORow:
    satisfied = _valid(
        lambda: thresholds.satisfaction_range(
            config.cpu_evict_be_satisfaction_lower_percent,
            config.cpu_evict_be_satisfaction_upper_percent,
        )
    )
    cpu = _valid(
        lambda: thresholds.usage_range(
            "cpuEvictThresholdPercent",
            config.cpu_evict_threshold_percent,
            config.cpu_evict_lower_percent,
        )
    )
    memory = _valid(
        lambda: thresholds.usage_range(
            "memoryEvictThresholdPercent",
            config.memory_evict_threshold_percent,
            config.memory_evict_lower_percent,
        )
    )
    made = _promised(made, config)
    usage = _valid_priority(
        lambda: thresholds.usage_priority(config.evict_enabled_priority_threshold)
    )
    window = config.cpu_evict_time_window_seconds or 0
    threshold = config.cpu_evict_be_usage_threshold_percent
    return made._replace(
        window_seconds=min(max(window, 1), LONGEST_WINDOW_SECONDS),
        by_allocatable=int(config.cpu_evict_policy == BY_ALLOCATABLE),
        satisfied_percent=satisfied.threshold_percent,
        satisfied_lower=satisfied.lower_percent,
        be_usage_percent=_or(threshold, USAGE_THRESHOLD_PERCENT),
        cpu_percent=cpu.threshold_percent,
        cpu_lower=cpu.lower_percent,
        memory_percent=memory.threshold_percent,
        memory_lower=memory.lower_percent,
        has_usage_priority=int(usage is not None),
        usage_priority=_or(usage, 0),
    )


def _promised(made: SLORow, config: ResourceThresholdStrategy) -> SLORow:
    cpu = _valid(
        lambda: thresholds.request_range(
            "cpuAllocatableEvictThresholdPercent",
            config.cpu_allocatable_evict_threshold_percent,
            config.cpu_allocatable_evict_lower_percent,
        )
    )
    memory = _valid(
        lambda: thresholds.request_range(
            "memoryAllocatableEvictThresholdPercent",
            config.memory_allocatable_evict_threshold_percent,
            config.memory_allocatable_evict_lower_percent,
        )
    )
    priority = _valid_priority(
        lambda: thresholds.request_priority(config.allocatable_evict_priority_threshold)
    )
    return made._replace(
        cpu_promised_percent=cpu.threshold_percent,
        cpu_promised_lower=cpu.lower_percent,
        memory_promised_percent=memory.threshold_percent,
        memory_promised_lower=memory.lower_percent,
        has_promised_priority=int(priority is not None),
        promised_priority=_or(priority, 0),
    )


def _raising(made: SLORow, burst: CPUBurstStrategy) -> SLORow:
    return made._replace(
        raises=int(burst.policy in RAISES),
        raise_percent=_or(burst.cfs_quota_burst_percent, UNSET),
        raise_seconds=_or(burst.cfs_quota_burst_period_seconds, FOREVER),
        pool_percent=_or(burst.share_pool_threshold_percent, UNSET),
    )


def _valid(read: Callable[[], ThresholdRange]) -> ThresholdRange:
    try:
        return read()
    except KoordError:
        return _OFF


def _valid_priority(read: Callable[[], int]) -> int | None:
    try:
        return read()
    except KoordError:
        return None


def _or(value: int | None, otherwise: int) -> int:
    return otherwise if value is None else value
