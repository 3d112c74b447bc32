# SPDX-License-Identifier: Apache-2.0
"""Which cluster events may help a pod that was refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.protocol import keys
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD_DELETE,
    NODE,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.scheduler.plugins.numa.ledger import Ledger


def events(ledger: Ledger, topology: str) -> Sequence[HintedEvent]:
    """The registrations.

    Args:
        ledger: tells whether nodes count CPUs in a way that any pod matters for.
        topology: the resource name of NodeResourceTopology events.
    """

    def frees(info: Any, old: Any, new: Any) -> bool:
        # On amplified nodes plain requests count as well.
        held = old is None or keys.RESOURCE_STATUS in old.metadata.annotations
        return held or ledger.special

    change = Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ANNOTATION
    return (
        HintedEvent(ASSIGNED_POD_DELETE, frees),
        HintedEvent(ClusterEvent(NODE, change | Action.UPDATE_NODE_ALLOCATABLE)),
        HintedEvent(ClusterEvent(topology, Action.ALL)),
    )
