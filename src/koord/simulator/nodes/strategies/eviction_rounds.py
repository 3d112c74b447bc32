# SPDX-License-Identifier: Apache-2.0
"""Rounds of evictions on all machines at once: cool-down, what is due, the agent's tasks.

Columns say on which machines something is due; only their pods are looked at one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.strategies.eviction.eviction_cycle import EvictionRequest, tasks_of
from koord.agent.strategies.eviction.tasks import execute
from koord.agent.strategies.options import StrategyOptions
from koord.simulator.nodes.strategies.eviction_targets import CPU_FEATURES, MEMORY_FEATURES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from koord.agent.states.pod_state import PodState
    from koord.agent.strategies.eviction.evictor import Evictor
    from koord.base.feature_gates import FeatureGates
    from koord.simulator.nodes.strategies.column_table import Bools, Floats
    from koord.simulator.nodes.strategies.eviction_targets import EvictionInputs, EvictionTarget
    from koord.simulator.nodes.strategies.pod_rows import StrategyPods


class EvictionRounds:
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
        features: Mapping[str, Callable[[EvictionInputs], EvictionTarget]],
        last_seconds: float,
    ) -> None:
        self._cool_seconds = cool_seconds
        self._features = features
        self._last_seconds: Floats = np.full(rows, last_seconds)

    @property
    def active(self) -> bool:
        """Whether the gate of any feature is open."""
        return bool(self._features)

    def step(
        self, round_: EvictionInputs, evictor: Callable[[int], Evictor], now: float
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
        ready = (round_.slos["known"] & round_.slos["enabled"] & round_.nodes["known"]) > 0
        ready &= self._last_seconds + self._cool_seconds <= now
        if not ready.any():
            return []
        targets = {name: build(round_) for name, build in self._features.items()}
        due = ready & np.any([_due(each) for each in targets.values()], axis=0)
        if not due.any():
            return []
        started = []
        for row, requests in _eviction_requests(targets, due, round_.pods):
            outcome = execute(tasks_of(requests), evictor(row))
            if outcome.started:
                self._last_seconds[row] = now
            pods = {pod.key: pod for request in requests.values() for pod in request.victims}
            started += [
                (row, feature, pods[key])
                for feature, keys in outcome.started.items()
                for key in keys
            ]
        return started


def cpu_and_memory_rounds(
    gates: FeatureGates, rows: int, cpu_last_seconds: float
) -> tuple[EvictionRounds, EvictionRounds]:
    """The rounds for want of CPU and for want of memory.

    Args:
        gates: of every agent; they say which features evict.
        rows: machines.
        cpu_last_seconds: when each machine is taken to have evicted last for want of CPU.
    """
    options = StrategyOptions(gates=gates)
    cpu = {name: build for name, build in CPU_FEATURES.items() if gates.enabled(name)}
    memory = {name: build for name, build in MEMORY_FEATURES.items() if gates.enabled(name)}
    return (
        EvictionRounds(rows, options.cpu_evict_cool_seconds, cpu, cpu_last_seconds),
        EvictionRounds(rows, options.memory_evict_cool_seconds, memory, float("-inf")),
    )


def _due(target: EvictionTarget) -> Bools:
    found: Bools = np.any([amount > 0 for amount in target.release.values()], axis=0)
    return found


def _eviction_requests(
    targets: Mapping[str, EvictionTarget], due: Bools, pods: StrategyPods
) -> Iterator[tuple[int, dict[str, EvictionRequest]]]:
    """What each machine's features wish, for the machines where something is due."""
    ordered = {name: _victims(each, due, pods) for name, each in targets.items()}
    for row in np.flatnonzero(due).tolist():
        requests = {}
        for name, each in targets.items():
            release = {key: int(column[row]) for key, column in each.release.items()}
            release = {key: amount for key, amount in release.items() if amount > 0}
            if release:
                requests[name] = EvictionRequest(
                    each.target, release, ordered[name].get(row, []), _amounts(each, pods)
                )
        yield row, requests


def _victims(target: EvictionTarget, due: Bools, pods: StrategyPods) -> dict[int, list[PodState]]:
    """Who goes on each machine, in order; ties by creation, then key, as agents list pods."""
    rows = np.flatnonzero(target.victims & due[pods.node])
    if not len(rows):
        return {}
    states = {row: pods.pods[row].state for row in rows.tolist()}

    def listed(row: int) -> tuple[str, str]:
        return str(states[row].pod.metadata.creation_timestamp), states[row].key

    rows = np.array(sorted(states, key=listed), np.int64)
    rows = rows[target.order(rows)]
    found: dict[int, list[PodState]] = {}
    for row, node in zip(rows.tolist(), pods.node[rows].tolist(), strict=True):
        found.setdefault(node, []).append(states[row])
    return found


def _amounts(target: EvictionTarget, pods: StrategyPods) -> Callable[[PodState], Mapping[str, int]]:
    def released(pod: PodState) -> Mapping[str, int]:
        row = pods.row[pod.uid]
        return {name: int(column[row]) for name, column in target.amounts.items()}

    return released
