# SPDX-License-Identifier: Apache-2.0
"""Batch resources of nodes (docs/reference/overcommit.md#batch-resources-of-a-node)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.manager.overcommit.amounts import above_zero, share
from koord.controllers.manager.overcommit.objects.node_columns import (
    DegradeReason,
    beside_pods,
    settled,
    unreserved,
)
from koord.controllers.manager.overcommit.objects.strategy_columns import CalculatePolicy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import AmountColumns
    from koord.controllers.manager.overcommit.formulas.sums import PodSums
    from koord.controllers.manager.overcommit.objects.node_columns import NodeColumns
    from koord.controllers.manager.overcommit.objects.strategy_columns import StrategyColumns


class OfferedAmounts(NamedTuple):
    """What nodes offer.

    Args:
        amounts: int64 ``[2, rows]``: CPU in milli-cores, memory in bytes; 0 where degraded.
        degraded: uint8 ``[rows]``,
            :class:`~koord.controllers.manager.overcommit.objects.node_columns.DegradeReason`;
            not 0 where the names are to be taken off the node.
    """

    amounts: AmountColumns
    degraded: NDArray[np.uint8]

    @property
    def cpu_milli(self) -> NDArray[np.int64]:
        """CPU, milli-cores."""
        cpu: NDArray[np.int64] = self.amounts[0]
        return cpu

    @property
    def memory_bytes(self) -> NDArray[np.int64]:
        """Memory, bytes."""
        memory: NDArray[np.int64] = self.amounts[1]
        return memory


def offer(
    nodes: NodeColumns,
    sums: PodSums,
    settings: StrategyColumns,
    degraded: NDArray[np.uint8],
    mid: AmountColumns | int = 0,
) -> OfferedAmounts:
    """What nodes offer as batch-cpu and batch-memory.

    Args:
        nodes, sums, settings: of the same rows.
        degraded: see :func:`~koord.controllers.manager.overcommit.objects.node_columns.degraded`.
        mid: what they offer as mid resources, which comes first; 0 where nothing is.
    """
    amounts = formula(
        settings,
        capacity=nodes.capacity,
        system=beside_pods(nodes, settled(nodes, sums), nodes.host_high),
        reserved=nodes.reserved,
        sums=sums,
        most=unreserved(nodes) - mid,
    )
    return OfferedAmounts(np.where(degraded == DegradeReason.NO, amounts, 0), degraded)


def margin(capacity: AmountColumns, settings: StrategyColumns) -> AmountColumns:
    """What is left free for peaks."""
    return share(capacity, 100 - settings.reclaim_percent)


def formula(
    settings: StrategyColumns,
    *,
    capacity: AmountColumns,
    system: AmountColumns,
    reserved: AmountColumns,
    sums: PodSums,
    most: AmountColumns,
    parts: NDArray[np.int64] | int = 1,
) -> AmountColumns:
    """The policies and their bounds, for nodes and zones alike.

    Args:
        settings: of the same rows as all else.
        capacity: milli-cores and bytes.
        system, reserved, sums: what is taken, in parts of those units.
        most: what may be offered at most, in parts.
        parts: how many there are of a unit, int64 ``[2, 1]`` or one number for both.

    Returns:
        What is offered, in parts.
    """
    unreserved = (capacity - margin(capacity, settings)) * parts
    by_policy = {
        CalculatePolicy.USAGE: unreserved - system - sums.high_used,
        CalculatePolicy.REQUEST: unreserved - reserved - sums.high_request,
        CalculatePolicy.MAX_USAGE_REQUEST: unreserved - system - sums.high_max,
        CalculatePolicy.REQUEST_RATIO: ratio(capacity * parts - sums.firm_request, settings),
    }
    chosen = np.select(
        [settings.policy == policy for policy in by_policy], list(by_policy.values())
    )
    cap = share(capacity, settings.batch_cap_percent) * parts
    capped = np.where(settings.batch_cap_percent >= 0, np.minimum(chosen, cap), chosen)
    return above_zero(np.minimum(capped, most))


def ratio(free: AmountColumns, settings: StrategyColumns) -> AmountColumns:
    """The share of what firm pods do not ask for, in whole units, cut."""
    return above_zero(free) * settings.overcommit_percent // 100
