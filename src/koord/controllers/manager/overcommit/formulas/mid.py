# SPDX-License-Identifier: Apache-2.0
"""Mid resources of nodes (docs/reference/overcommit.md#mid-resources)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.controllers.manager.overcommit.amounts import above_zero, share
from koord.controllers.manager.overcommit.formulas.batch import OfferedAmounts
from koord.controllers.manager.overcommit.objects.node_columns import (
    DegradeReason,
    beside_pods,
    unreserved,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import AmountColumns
    from koord.controllers.manager.overcommit.formulas.sums import PodSums
    from koord.controllers.manager.overcommit.objects.node_columns import NodeColumns
    from koord.controllers.manager.overcommit.objects.strategy_columns import StrategyColumns


def offer(
    nodes: NodeColumns, sums: PodSums, settings: StrategyColumns, degraded: NDArray[np.uint8]
) -> OfferedAmounts:
    """What nodes offer as mid-cpu and mid-memory; arguments as those of batch."""
    amounts = np.where(settings.mid_static, static(nodes, settings), dynamic(nodes, sums, settings))
    within = np.minimum(amounts, unreserved(nodes))
    return OfferedAmounts(np.where(degraded == DegradeReason.NO, above_zero(within), 0), degraded)


def static(nodes: NodeColumns, settings: StrategyColumns) -> AmountColumns:
    """A fixed share of the node, within the bound."""
    fixed = share(nodes.capacity, settings.mid_static_percent)
    bounded: AmountColumns = np.minimum(fixed, share(nodes.capacity, settings.mid_cap_percent))
    return bounded


def dynamic(nodes: NodeColumns, sums: PodSums, settings: StrategyColumns) -> AmountColumns:
    """What prod pods will not use, and a share of what nobody asked for, within the bound."""
    on_top = share(unallocated(nodes, sums), settings.mid_unallocated_percent)
    cap = share(nodes.capacity, settings.mid_cap_percent)
    bounded: AmountColumns = np.minimum(reclaimed(nodes) + on_top, cap)
    return bounded


def reclaimed(nodes: NodeColumns) -> AmountColumns:
    """What prod pods will not use, as far as the node is idle."""
    idle = np.where(nodes.used < 0, 0, nodes.capacity - nodes.used)
    return above_zero(np.minimum(nodes.reclaimable, idle))


def unallocated(nodes: NodeColumns, sums: PodSums) -> AmountColumns:
    """What neither the system takes nor firm pods ask for."""
    taken = beside_pods(nodes, nodes.system, nodes.host_firm) + sums.firm_request
    return above_zero(nodes.capacity - taken)
