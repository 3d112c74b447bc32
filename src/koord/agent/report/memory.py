# SPDX-License-Identifier: Apache-2.0
"""Which series of memory a report tells, by ``nodeMemoryCollectPolicy``.

Rule: docs/reference/reports.md#memory-by-policy: one for the node, its pods and host applications,
for what is subtracted from each other must count the same pages.
"""

from __future__ import annotations

from typing import NamedTuple

from koord.agent.metrics.kinds import Kind
from koord.api.kinds.nodemetric import WITH_HOT_PAGES, WITH_PAGE_CACHE


class MemoryKinds(NamedTuple):
    """The series of memory in use, by whose it is."""

    node: Kind
    pod: Kind
    container: Kind
    application: Kind


_PLAIN = MemoryKinds(
    Kind.NODE_MEMORY_USAGE,
    Kind.POD_MEMORY_USAGE,
    Kind.CONTAINER_MEMORY_USAGE,
    Kind.HOST_APPLICATION_MEMORY_USAGE,
)
_PAGE_CACHE = MemoryKinds(
    Kind.NODE_MEMORY_USAGE_WITH_PAGE_CACHE,
    Kind.POD_MEMORY_USAGE_WITH_PAGE_CACHE,
    Kind.CONTAINER_MEMORY_USAGE_WITH_PAGE_CACHE,
    Kind.HOST_APPLICATION_MEMORY_USAGE_WITH_PAGE_CACHE,
)
_HOT_PAGES = MemoryKinds(
    Kind.NODE_MEMORY_WITH_HOT_PAGE_USAGE,
    Kind.POD_MEMORY_WITH_HOT_PAGE_USAGE,
    Kind.CONTAINER_MEMORY_WITH_HOT_PAGE_USAGE,
    Kind.HOST_APPLICATION_MEMORY_WITH_HOT_PAGE_USAGE,
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
