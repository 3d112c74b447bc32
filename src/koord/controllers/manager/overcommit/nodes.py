# SPDX-License-Identifier: Apache-2.0
"""Nodes and what their agents report, as columns."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.controllers.manager.overcommit.amounts import above_zero, zeros

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.controllers.manager.overcommit.amounts import Amounts
    from koord.controllers.manager.overcommit.settings import Settings
    from koord.controllers.manager.overcommit.sums import Sums


class Degraded(IntEnum):
    """Why a node offers nothing, whatever its strategy says."""

    NO = 0
    DISABLED = 1
    NO_METRIC = 2
    NO_TIME = 3
    NO_BODY = 4
    EXPIRED = 5
    UNREAD = 6
    """No strategy is known yet; what the node shows stays while its report counts."""


class Nodes(NamedTuple):
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
        reported: uint8, :class:`Degraded`: NO, NO_METRIC, NO_TIME or NO_BODY.
        updated: float64, wall seconds of the report; minus infinity without one.
    """

    capacity: Amounts
    kubelet_reserved: Amounts
    annotation_reserved: Amounts
    system: Amounts
    risen: Amounts
    host_high: Amounts
    host_firm: Amounts
    used: Amounts
    reclaimable: Amounts
    reported: NDArray[np.uint8]
    updated: NDArray[np.float64]

    @property
    def reserved(self) -> Amounts:
        """What is held back on each node, by the kubelet or by annotation."""
        larger: Amounts = np.maximum(self.kubelet_reserved, self.annotation_reserved)
        return larger


def empty(rows: int) -> Nodes:
    """So many nodes that have nothing and report nothing."""
    return Nodes(
        *(zeros(rows), zeros(rows), zeros(rows)),
        *(zeros(rows), zeros(rows), zeros(rows)),
        *(zeros(rows), zeros(rows), zeros(rows)),
        np.full(rows, Degraded.NO_METRIC, np.uint8),
        np.full(rows, -np.inf),
    )


def expiry(nodes: Nodes, settings: Settings) -> NDArray[np.float64]:
    """Wall seconds after which each node's report counts no more; minus infinity without one."""
    usable = nodes.reported == Degraded.NO
    return np.where(usable, nodes.updated + settings.degrade_seconds, -np.inf)


def degraded(
    nodes: Nodes, settings: Settings, now: float, *, known: bool = True
) -> NDArray[np.uint8]:
    """Why each node offers nothing at a moment, as :class:`Degraded`.

    Rule: docs/reference/overcommit.md#degradation.

    Args:
        nodes: what they report.
        settings: their strategies; the defaults while none is known.
        now: wall seconds.
        known: whether strategies are known at all.
    """
    expired = (nodes.reported == Degraded.NO) & (now > expiry(nodes, settings))
    found = np.where(expired, np.uint8(Degraded.EXPIRED), nodes.reported)
    if not known:
        return np.where(found == Degraded.NO, np.uint8(Degraded.UNREAD), found).astype(np.uint8)
    return np.where(settings.enable, found, np.uint8(Degraded.DISABLED)).astype(np.uint8)


def settled(nodes: Nodes, sums: Sums) -> Amounts:
    """System usage, without what high pods use that wait to be measured.

    A pod runs before its agent tells it from the system. What the system rose by meanwhile is taken
    for theirs, as far as they ask for it: their requests count whole already. What is left and
    their requests are together never less than what was measured.
    """
    found: Amounts = nodes.system - np.minimum(nodes.risen, sums.waiting)
    return found


def room(nodes: Nodes) -> Amounts:
    """What batch and mid may come to together, whatever any formula says.

    It is what the machine has beyond what is held back, before any amplification.
    """
    found: Amounts = above_zero(nodes.capacity - nodes.reserved)
    return found


def beside_pods(nodes: Nodes, system: Amounts, host: Amounts) -> Amounts:
    """What is taken beside pods: by the system and host applications, at least the reserved."""
    used: Amounts = np.maximum(system + host, nodes.reserved)
    return used
