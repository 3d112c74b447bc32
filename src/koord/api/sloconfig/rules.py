# SPDX-License-Identifier: Apache-2.0
"""Which values a strategy may have.

Rules apply to the strategy in force, after cluster and defaults have been merged in: setting one
threshold of a pair is the common case and legal as long as the pair that results is.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from koord.api.kinds.qos_strategy import (
    CPUQOS,
    IOCfg,
    MemoryQOS,
    NetworkQOS,
    ResctrlQOS,
    ResourceQOSPolicies,
)
from koord.api.kinds.slo_strategies import (
    CgroupPath,
    CPUBurstStrategy,
    HostApplication,
    ResourceThresholdStrategy,
    SystemStrategy,
)
from koord.api.protocol.priority import PriorityClass
from koord.api.protocol.qos import QoSClass
from koord.api.sloconfig.strategies import (
    ColocationStrategy,
    CPUNormalizationStrategy,
    ModelRatios,
    ResourceAmplificationStrategy,
)
from koord.base.errors import KoordError
from koord.kernels.quantity import Quantity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


class Bounds(NamedTuple):
    """Numbers from ``low`` to ``high``, None for no bound; ``above`` excludes ``low``."""

    low: float
    high: float | None = None
    above: bool = False

    def admits(self, value: float) -> bool:
        """Whether a number lies within."""
        if value < self.low or (self.above and value == self.low):
            return False
        return self.high is None or value <= self.high

    def __str__(self) -> str:
        if self.high is None:
            return f"a number {'>' if self.above else '>='} {self.low}"
        return f"a number {'above' if self.above else 'from'} {self.low} to {self.high}"


PERCENT, NOT_NEGATIVE, AT_LEAST_1, SWITCH = Bounds(0, 100), Bounds(0), Bounds(1), Bounds(0, 1)
# Ratios beyond this are refused when they are applied, so they are refused here already.
_RATIO = Bounds(1.0, 5.0)
_INT64 = Bounds(-(2**63), 2**63 - 1)
_ZERO, _AMOUNT = Quantity(), "a quantity >= 0"

BOUNDS: dict[type, dict[str, Bounds]] = {
    ColocationStrategy: {
        "metricAggregateDurationSeconds": AT_LEAST_1,
        "metricReportIntervalSeconds": AT_LEAST_1,
        "cpuReclaimThresholdPercent": NOT_NEGATIVE,
        "memoryReclaimThresholdPercent": NOT_NEGATIVE,
        "overcommitRatioPercent": PERCENT,
        "degradeTimeMinutes": AT_LEAST_1,
        "updateTimeThresholdSeconds": AT_LEAST_1,
        "resourceDiffThreshold": Bounds(0, 1, above=True),
        "midCPUThresholdPercent": PERCENT,
        "midMemoryThresholdPercent": PERCENT,
        "midUnallocatedPercent": PERCENT,
        "midStaticCPUReservedPercent": PERCENT,
        "midStaticMemoryReservedPercent": PERCENT,
        "batchCPUThresholdPercent": NOT_NEGATIVE,
        "batchMemoryThresholdPercent": NOT_NEGATIVE,
        "batchRisePercent": PERCENT,
    },
    ResourceThresholdStrategy: {
        "cpuSuppressThresholdPercent": PERCENT,
        "cpuSuppressMinPercent": PERCENT,
        "memoryEvictThresholdPercent": PERCENT,
        "memoryEvictLowerPercent": PERCENT,
        "memoryAllocatableEvictThresholdPercent": NOT_NEGATIVE,
        "memoryAllocatableEvictLowerPercent": NOT_NEGATIVE,
        "cpuEvictBESatisfactionUpperPercent": PERCENT,
        "cpuEvictBESatisfactionLowerPercent": PERCENT,
        "cpuEvictBEUsageThresholdPercent": PERCENT,
        "cpuEvictTimeWindowSeconds": AT_LEAST_1,
        "cpuEvictThresholdPercent": PERCENT,
        "cpuEvictLowerPercent": PERCENT,
        "cpuAllocatableEvictThresholdPercent": NOT_NEGATIVE,
        "cpuAllocatableEvictLowerPercent": NOT_NEGATIVE,
        "evictEnabledPriorityThreshold": Bounds(-(2**31), 2**31 - 1),
        "allocatableEvictPriorityThreshold": Bounds(0, 7999),
    },
    CPUQOS: {"groupIdentity": Bounds(-1, 2), "schedIdle": SWITCH},
    MemoryQOS: {
        "minLimitPercent": PERCENT,
        "lowLimitPercent": PERCENT,
        "throttlingPercent": PERCENT,
        "wmarkRatio": PERCENT,
        "wmarkScalePermill": Bounds(1, 1000),
        "wmarkMinAdj": Bounds(-25, 50),
        "priorityEnable": SWITCH,
        "priority": Bounds(0, 12),
        "oomKillGroup": SWITCH,
        "pageCacheLimitPercent": PERCENT,
    },
    IOCfg: {
        "readIOPS": NOT_NEGATIVE,
        "writeIOPS": NOT_NEGATIVE,
        "readBPS": NOT_NEGATIVE,
        "writeBPS": NOT_NEGATIVE,
        "ioWeightPercent": Bounds(1, 100),
        "readLatencyPercent": PERCENT,
        "writeLatencyPercent": PERCENT,
        "modelReadBPS": AT_LEAST_1,
        "modelWriteBPS": AT_LEAST_1,
        "modelReadSeqIOPS": AT_LEAST_1,
        "modelWriteSeqIOPS": AT_LEAST_1,
        "modelReadRandIOPS": AT_LEAST_1,
        "modelWriteRandIOPS": AT_LEAST_1,
    },
    ResctrlQOS: {
        "catRangeStartPercent": PERCENT,
        "catRangeEndPercent": PERCENT,
        "mbaPercent": PERCENT,
    },
    CPUBurstStrategy: {
        "cpuBurstPercent": Bounds(1, 10000),
        "cfsQuotaBurstPercent": Bounds(100),
        "cfsQuotaBurstPeriodSeconds": Bounds(-1),
        "sharePoolThresholdPercent": PERCENT,
    },
    SystemStrategy: {
        "minFreeKbytesFactor": Bounds(0, above=True),
        "watermarkScaleFactor": Bounds(0, 400, above=True),
        "memcgReapBackGround": SWITCH,
        "pageCacheLimitEnabled": SWITCH,
    },
    CPUNormalizationStrategy: {"defaultRatio": _RATIO},
    ModelRatios: {
        "baseRatio": _RATIO,
        "hyperThreadEnabledRatio": _RATIO,
        "turboEnabledRatio": _RATIO,
        "hyperThreadTurboEnabledRatio": _RATIO,
    },
    # Values of a map are checked under the map's name.
    ResourceAmplificationStrategy: {"resourceAmplificationRatio": AT_LEAST_1},
}

# What the manager itself insists on: laxer than admission, so that a ConfigMap which was admitted
# before, or elsewhere, stays in force; never laxer than the definitions of what it writes.
IN_FORCE: dict[type, dict[str, Bounds]] = {
    **BOUNDS,
    ColocationStrategy: {
        **BOUNDS[ColocationStrategy],
        "resourceDiffThreshold": Bounds(0, above=True),
        "midStaticCPUReservedPercent": NOT_NEGATIVE,
        "midStaticMemoryReservedPercent": NOT_NEGATIVE,
    },
    CPUBurstStrategy: {**BOUNDS[CPUBurstStrategy], "cpuBurstPercent": Bounds(0, 10000)},
    MemoryQOS: {
        **BOUNDS[MemoryQOS],
        "minLimitPercent": NOT_NEGATIVE,
        "lowLimitPercent": NOT_NEGATIVE,
        "throttlingPercent": NOT_NEGATIVE,
    },
}

# Texts that are enforced; the empty text stands for "not set" in each.
CHOICES: dict[type, dict[str, tuple[str, ...]]] = {
    ColocationStrategy: {
        "midReclaimMode": ("static",),
        "metricMemoryCollectPolicy": (
            "usageWithoutPageCache",
            "usageWithHotPageCache",
            "usageWithPageCache",
        ),
    },
    ResourceThresholdStrategy: {
        "cpuSuppressPolicy": ("cpuset", "cfsQuota"),
        "cpuEvictPolicy": ("evictByRealLimit", "evictByAllocatable"),
    },
    CPUBurstStrategy: {"policy": ("none", "cpuBurstOnly", "cfsQuotaBurstOnly", "auto")},
    ResourceQOSPolicies: {
        "cpuPolicy": ("groupIdentity", "coreSched"),
        "netQOSPolicy": ("tc", "terway-qos"),
    },
    HostApplication: {
        "qos": tuple(filter(None, QoSClass)),
        "priority": tuple(filter(None, PriorityClass)),
    },
    CgroupPath: {"base": ("CgroupRoot", "Kubepods", "KubepodsBurstable", "KubepodsBesteffort")},
}

# (lesser, greater): where both are in force the first must be below the second.
PAIRS: dict[type, tuple[tuple[str, str], ...]] = {
    ResourceThresholdStrategy: (
        ("memoryEvictLowerPercent", "memoryEvictThresholdPercent"),
        ("memoryAllocatableEvictLowerPercent", "memoryAllocatableEvictThresholdPercent"),
        ("cpuEvictBESatisfactionLowerPercent", "cpuEvictBESatisfactionUpperPercent"),
        ("cpuEvictLowerPercent", "cpuEvictThresholdPercent"),
        ("cpuAllocatableEvictLowerPercent", "cpuAllocatableEvictThresholdPercent"),
    ),
    ResctrlQOS: (("catRangeStartPercent", "catRangeEndPercent"),),
}


def problems(
    strategy: msgspec.Struct,
    object_name: str,
    path: str,
    table: Mapping[type, Mapping[str, Bounds]] = BOUNDS,
) -> Iterator[KoordError]:
    """Everything that is wrong with a strategy, depth first, in the order of its fields.

    Args:
        strategy: a merged strategy, or a part of one.
        object_name: of the ConfigMap, for errors.
        path: where the strategy stands, for errors.
        table: the bounds to apply.
    """
    kind = type(strategy)
    bounds, choices = table.get(kind, {}), CHOICES.get(kind, {})
    values = {on_wire: getattr(strategy, name) for on_wire, name in _names(kind)}
    for name, value in values.items():
        where = f"{path}.{name}"
        if isinstance(value, int) and not _INT64.admits(value):
            yield KoordError(object_name, where, value, "an integer of 64 bits")
        elif isinstance(value, Quantity) and value < _ZERO:
            yield KoordError(object_name, where, str(value), _AMOUNT)
        elif name in bounds:
            yield from _outside(value, bounds[name], object_name, where)
        elif name in choices and value and value not in choices[name]:
            yield KoordError(object_name, where, value, "one of " + ", ".join(choices[name]))
        else:
            yield from _inner_problems(value, object_name, where, table)
    for lesser, greater in PAIRS.get(kind, ()):
        low, high = values[lesser], values[greater]
        if low is not None and high is not None and low >= high:
            yield KoordError(object_name, f"{path}.{lesser}", low, f"less than {greater}, {high}")
    if isinstance(strategy, NetworkQOS):
        yield from _network_problems(values, object_name, path)


@cache
def _names(kind: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """Names of fields on the wire and here; to work them out takes longer than all the rest."""
    return tuple((each.encode_name, each.name) for each in msgspec.structs.fields(kind))


def _inner_problems(
    value: Any, object_name: str, path: str, table: Mapping[type, Mapping[str, Bounds]]
) -> Iterator[KoordError]:
    if isinstance(value, msgspec.Struct):
        yield from problems(value, object_name, path, table)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _inner_problems(item, object_name, f"{path}[{index}]", table)
        applications = (item for item in value if isinstance(item, HostApplication))
        yield from _name_problems(applications, object_name, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _inner_problems(item, object_name, f"{path}[{key}]", table)


def _name_problems(
    applications: Iterable[HostApplication], object_name: str, path: str
) -> Iterator[KoordError]:
    """Applications of the host are told apart by their names, of two the later one would count."""
    seen = set()
    for index, each in enumerate(applications):
        if not each.name or each.name in seen:
            yield KoordError(object_name, f"{path}[{index}].name", each.name, "a name, used once")
        seen.add(each.name)


def _outside(value: Any, bounds: Bounds, object_name: str, path: str) -> Iterator[KoordError]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _outside(item, bounds, object_name, f"{path}[{key}]")
    elif value is not None and not bounds.admits(value):
        yield KoordError(object_name, path, value, str(bounds))


def _network_problems(values: dict[str, Any], object_name: str, path: str) -> Iterator[KoordError]:
    for name, value in values.items():
        if name == "enable" or value is None:
            continue
        if isinstance(value, int):
            yield from _outside(value, PERCENT, object_name, f"{path}.{name}")
            continue
        try:
            amount = Quantity.parse(value)
        except ValueError as error:
            yield KoordError.wrap(object_name, f"{path}.{name}", error)
            continue
        if amount < _ZERO:
            yield KoordError(object_name, f"{path}.{name}", value, _AMOUNT)
