# SPDX-License-Identifier: Apache-2.0
"""Which series of memory a report tells, by ``nodeMemoryCollectPolicy``.

Rule: docs/reference/reports.md#memory-by-policy: one for the node, its pods and host applications,
for what is subtracted from each other must count the same pages.
"""

from __future__ import annotations

from typing import NamedTuple

from koord.agent.metrics.metric_kinds import MetricKind
from koord.api.kinds.nodemetric import WITH_HOT_PAGES, WITH_PAGE_CACHE


class MemoryKinds(NamedTuple):
    """The series of memory in use, by whose it is."""

    node: MetricKind
    pod: MetricKind
    container: MetricKind
    application: MetricKind


_PLAIN = MemoryKinds(
    MetricKind.NODE_MEMORY_USAGE,
    MetricKind.POD_MEMORY_USAGE,
    MetricKind.CONTAINER_MEMORY_USAGE,
    MetricKind.HOST_APPLICATION_MEMORY_USAGE,
)
_PAGE_CACHE = MemoryKinds(
    MetricKind.NODE_MEMORY_USAGE_WITH_PAGE_CACHE,
    MetricKind.POD_MEMORY_USAGE_WITH_PAGE_CACHE,
    MetricKind.CONTAINER_MEMORY_USAGE_WITH_PAGE_CACHE,
    MetricKind.HOST_APPLICATION_MEMORY_USAGE_WITH_PAGE_CACHE,
)
_HOT_PAGES = MemoryKinds(
    MetricKind.NODE_MEMORY_WITH_HOT_PAGE_USAGE,
    MetricKind.POD_MEMORY_WITH_HOT_PAGE_USAGE,
    MetricKind.CONTAINER_MEMORY_WITH_HOT_PAGE_USAGE,
    MetricKind.HOST_APPLICATION_MEMORY_WITH_HOT_PAGE_USAGE,
)


def memory_kinds(policy: str | None, cold_pages: bool) -> MemoryKinds:
    """The series that a policy names; without the page cache for one that is not known.

    Args:
        policy: of the NodeMetric's spec.
        cold_pages: whether pages are told apart by how long they were not touched; else there are
            no hot ones.
    """
    if policy == WITH_PAGE_CACHE:
        return _PAGE_CACHE
    if policy == WITH_HOT_PAGES and cold_pages:
        return _HOT_PAGES
    return _PLAIN
