# SPDX-License-Identifier: Apache-2.0
"""Pages not touched for long, where the kernel tells.

Rule: docs/reference/measuring.md#cold-pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from koord.agent.executor.claim import Claim
from koord.agent.host.kernel.features import Feature
from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.collectors.host_applications import directories
from koord.agent.metrics.collectors.page_cache import not_free_bytes
from koord.agent.metrics.collectors.pods import file_pages, unreclaimable
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Samples
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from koord.agent.metrics.options import MetricsOptions

_FILE = "memory.idle_page_stats"
_ROOT = ""


class ColdPagesCollector(Collector):
    """Bytes idle for long, and what is in use without them.

    The scan itself is switched on by :data:`SCAN`, which whoever runs collectors states to the
    executor while this one is on: nobody else writes.
    """

    name = "cold-pages"
    gate = "ColdPageCollector"
    needs = frozenset({Feature.COLD_PAGES})

    def __init__(self, settings: MetricsOptions) -> None:
        self.interval_seconds = settings.cold_pages

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; raises KoordError where the node's figures cannot be read."""
        samples = Samples(now.now_ms)
        root = now.groups.read_others([_ROOT], [_FILE])[_FILE]
        if root.error[0]:
            raise KoordError(_FILE, "", root.messages[0], "cold pages of the node")
        cold = int(root["value"][0])
        hot = max(0, not_free_bytes(now) - cold)
        samples.one(MetricKind.NODE_MEMORY_COLD_PAGE_SIZE, cold)
        samples.one(MetricKind.NODE_MEMORY_WITH_HOT_PAGE_USAGE, hot)
        if now.knows_pods:
            _groups(now, samples)
        _applications(now, samples)
        return samples


def _groups(now: CollectionRound, samples: Samples) -> None:
    idle, stat = now.read_cgroups(_FILE), now.read_cgroups("memory.stat")
    rows, good = idle.rows, idle.good & stat.good
    cold = np.where(good, idle.column(), np.nan)
    hot = np.maximum(unreclaimable(stat) + file_pages(stat) - cold, 0.0)
    for values, pod_kind, container_kind in (
        (cold, MetricKind.POD_MEMORY_COLD_PAGE_SIZE, MetricKind.CONTAINER_MEMORY_COLD_PAGE_SIZE),
        (
            hot,
            MetricKind.POD_MEMORY_WITH_HOT_PAGE_USAGE,
            MetricKind.CONTAINER_MEMORY_WITH_HOT_PAGE_USAGE,
        ),
    ):
        pods, containers = rows.split(values)
        samples.add(pod_kind, rows.pod_keys, pods)
        samples.add(container_kind, rows.container_keys, containers)


def _applications(now: CollectionRound, samples: Samples) -> None:
    slo = now.snapshot.slo.value
    found = directories(slo.host_applications, now.machine.layout.driver) if slo else {}
    if not found:
        return
    files = [_FILE, "memory.usage_in_bytes"]
    idle, used = now.groups.read_others(list(found.values()), files).values()
    cold = np.where((idle.error == 0) & (used.error == 0), idle["value"], np.nan)
    keys = tuple((name,) for name in found)
    samples.add(MetricKind.HOST_APPLICATION_MEMORY_COLD_PAGE_SIZE, keys, cold)
    hot = np.maximum(used["value"] - cold, 0.0)
    samples.add(MetricKind.HOST_APPLICATION_MEMORY_WITH_HOT_PAGE_USAGE, keys, hot)


_WHY = "cold pages are collected"
SCAN = (
    Claim("scan_period_in_seconds", "", 5, _WHY),
    Claim("use_hierarchy", "", 1, _WHY),
)
"""Settings of the kernel's scan for idle pages."""
