# SPDX-License-Identifier: Apache-2.0
"""How much a busy or full node has to release, of CPU and of memory alike.

Rule: docs/reference/evictions.md#node-cpu-usage and
docs/reference/evictions.md#node-memory-usage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.strategies import one_node, pod_resources, readings
from koord.agent.strategies.eviction import release_amounts

if TYPE_CHECKING:
    from koord.agent.strategies.eviction.thresholds import ThresholdRange
    from koord.agent.strategies.strategy import Tick


def usage_release(tick: Tick, native: str, used: int, limits: ThresholdRange) -> int:
    """What is to go so that the node's usage falls to the lower end; 0 below the threshold.

    Args:
        tick: of this round.
        native: cpu or memory.
        used: milli-cores or bytes.
        limits: in percent of capacity.

    Raises:
        KoordError: there is no Node yet.
    """
    capacity = pod_resources.amount(readings.node(tick).status.capacity, native) or 0
    release = release_amounts.by_usage(
        one_node.row(used),
        one_node.row(capacity),
        one_node.row(limits.threshold_percent),
        one_node.row(limits.lower_percent),
    )
    return one_node.amount(release)
