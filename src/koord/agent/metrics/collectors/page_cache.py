# SPDX-License-Identifier: Apache-2.0
"""Memory with the page cache. Rule: docs/reference/measuring.md#page-cache."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.host.procfs import meminfo
from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.collectors.node import meminfo_of
from koord.agent.metrics.collectors.pods import file_pages, unreclaimable
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples

if TYPE_CHECKING:
    from koord.agent.metrics.options import MetricsOptions


class PageCacheCollector(Collector):
    """What is not free on the node; of pods and containers, used memory and file pages."""

    name = "page-cache"

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.used

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; raises KoordError where the node's memory cannot be read."""
        samples = Samples(now.now_ms)
        samples.one(MetricKind.NODE_MEMORY_USAGE_WITH_PAGE_CACHE, not_free_bytes(now))
        if not now.knows_pods:
            return samples
        stat = now.read_cgroups("memory.stat")
        good = stat.rows.with_pods(stat.good)
        used = np.where(good, unreclaimable(stat) + file_pages(stat), np.nan)
        pods, containers = stat.rows.split(used)
        samples.add(MetricKind.POD_MEMORY_USAGE_WITH_PAGE_CACHE, stat.rows.pod_keys, pods)
        keys = stat.rows.container_keys
        samples.add(MetricKind.CONTAINER_MEMORY_USAGE_WITH_PAGE_CACHE, keys, containers)
        return samples


def not_free_bytes(now: CollectionRound) -> int:
    """MemTotal - MemFree; raises KoordError."""
    memory, path = meminfo_of(now), f"{now.machine.roots.proc}/meminfo"
    return meminfo.require(memory, "MemTotal", path) - meminfo.require(memory, "MemFree", path)
