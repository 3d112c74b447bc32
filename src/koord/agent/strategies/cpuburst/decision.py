# SPDX-License-Identifier: Apache-2.0
"""How far containers may exceed their CPU limit: columns in, columns out.

A row is a container unless a docstring says otherwise; ``node`` columns name the row of the node
that it runs on. Rule: docs/reference/strategies.md#cpu-burst; a fraction of a microsecond is
dropped.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Bools = NDArray[np.bool_]

PERIOD_US = 100_000
_UP_RATIO = 1.2
_DOWN_RATIO = 0.8
_COOLING_RATIO = 0.9
_CONSUMING_PERCENT = 100
_SAVING_PERCENT = 60


class CPUPoolState(IntEnum):
    """How busy the CPUs are that pods share."""

    IDLE = 0
    COOLING = 1
    OVERLOAD = 2
    UNKNOWN = 3


class QuotaOperation(IntEnum):
    """What becomes of a container's quota."""

    REMAIN = 0
    UP = 1
    DOWN = 2
    RESET = 3


def pool_ratios(
    node_cores: Floats,
    processors: Ints,
    pod_node: Ints,
    pod_cores: Floats,
    pod_request_milli: Ints,
    pod_pinned: Bools,
    pod_be: Bools,
) -> Floats:
    """Usage of the shared CPUs of each node over their number; NaN where no usage is known.

    Args:
        node_cores: in use on each node, NaN for not measured.
        processors: CPUs of each node.
        pod_node: row of the node, a pod a row.
        pod_cores: usage, NaN for not measured, a pod a row.
        pod_request_milli: CPU request, a pod a row.
        pod_pinned: LSE or LSR, a pod a row.
        pod_be: best effort, a pod a row.
    """
    rows = len(node_cores)
    own = np.where(pod_pinned, pod_request_milli / 1000, 0.0)
    total = processors - np.bincount(pod_node, weights=own, minlength=rows)[:rows]
    outside = np.where((pod_pinned | pod_be) & ~np.isnan(pod_cores), pod_cores, 0.0)
    used = node_cores - np.bincount(pod_node, weights=outside, minlength=rows)[:rows]
    some = total > 0
    ratio = np.where(some, used / np.where(some, total, 1.0), 1.0)
    return np.where(np.isnan(node_cores), np.nan, ratio)


def node_states(ratio: Floats, threshold_percent: Ints) -> Ints:
    """A :class:`CPUPoolState` a node, from its pool's ratio and its threshold."""
    threshold = threshold_percent / 100
    busy = np.where(ratio >= threshold * _COOLING_RATIO, CPUPoolState.COOLING, CPUPoolState.IDLE)
    state = np.where(ratio >= threshold, CPUPoolState.OVERLOAD, busy)
    return np.where(np.isnan(ratio), CPUPoolState.UNKNOWN, state).astype(np.int64)


def bursts(limit_milli: Ints, percent: Ints, enabled: Bools) -> Ints:
    """The kernel's burst allowance in microseconds; 0 without a limit, or where it is off."""
    cores = (limit_milli / 1000) * (percent / 100)
    return np.where(enabled & (limit_milli > 0), np.trunc(cores * PERIOD_US), 0).astype(np.int64)


def operations(enabled: Bools, permitted: Bools, throttled: Floats, state: Ints) -> Ints:
    """An :class:`QuotaOperation` a container.

    Args:
        enabled: whether its policy raises quotas.
        permitted: whether its limiter lets it.
        throttled: share of its periods that were throttled, NaN for not measured.
        state: of its node.
    """
    wanted = np.where(throttled > 0, QuotaOperation.UP, QuotaOperation.REMAIN)
    wanted = np.where(permitted, wanted, QuotaOperation.DOWN)
    calm = (state == CPUPoolState.COOLING) | (state == CPUPoolState.UNKNOWN)
    wanted = np.where(calm & (wanted == QuotaOperation.UP), QuotaOperation.REMAIN, wanted)
    wanted = np.where(state == CPUPoolState.OVERLOAD, QuotaOperation.DOWN, wanted)
    return np.where(enabled, wanted, QuotaOperation.RESET).astype(np.int64)


def quota_targets(operation: Ints, base_us: Ints, current_us: Ints, percent: Ints) -> Ints:
    """The quota of each container, from its base to the configured percentage of it.

    Args:
        operation: see :func:`operations`.
        base_us: its quota without any raising, above 0.
        current_us: what its file says.
        percent: how far it may be raised; 100 or less is not at all.
    """
    ceiling = np.where(percent > 100, np.trunc(base_us * percent.astype(float) / 100), base_us)
    raised = np.trunc(current_us * _UP_RATIO)
    lowered = np.trunc(current_us * _DOWN_RATIO)
    choices = {
        QuotaOperation.UP: raised,
        QuotaOperation.DOWN: lowered,
        QuotaOperation.RESET: base_us,
    }
    target = np.select([operation == key for key in choices], list(choices.values()), current_us)
    bounded: Ints = np.maximum(base_us, np.minimum(target, ceiling)).astype(np.int64)
    return bounded


def usage_percents(usage_cores: Floats, limit_milli: Ints) -> Ints:
    """Usage in percent of the limit; 100 where it was not measured."""
    share = usage_cores / (limit_milli / 1000) * 100
    return np.where(np.isnan(share), _CONSUMING_PERCENT, np.trunc(share)).astype(np.int64)


def capacities(period_seconds: Ints, percent: Ints) -> Ints:
    """Size of the limiter's bucket of tokens: a percent-second each."""
    return period_seconds * (percent - 100)


def first_tokens(capacity: Ints) -> Ints:
    """What a bucket begins with: a quarter, the mean of the original's draw from the lower half."""
    return capacity // 4


def tokens_after(tokens: Ints, capacity: Ints, usage_percent: Ints, seconds: Ints) -> Ints:
    """The bucket after whole seconds of a usage; a container may raise its quota above 0.

    Use above the limit costs, use below 60 percent of it saves.
    """
    gain = (_CONSUMING_PERCENT - usage_percent) * seconds
    between = (usage_percent >= _SAVING_PERCENT) & (usage_percent < _CONSUMING_PERCENT)
    return np.clip(tokens + np.where(between, 0, gain), -capacity, capacity)
