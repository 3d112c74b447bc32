# SPDX-License-Identifier: Apache-2.0
"""Rounds of evictions on all machines at once: cool-down, what is due, the agent's tasks.

Columns say on which machines something is due; only their pods are looked at one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.strategies.eviction.engine import Wish, tasks_of
from koord.agent.strategies.eviction.tasks import execute

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from koord.agent.states.pods import PodState
    from koord.agent.strategies.eviction.evictor import Evictor
    from koord.simulator.nodes.strategies.members import Members
    from koord.simulator.nodes.strategies.table import Bools, Floats
    from koord.simulator.nodes.strategies.wishes import Round, Wanted


class Evictions:
    """Rounds of one strategy.

    Args:
        rows: machines.
        cool_seconds: after a new eviction on a machine, until its next round that may evict.
        features: in the order of their tasks, those whose gates are open.
        last_seconds: when each machine is taken to have evicted last.
    """

    def __init__(
        self,
        rows: int,
        cool_seconds: float,
        features: Mapping[str, Callable[[Round], Wanted]],
        last_seconds: float,
    ) -> None:
        self._cool_seconds = cool_seconds
        self._features = features
        self._last_seconds: Floats = np.full(rows, last_seconds)

    def step(
        self, round_: Round, evictor: Callable[[int], Evictor], now: float
    ) -> list[tuple[int, str, PodState]]:
        """One round.

        Args:
            round_: what it is decided upon.
            evictor: of a machine, by its row.
            now: seconds.

        Returns:
            Evictions that were begun: row of the machine, feature, pod.
        """
        if not self._features:
            return []
        ready = (round_.wanted["known"] & round_.wanted["enabled"] & round_.hosts["known"]) > 0
        ready &= self._last_seconds + self._cool_seconds <= now
        if not ready.any():
            return []
        wanted = {name: build(round_) for name, build in self._features.items()}
        due = ready & np.any([_due(each) for each in wanted.values()], axis=0)
        if not due.any():
            return []
        started = []
        for row, wishes in _wishes(wanted, due, round_.members):
            outcome = execute(tasks_of(wishes), evictor(row))
            if outcome.started:
                self._last_seconds[row] = now
            pods = {pod.key: pod for wish in wishes.values() for pod in wish.victims}
            started += [
                (row, feature, pods[key])
                for feature, keys in outcome.started.items()
                for key in keys
            ]
        return started


def _due(wanted: Wanted) -> Bools:
    found: Bools = np.any([amount > 0 for amount in wanted.release.values()], axis=0)
    return found


def _wishes(
    wanted: Mapping[str, Wanted], due: Bools, members: Members
) -> Iterator[tuple[int, dict[str, Wish]]]:
    """What each machine's features wish, for the machines where something is due."""
    ordered = {name: _victims(each, due, members) for name, each in wanted.items()}
    for row in np.flatnonzero(due).tolist():
        wishes = {}
        for name, each in wanted.items():
            release = {key: int(column[row]) for key, column in each.release.items()}
            release = {key: amount for key, amount in release.items() if amount > 0}
            if release:
                wishes[name] = Wish(
                    each.target, release, ordered[name].get(row, []), _amounts(each, members)
                )
        yield row, wishes


def _victims(wanted: Wanted, due: Bools, members: Members) -> dict[int, list[PodState]]:
    """Who goes on each machine, in order; ties by creation, then key, as agents list pods."""
    rows = np.flatnonzero(wanted.victims & due[members.node])
    if not len(rows):
        return {}
    pods = {row: members.members[row].state for row in rows.tolist()}

    def listed(row: int) -> tuple[str, str]:
        return str(pods[row].pod.metadata.creation_timestamp), pods[row].key

    rows = np.array(sorted(pods, key=listed), np.int64)
    rows = rows[wanted.order(rows)]
    found: dict[int, list[PodState]] = {}
    for row, node in zip(rows.tolist(), members.node[rows].tolist(), strict=True):
        found.setdefault(node, []).append(pods[row])
    return found


def _amounts(wanted: Wanted, members: Members) -> Callable[[PodState], Mapping[str, int]]:
    def released(pod: PodState) -> Mapping[str, int]:
        row = members.row[pod.uid]
        return {name: int(column[row]) for name, column in wanted.amounts.items()}

    return released
