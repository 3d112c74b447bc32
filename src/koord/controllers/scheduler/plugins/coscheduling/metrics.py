# SPDX-License-Identifier: Apache-2.0
"""How many gangs there are, and how far they are, as Prometheus series.

Rule: docs/reference/gangs.md#metrics.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Self

from koord.base.metrics import registry
from koord.controllers.scheduler.plugins.coscheduling.state.gangs import MemberState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from koord.base.metrics import MetricRegistry
    from koord.controllers.scheduler.plugins.coscheduling.state.gangs import Gang

INCOMPLETE, WAITING, PLACED = "incomplete", "waiting", "placed"
_POD_STATES = {state: state.name.lower() for state in MemberState}


class GangMetrics:
    """Gangs and their pods by state.

    Args:
        into: the component's registry.
    """

    def __init__(self, into: MetricRegistry) -> None:
        self._gangs = into.gauge(
            "koord_scheduler_gangs",
            "Gangs that lack pods (incomplete), wait for nodes (waiting) or have them (placed).",
            ("state",),
        )
        self._pods = into.gauge(
            "koord_scheduler_gang_pods",
            "Pods of gangs: without a node (pending), holding one (waiting), bound.",
            ("state",),
        )

    @classmethod
    def of(cls, metrics: MetricRegistry) -> Self:
        """The series in a registry; where they are already another plugin's, nowhere."""
        try:
            return cls(metrics)
        except ValueError:
            return cls(registry())

    def update(self, gangs: Iterable[Gang]) -> None:
        """Counts them anew."""
        states: Counter[str] = Counter({INCOMPLETE: 0, WAITING: 0, PLACED: 0})
        pods: Counter[MemberState] = Counter(dict.fromkeys(MemberState, 0))
        for gang in gangs:
            states[_state(gang)] += 1
            for member in MemberState:
                pods[member] += gang.count(member)
        for state, count in states.items():
            self._gangs.labels(state).set(count)
        for member, count in pods.items():
            self._pods.labels(_POD_STATES[member]).set(count)


def _state(gang: Gang) -> str:
    if not gang.complete:
        return INCOMPLETE
    return PLACED if gang.count(MemberState.BOUND) >= gang.minimum else WAITING
