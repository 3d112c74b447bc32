# SPDX-License-Identifier: Apache-2.0
"""How often pods and containers ran into their CPU limit.

Rule: docs/reference/measuring.md#throttling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.counter_rates import CounterRates
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples

if TYPE_CHECKING:
    from koord.agent.metrics.options import MetricsOptions


class ThrottlingCollector(Collector):
    """Throttled periods over periods since the round before; 0 where no period passed."""

    name = "throttling"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.used
        self._periods, self._throttled = CounterRates(settings.used), CounterRates(settings.used)

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; a cgroup that cannot be read has no sample."""
        samples = Samples(now.now_ms)
        if not now.knows_pods:
            return samples
        stat = now.read_cgroups("cpu.stat")
        keys, at = stat.rows.all_keys, stat.at_seconds
        periods = self._periods.advance(keys, stat.column("nr_periods"), stat.good, at)
        throttled = self._throttled.advance(keys, stat.column("nr_throttled"), stat.good, at)
        ratio = throttled.amount / np.maximum(periods.amount, 1)
        ratio[periods.amount == 0] = 0.0
        ratio[np.isnan(periods.seconds) | np.isnan(throttled.seconds)] = np.nan
        pods, containers = stat.rows.split(ratio)
        samples.add(MetricKind.POD_CPU_THROTTLED, stat.rows.pod_keys, pods)
        samples.add(MetricKind.CONTAINER_CPU_THROTTLED, stat.rows.container_keys, containers)
        return samples
