# SPDX-License-Identifier: Apache-2.0
"""Strategies as columns (docs/reference/overcommit.md#co-location-strategy)."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.api.sloconfig import sections
from koord.api.sloconfig.defaults import default_strategy
from koord.api.sloconfig.overlay import overlay
from koord.api.sloconfig.strategies import ColocationStrategy
from koord.api.sloconfig.substitutes import WHOLE
from koord.controllers.manager.overcommit.column_groups import take

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import PercentColumns

UNSET = -1
STATIC = "static"

_DEFAULT: ColocationStrategy = default_strategy(sections.COLOCATION)
_FIELDS = (
    "enable", "cpu_calculate_policy", "memory_calculate_policy", "cpu_reclaim_threshold_percent",
    "memory_reclaim_threshold_percent", "batch_cpu_threshold_percent",
    "batch_memory_threshold_percent", "batch_rise_percent", "overcommit_ratio_percent",
    "mid_reclaim_mode",
    "mid_static_cpu_reserved_percent", "mid_static_memory_reserved_percent",
    "mid_cpu_threshold_percent", "mid_memory_threshold_percent", "mid_unallocated_percent",
    "degrade_time_minutes", "update_time_threshold_seconds", "resource_diff_threshold",
)  # fmt: skip
_FIELD_VALUES = attrgetter(*_FIELDS)
_MOST_KNOWN = 4096
_MOST_MINUTES = 10**9


class CalculatePolicy(IntEnum):
    """By what pods are counted; a name that is not known, or not for this resource, is USAGE."""

    USAGE = 0
    REQUEST = 1
    MAX_USAGE_REQUEST = 2
    REQUEST_RATIO = 3


_CPU_POLICIES = {
    "maxUsageRequest": CalculatePolicy.MAX_USAGE_REQUEST,
    "requestRatio": CalculatePolicy.REQUEST_RATIO,
}
_MEMORY_POLICIES = {**_CPU_POLICIES, "request": CalculatePolicy.REQUEST}


class StrategyTerms(NamedTuple):
    """What one node's strategy says; pairs are CPU and memory.

    Args:
        enable: whether anything is offered at all.
        policy: how batch is worked out, see :class:`CalculatePolicy`.
        reclaim_percent: share of the node that batch and all others may use together.
        batch_cap_percent: most that batch may be, of the node; :data:`UNSET` for no bound.
        batch_rise_percent: how much of the node batch may rise by with a report, where no pod
            explains it; :data:`UNSET` for no bound.
        overcommit_percent: share of what is not requested, under REQUEST_RATIO.
        mid_static: whether mid is a fixed share.
        mid_static_percent: that share.
        mid_cap_percent: most that mid may be, of the node.
        mid_unallocated_percent: share of what nobody asks for that comes on top.
        degrade_seconds: age from which a report counts no more.
        update_seconds: how often a node is written at least.
        diff_threshold: how far an amount must move to be written before that, as a fraction.
    """

    enable: bool
    policy: tuple[int, int]
    reclaim_percent: tuple[int, int]
    batch_cap_percent: tuple[int, int]
    batch_rise_percent: int
    overcommit_percent: int
    mid_static: bool
    mid_static_percent: tuple[int, int]
    mid_cap_percent: tuple[int, int]
    mid_unallocated_percent: int
    degrade_seconds: int
    update_seconds: int
    diff_threshold: float


class StrategyColumns(NamedTuple):
    """The same as columns: ``[rows]``, pairs ``[2, rows]``."""

    enable: NDArray[np.bool_]
    policy: NDArray[np.int64]
    reclaim_percent: PercentColumns
    batch_cap_percent: PercentColumns
    batch_rise_percent: PercentColumns
    overcommit_percent: PercentColumns
    mid_static: NDArray[np.bool_]
    mid_static_percent: PercentColumns
    mid_cap_percent: PercentColumns
    mid_unallocated_percent: PercentColumns
    degrade_seconds: NDArray[np.int64]
    update_seconds: NDArray[np.int64]
    diff_threshold: NDArray[np.float64]


def of(strategy: ColocationStrategy | None) -> StrategyTerms:
    """One node's settings; what the strategy leaves open is at its default, None offers nothing."""
    return _of(_FIELD_VALUES(strategy if strategy is not None else _DEFAULT))


@lru_cache(_MOST_KNOWN)
def _of(values: tuple[Any, ...]) -> StrategyTerms:
    """Settings by what a strategy says: few nodes of a cluster differ in it."""
    # Any: the defaults leave nothing open that is a number here.
    merged: Any = overlay(_DEFAULT, ColocationStrategy(**dict(zip(_FIELDS, values, strict=True))))
    said_cap = merged.batch_cpu_threshold_percent, merged.batch_memory_threshold_percent
    return StrategyTerms(
        enable=bool(merged.enable),
        policy=(
            _CPU_POLICIES.get(merged.cpu_calculate_policy, CalculatePolicy.USAGE),
            _MEMORY_POLICIES.get(merged.memory_calculate_policy, CalculatePolicy.USAGE),
        ),
        reclaim_percent=_both(
            merged.cpu_reclaim_threshold_percent, merged.memory_reclaim_threshold_percent
        ),
        batch_cap_percent=_both(*said_cap),
        batch_rise_percent=_sane(merged.batch_rise_percent),
        overcommit_percent=_sane(merged.overcommit_ratio_percent),
        mid_static=merged.mid_reclaim_mode == STATIC,
        mid_static_percent=_both(
            merged.mid_static_cpu_reserved_percent, merged.mid_static_memory_reserved_percent
        ),
        mid_cap_percent=_both(
            merged.mid_cpu_threshold_percent, merged.mid_memory_threshold_percent
        ),
        mid_unallocated_percent=_sane(merged.mid_unallocated_percent),
        degrade_seconds=min(merged.degrade_time_minutes, _MOST_MINUTES) * 60,
        update_seconds=min(merged.update_time_threshold_seconds, _MOST_MINUTES * 60),
        diff_threshold=merged.resource_diff_threshold,
    )


def columns(rows: Sequence[StrategyTerms]) -> StrategyColumns:
    """Settings of nodes as columns."""
    found = []
    for name in StrategyColumns._fields:
        column = np.array([getattr(row, name) for row in rows])
        found.append(np.ascontiguousarray(column.T))
    return StrategyColumns(*found)


def nobody(rows: int) -> StrategyColumns:
    """So many rows that offer nothing."""
    return take(columns([of(None)]), np.zeros(rows, np.intp))


def _both(cpu: int | None, memory: int | None) -> tuple[int, int]:
    return _sane(cpu), _sane(memory)


def _sane(percent: int | None) -> int:
    """A share; configurations are read so that it is one, other callers may say anything."""
    return UNSET if percent is None else min(max(percent, 0), WHOLE)
