# SPDX-License-Identifier: Apache-2.0
"""Protection, throttling and page cache of cgroups: columns in, columns out, bytes.

A row is a pod or a container. :data:`UNSET` is "not configured" in settings and "not to be written"
in results; no number that somebody may configure is meant by it.
Rule: docs/reference/strategies.md#protection-and-throttling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ints = NDArray[np.int64]

UNSET = int(np.iinfo(np.int64).min)
NO_LIMIT = np.iinfo(np.int64).max
"""memory.high of a group that is never throttled; the kernel takes it for ``max``."""


def protections(request_bytes: Ints, min_percent: Ints, low_percent: Ints) -> tuple[Ints, Ints]:
    """memory.min and memory.low; low is raised to min unless it is 0."""
    least = _share(request_bytes, min_percent)
    low = _share(request_bytes, low_percent)
    return least, np.where((low > 0) & (low < least), least, low)


def throttles(
    request_bytes: Ints,
    limit_bytes: Ints,
    node_bytes: Ints,
    percent: Ints,
    min_bytes: Ints,
    page_bytes: int,
) -> Ints:
    """memory.high: between the request and the limit, in whole pages, at least memory.min.

    Args:
        request_bytes: of the container.
        limit_bytes: of the container; 0 or less is none.
        node_bytes: allocatable memory of its node, which counts where there is no limit.
        percent: how far from the request to the limit; 0 never throttles.
        min_bytes: its memory.min, or :data:`UNSET`.
        page_bytes: size of a page.
    """
    configured, percent = percent != UNSET, np.where(percent == UNSET, 0, percent)
    end = np.where(limit_bytes > 0, limit_bytes, node_bytes)
    # Truncated towards zero also where a request is above the node's memory.
    span = (end - request_bytes) * percent
    part = np.sign(span) * (np.abs(span) // 100)
    high = (request_bytes + part) // page_bytes * page_bytes
    high = np.where((high > 0) & (high < min_bytes), min_bytes, high)
    high = np.where(percent == 0, NO_LIMIT, high)
    return np.where(configured, high, UNSET)


def class_sums(group: Ints, values: Ints, groups: int) -> Ints:
    """Sums of memory.min or memory.low over the pods of a directory; unset where no pod sets it.

    Args:
        group: row of the directory that a pod lies in.
        values: bytes a pod, or :data:`UNSET`.
        groups: number of directories.
    """
    total = np.zeros(groups, np.int64)
    # Not through bincount, whose sums are floats.
    np.add.at(total, group[values != UNSET], values[values != UNSET])
    counted = np.bincount(group[values != UNSET], minlength=groups)[:groups]
    return np.where(counted > 0, total, UNSET)


def page_caches(limit_bytes: Ints, size_bytes: Ints, percent: Ints) -> Ints:
    """Limit of a pod's page cache; 0 switches it off, :data:`UNSET` leaves its files alone.

    Args:
        limit_bytes: memory limit of the pod, 0 or less for none.
        size_bytes: configured size, which goes before the percentage.
        percent: configured share of the limit; of no limit there is none.
    """
    limited = limit_bytes > 0
    by_size = np.where(limited, np.minimum(size_bytes, limit_bytes), size_bytes)
    by_percent = np.where(limited, _share(limit_bytes, percent), UNSET)
    size = np.where(size_bytes != UNSET, by_size, by_percent)
    nothing = (size_bytes == UNSET) & (by_percent == UNSET)
    return np.where(nothing, UNSET, np.maximum(size, 0))


def _share(of_bytes: Ints, percent: Ints) -> Ints:
    configured = percent != UNSET
    return np.where(configured, of_bytes * np.where(configured, percent, 0) // 100, UNSET)
