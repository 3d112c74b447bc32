# SPDX-License-Identifier: Apache-2.0
"""Applications of the host that have a QoS class.

Rule: docs/reference/measuring.md#host-applications.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.metrics.collector import CollectionRound, Collector, MeasuredUsage
from koord.agent.metrics.counter_rates import CounterRates
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Keys, Samples
from koord.agent.states.snapshot import Timestamped
from koord.api.kinds.nodemetric import WITH_PAGE_CACHE
from koord.kernels.cgroup_path import HostPath, host_application_directory

if TYPE_CHECKING:
    from koord.agent.metrics.options import MetricsOptions
    from koord.api.kinds.slo_strategies import HostApplication
    from koord.kernels.cgroup_path import Driver

_NS = 1e-9
_FILES = ["cpuacct.usage", "memory.stat", "memory.usage_in_bytes"]


class HostApplicationsCollector(Collector):
    """CPU and memory of those that the NodeSLO names; one that cannot be read has no sample."""

    name = "host-applications"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.used
        self._rates = CounterRates(settings.used)
        self._of: object = None
        self._keys: Keys = ()
        self._directories: list[str] = []

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; without a NodeSLO nobody knows which there are, so nothing is told."""
        samples = Samples(now.now_ms)
        slo = now.snapshot.slo.value
        if slo is None:
            return samples
        if slo.host_applications is not self._of:
            self._of = slo.host_applications
            found = directories(slo.host_applications, now.machine.layout.driver)
            self._keys = tuple((name,) for name in found)
            self._directories = list(found.values())
            if not found:
                self._rates = CounterRates(self.interval_seconds)
        now.shared_readings.host_applications = Timestamped(
            self._measure(now, samples), now.now_seconds
        )
        return samples

    def _measure(self, now: CollectionRound, samples: Samples) -> MeasuredUsage:
        if not self._directories:
            return MeasuredUsage(0.0, 0.0)
        at_seconds = now.clock.monotonic_seconds()
        usage, stat, charged = now.groups.read_others(self._directories, _FILES).values()
        good = (usage.error == 0) & (stat.error == 0) & (charged.error == 0)
        change = self._rates.advance(self._keys, usage["value"], good, at_seconds)
        cpu = change.per_second() * _NS
        plain = stat["inactive_anon"] + stat["active_anon"] + stat["unevictable"]
        used = np.where(good, plain, np.nan)
        cached = np.where(good, charged["value"], np.nan)
        samples.add(MetricKind.HOST_APPLICATION_CPU_USAGE, self._keys, cpu)
        samples.add(MetricKind.HOST_APPLICATION_MEMORY_USAGE, self._keys, used)
        samples.add(MetricKind.HOST_APPLICATION_MEMORY_USAGE_WITH_PAGE_CACHE, self._keys, cached)
        counted = cached if _counts_page_cache(now) else used
        return MeasuredUsage(float(np.nansum(cpu)), float(np.nansum(counted)))


def directories(applications: list[HostApplication], driver: Driver) -> dict[str, str]:
    """The cgroup of each application by name; one whose path leads nowhere is left out."""
    found = {}
    for application in applications:
        path = application.cgroup_path
        where = HostPath(path.base, path.parent_dir, path.relative_path) if path else None
        try:
            directory = host_application_directory(driver, application.name, application.qos, where)
        except ValueError:
            continue
        found[application.name] = directory.strip("/")
    return found


def _counts_page_cache(now: CollectionRound) -> bool:
    spec = now.snapshot.metric_spec.value
    policy = spec.metric_collect_policy if spec else None
    return policy is not None and policy.node_memory_collect_policy == WITH_PAGE_CACHE
