# SPDX-License-Identifier: Apache-2.0
"""Raised CPU quotas of throttled pods, by the agent's decision: columns, a row a pod.

A pod is taken as one container. The kernel's own burst allowance evens out what happens within a
period of 100 ms, which no model of seconds shows.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import numpy as np

from koord.agent.strategies.cpuburst import decision
from koord.agent.strategies.cpuburst.burst_containers import RAISES
from koord.simulator.nodes.strategies.pod_rows import StrategyPods
from koord.simulator.nodes.strategies.slo_rows import FOREVER

if TYPE_CHECKING:
    from koord.api.kinds.slo_strategies import CPUBurstStrategy
    from koord.simulator.nodes.agents.usage_model import UsageReading
    from koord.simulator.nodes.strategies.column_table import Bools, ColumnTable, Floats, Ints
    from koord.simulator.nodes.strategies.slo_rows import SLORow

_WINDOW_ROUNDS = 5
_US_PER_MILLI = decision.PERIOD_US // 1000
_NO_BUCKET = np.iinfo(np.int64).min


class CPUBursts:
    """The quotas of all pods, and the token buckets of those that may raise theirs."""

    def __init__(self) -> None:
        self._members = StrategyPods([], [])
        self._own: list[tuple[int, CPUBurstStrategy]] = []
        self._base_us = np.empty(0, np.int64)
        self._quota_us = np.empty(0, np.int64)
        self._tokens = np.empty(0, np.int64)
        self._capacity = np.empty(0, np.int64)
        self._at_seconds = np.empty(0, np.float64)
        self._ratios: deque[Floats] = deque(maxlen=_WINDOW_ROUNDS)

    def set_pods(self, pods: StrategyPods, now: float) -> None:
        """Replaces the pods; those of the same UID keep their quota and their tokens."""
        before = pods.rows_before(self._members)
        old = before >= 0

        def kept(column: Ints, fresh: Ints) -> Ints:
            return np.where(old, column[before], fresh) if len(column) else fresh

        self._base_us = base = pods.columns["limit_milli"] * _US_PER_MILLI
        none = np.full(len(pods), _NO_BUCKET, np.int64)
        self._quota_us = np.maximum(kept(self._quota_us, base), base)
        self._tokens = kept(self._tokens, none)
        self._capacity = kept(self._capacity, none)
        times = np.full(len(pods), now)
        if len(self._at_seconds):
            times = np.where(old, self._at_seconds[before], times)
        self._at_seconds = times
        self._members = pods
        self._own = [
            (row, each.burst) for row, each in enumerate(pods.pods) if each.burst is not None
        ]

    def step(
        self, reading: UsageReading, processors: Ints, slos: ColumnTable[SLORow], now: float
    ) -> None:
        """One round."""
        columns, node = self._members.columns, self._members.node
        ratio = decision.pool_ratios(
            reading.node_cpu, processors, node, reading.pod_cpu, columns["request_milli"],
            columns["pinned"].astype(bool), columns["labelled"].astype(bool),
        )  # fmt: skip
        self._ratios.append(ratio)
        states = decision.node_states(np.mean(self._ratios, axis=0), slos["pool_percent"])
        raises, percent, period = self._settings(slos)
        base, limited = self._base_us, self._base_us > 0
        operation = decision.operations(
            raises,
            self._permitted(reading, percent, period, limited, now),
            reading.pod_throttled,
            states[node],
        )
        target = decision.quota_targets(operation, base, self._quota_us, percent)
        self._quota_us = np.where(limited, target, 0)

    @property
    def any_raised(self) -> bool:
        """Whether a quota is above its pod's limit."""
        return bool((self._quota_us > self._base_us).any())

    def reset(self) -> None:
        """Takes every quota back to its pod's limit."""
        self._quota_us = self._base_us

    def factors(self) -> Floats:
        """How far the limit of each pod is raised; 1 is not at all."""
        base = self._base_us
        found: Floats = np.where(base > 0, self._quota_us / np.maximum(base, 1), 1.0)
        return found

    def _settings(self, slos: ColumnTable[SLORow]) -> tuple[Bools, Ints, Ints]:
        """The machine's settings overlaid by the pod's own, which few have."""
        node = self._members.node
        raises = slos["raises"][node].astype(bool)
        percent, period = slos["raise_percent"][node], slos["raise_seconds"][node]
        for row, own in self._own:
            if own.policy:
                raises[row] = own.policy in RAISES
            if own.cfs_quota_burst_percent is not None:
                percent[row] = own.cfs_quota_burst_percent
            if own.cfs_quota_burst_period_seconds is not None:
                period[row] = own.cfs_quota_burst_period_seconds
        return raises & slos["known"][node].astype(bool), percent, period

    def _permitted(
        self, reading: UsageReading, percent: Ints, period: Ints, limited: Bools, now: float
    ) -> Bools:
        """Whether each pod may have more than its limit now; every use is accounted for."""
        bucket = limited & (period > FOREVER) & (percent >= 100)
        capacity = np.where(bucket, decision.capacities(period, percent), 0)
        fresh = bucket & (self._capacity != capacity)
        self._tokens = np.where(fresh, decision.first_tokens(capacity), self._tokens)
        self._at_seconds = np.where(fresh, now, self._at_seconds)
        self._capacity = np.where(bucket, capacity, _NO_BUCKET)
        seconds = np.trunc(now - self._at_seconds).astype(np.int64)
        limit = np.where(limited, self._members.columns["limit_milli"], 1)
        used = decision.usage_percents(reading.pod_cpu, limit)
        tokens = np.where(bucket, self._tokens, 0)
        after = decision.tokens_after(tokens, capacity, used, np.where(bucket, seconds, 0))
        self._tokens = np.where(bucket, after, _NO_BUCKET)
        self._at_seconds = self._at_seconds + np.where(bucket, seconds, 0)
        return np.where(bucket, after > 0, period <= FOREVER)
