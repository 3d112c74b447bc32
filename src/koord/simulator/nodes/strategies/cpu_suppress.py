# SPDX-License-Identifier: Apache-2.0
"""CPU suppression of all machines at once, by the agent's decision; what it remembers is columns.

A machine without a NodeSLO limits nothing. One whose NodeSLO is disabled, or is gone, gets back
what its best-effort pods may have unsuppressed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.strategies.cpusuppress import decision
from koord.simulator.nodes.strategies.column_table import ColumnTable
from koord.simulator.nodes.strategies.node_rows import HostCPUs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.simulator.nodes.agents.usage_model import UsageReading
    from koord.simulator.nodes.strategies.column_table import Bools, Floats, Ints
    from koord.simulator.nodes.strategies.node_rows import NodeRow
    from koord.simulator.nodes.strategies.pod_rows import StrategyPods
    from koord.simulator.nodes.strategies.slo_rows import SLORow

_NO_HOST = (np.empty(0, np.int64), np.empty(0, np.float64), np.empty(0, np.bool_))


class Suppression:
    """What the best-effort tier of each machine has.

    Args:
        cpus: of each machine.
        enabled: whether suppression runs at all; else the tier is only given back.

    Attributes:
        cpus: whose the CPUs are; kept up to date by the owner.
        quota_us: of the tier; ``decision.UNSET`` for none.
        count: CPUs of the tier.
        allowed_milli: what was decided last; ``decision.UNKNOWN`` where nothing was.
        service_cores, be_cores: usage that it was decided upon.
    """

    def __init__(self, cpus: Sequence[HostCPUs], *, enabled: bool) -> None:
        self.cpus = ColumnTable(HostCPUs._fields, cpus)
        self._enabled = enabled
        rows = len(cpus)
        self._before_milli = np.full(rows, decision.UNKNOWN, np.int64)
        self.quota_us = np.full(rows, decision.UNSET, np.int64)
        self.count = self.cpus["best_effort"].copy()
        self.allowed_milli = self._before_milli.copy()
        self.service_cores = np.zeros(rows)
        self.be_cores = np.zeros(rows)

    def step(
        self,
        reading: UsageReading,
        pods: StrategyPods,
        nodes: ColumnTable[NodeRow],
        slos: ColumnTable[SLORow],
    ) -> None:
        """One round."""
        on = (slos["known"] & slos["enabled"]).astype(bool) & self._enabled
        self._recover(~on)
        pod_counts = np.bincount(pods.node, minlength=len(nodes))[: len(nodes)]
        # Without pods, or a Node, what was decided last stays.
        acting = on & (pod_counts > 0) & (nodes["cpu_milli"] > 0)
        acting &= slos["suppress_percent"] != decision.UNSET
        if not acting.any():
            return
        found = decision.allowed(_usage(reading, pods), _bounds(nodes, slos))
        milli = decision.smoothed(found.milli, self._before_milli)
        self._before_milli[acting] = found.milli[acting]
        self.allowed_milli[acting] = milli[acting]
        self.service_cores[acting] = found.service_cores[acting]
        self.be_cores[acting] = found.be_cores[acting]
        by_quota = slos["by_quota"].astype(bool)
        self._by_quota(acting & by_quota, milli, nodes["cpu_milli"])
        self._by_cpus(acting & ~by_quota, milli)

    def tier_cores(self, known: Ints) -> Floats:
        """The most CPU that the tier of each machine gets; no limit where nothing is known."""
        quota = np.where(
            self.quota_us == decision.UNSET, np.inf, self.quota_us / decision.PERIOD_US
        )
        return np.where(known.astype(bool), np.minimum(self.count, quota), np.inf)

    def limit_milli(self) -> Floats:
        """Milli-cores that the tier of each machine may use, as the agent measures it."""
        by_quota = self.quota_us * 1000 // decision.PERIOD_US
        count = 1000 * self.count
        limit = np.where(self.quota_us == decision.UNSET, count, np.minimum(count, by_quota))
        return limit.astype(np.float64)

    def forget(self, row: int) -> None:
        """Gives back what one machine's tier has."""
        self._recover(np.arange(len(self.count)) == row)

    def _recover(self, rows: Bools) -> None:
        self._before_milli[rows] = decision.UNKNOWN
        self.allowed_milli[rows] = decision.UNKNOWN
        self.quota_us[rows] = decision.UNSET
        self.count[rows] = self.cpus["best_effort"][rows]

    def _by_quota(self, rows: Bools, milli: Ints, capacity_milli: Ints) -> None:
        target, write = decision.quotas(milli, self.quota_us, capacity_milli)
        self.quota_us[rows & write] = target[rows & write]
        self.count[rows] = self.cpus["best_effort"][rows]

    def _by_cpus(self, rows: Bools, milli: Ints) -> None:
        self.quota_us[rows] = decision.UNSET
        cpus = self.cpus
        lsr, shared = decision.cpu_counts(
            milli, self.count, cpus["all"], cpus["lsr"], cpus["shared"]
        )
        some = rows & (lsr + shared > 0)
        self.count[some] = (lsr + shared)[some]


def _usage(reading: UsageReading, pods: StrategyPods) -> decision.UsageColumns:
    spared = pods.columns["spared"].astype(bool)
    return decision.UsageColumns(reading.node_cpu, pods.node, reading.pod_cpu, spared, *_NO_HOST)


def _bounds(nodes: ColumnTable[NodeRow], slos: ColumnTable[SLORow]) -> decision.SuppressBounds:
    return decision.SuppressBounds(
        nodes["cpu_milli"],
        nodes["reserved_milli"],
        slos["suppress_percent"],
        slos["suppress_least"],
    )
