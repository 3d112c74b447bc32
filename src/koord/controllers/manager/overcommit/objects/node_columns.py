# SPDX-License-Identifier: Apache-2.0
"""Nodes and what their agents report, as columns."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.manager.overcommit.amounts import above_zero, zeros

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import AmountColumns
    from koord.controllers.manager.overcommit.formulas.sums import PodSums
    from koord.controllers.manager.overcommit.objects.strategy_columns import StrategyColumns


class DegradeReason(IntEnum):
    """Why a node offers nothing, whatever its strategy says."""

    NO = 0
    DISABLED = 1
    NO_METRIC = 2
    NO_TIME = 3
    NO_BODY = 4
    EXPIRED = 5
    UNREAD = 6
    """No strategy is known yet; what the node shows stays while its report counts."""


class NodeColumns(NamedTuple):
    """By node.

    Args:
        capacity: what the machine has.
        kubelet_reserved: capacity that is not allocatable, before any amplification.
        annotation_reserved: what an operator holds back by annotation.
        system: what neither pods nor host applications use.
        risen: by how much that is more than in the report before; 0 if there was none.
        host_high: usage of host applications above batch.
        host_firm: usage of host applications above mid.
        used: all that is used; -1 where the agent does not say.
        reclaimable: what prod pods ask for and will not use.
        reported: uint8, :class:`DegradeReason`: NO, NO_METRIC, NO_TIME or NO_BODY.
        updated: float64, wall seconds of the report; minus infinity without one.
    """

    capacity: AmountColumns
    kubelet_reserved: AmountColumns
    annotation_reserved: AmountColumns
    system: AmountColumns
    risen: AmountColumns
    host_high: AmountColumns
    host_firm: AmountColumns
    used: AmountColumns
    reclaimable: AmountColumns
    reported: NDArray[np.uint8]
    updated: NDArray[np.float64]

    @property
    def reserved(self) -> AmountColumns:
        """What is held back on each node, by the kubelet or by annotation."""
        larger: AmountColumns = np.maximum(self.kubelet_reserved, self.annotation_reserved)
        return larger


def empty(rows: int) -> NodeColumns:
    """So many nodes that have nothing and report nothing."""
    return NodeColumns(
        *(zeros(rows), zeros(rows), zeros(rows)),
        *(zeros(rows), zeros(rows), zeros(rows)),
        *(zeros(rows), zeros(rows), zeros(rows)),
        np.full(rows, DegradeReason.NO_METRIC, np.uint8),
        np.full(rows, -np.inf),
    )


def expiry(nodes: NodeColumns, settings: StrategyColumns) -> NDArray[np.float64]:
    """Wall seconds after which each node's report counts no more; minus infinity without one."""
    usable = nodes.reported == DegradeReason.NO
    return np.where(usable, nodes.updated + settings.degrade_seconds, -np.inf)


def degraded(
    nodes: NodeColumns, settings: StrategyColumns, now: float, *, known: bool = True
) -> NDArray[np.uint8]:
    """Why each node offers nothing at a moment, as :class:`DegradeReason`.

    Rule: docs/reference/overcommit.md#degradation.

    Args:
        nodes: what they report.
        settings: their strategies; the defaults while none is known.
        now: wall seconds.
        known: whether strategies are known at all.
    """
    expired = (nodes.reported == DegradeReason.NO) & (now > expiry(nodes, settings))
    found = np.where(expired, np.uint8(DegradeReason.EXPIRED), nodes.reported)
    if not known:
        return np.where(found == DegradeReason.NO, np.uint8(DegradeReason.UNREAD), found).astype(
            np.uint8
        )
    return np.where(settings.enable, found, np.uint8(DegradeReason.DISABLED)).astype(np.uint8)


def settled(nodes: NodeColumns, sums: PodSums) -> AmountColumns:
    """System usage, without what high pods use that wait to be measured.

    A pod runs before its agent tells it from the system. What the system rose by meanwhile is taken
    for theirs, as far as they ask for it: their requests count whole already. What is left and
    their requests are together never less than what was measured.
    """
    found: AmountColumns = nodes.system - np.minimum(nodes.risen, sums.waiting)
    return found


def unreserved(nodes: NodeColumns) -> AmountColumns:
    """What batch and mid may come to together, whatever any formula says.

    It is what the machine has beyond what is held back, before any amplification.
    """
    found: AmountColumns = above_zero(nodes.capacity - nodes.reserved)
    return found


def beside_pods(nodes: NodeColumns, system: AmountColumns, host: AmountColumns) -> AmountColumns:
    """What is taken beside pods: by the system and host applications, at least the reserved."""
    used: AmountColumns = np.maximum(system + host, nodes.reserved)
    return used
