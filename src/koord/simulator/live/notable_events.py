# SPDX-License-Identifier: Apache-2.0
"""What is worth a line: offers that moved, machines that hold batch down, evictions and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from koord.api.sloconfig import sections
from koord.simulator.live.initial_config import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.simulator.live.sample import ClusterSample
    from koord.simulator.nodes.strategies.enforcement import Eviction

HELD_BELOW = 0.95
"""Batch is held down on a machine whose agent leaves it less than this share of what it wants."""
OFFER_STEP = 0.05
"""How far the offer moves, as a share of all CPUs, before that is told."""
_NAMED = 3
_RULES: dict[str, Any] = SETTINGS[sections.THRESHOLD]["clusterStrategy"]
_WHY = {
    "BECPUEvict": "batch was left less than {cpuEvictBESatisfactionLowerPercent} % of the CPU that "
    "it asks for",
    "BEMemoryEvict": "more than {memoryEvictThresholdPercent} % of the memory was in use",
}


class NotableEvent(NamedTuple):
    """Something that happened.

    Attributes:
        seconds: wall time.
        what: offered, suppressed, released or evicted.
        text: a line without its end.
    """

    seconds: float
    what: str
    text: str


def of_offer(
    reported_cores: float, now: ClusterSample, capacity_cores: float
) -> NotableEvent | None:
    """The offer, where it is far enough from what was told last.

    Args:
        reported_cores: what was told last; 0 if nothing was.
        now: the latest sample.
        capacity_cores: of the cluster.
    """
    offered = float(now.offered.sum())
    if abs(offered - reported_cores) < OFFER_STEP * capacity_cores:
        return None
    text = f"{offered:.0f} cores offered to batch ({offered - reported_cores:+.0f})"
    return NotableEvent(now.seconds, "offered", text)


def of_suppression(
    before: ClusterSample | None, now: ClusterSample, names: Sequence[str]
) -> list[NotableEvent]:
    """Machines that have begun to hold batch down, or have ceased to.

    Args:
        before: the sample before; None for the first.
        now: the latest sample.
        names: of the machines.
    """
    held = now.held < HELD_BELOW
    was = before.held < HELD_BELOW if before is not None else np.zeros_like(held)
    found = []
    for what, rows, verb, rest in (
        ("suppressed", held & ~was, "hold", "batch down"),
        ("released", was & ~held, "let", "batch go again"),
    ):
        at = np.flatnonzero(rows).tolist()
        if at:
            text = f"{_list([names[row] for row in at])} {verb}{'s' * (len(at) == 1)} {rest}"
            if what == "suppressed":
                text += f", to {100 * float(now.held[at].min()):.0f} % of its wish at the least"
            found.append(NotableEvent(now.seconds, what, text))
    return found


def of_eviction(eviction: Eviction, names: Sequence[str]) -> NotableEvent:
    """An eviction, and why."""
    pod = eviction.pod.partition("/")[2]
    text = f"{pod} evicted from {names[eviction.row]}: {why(eviction.feature)}"
    return NotableEvent(eviction.seconds, "evicted", text)


def why(feature: str) -> str:
    """What made an agent evict, by the gate of its feature; the gate where there is no text."""
    text = _WHY.get(feature)
    return text.format(**_RULES) if text is not None else feature


def _list(names: Sequence[str]) -> str:
    more = len(names) - _NAMED
    if more > 0:
        return f"{', '.join(names[:_NAMED])} and {more} more"
    return ", ".join(names)
