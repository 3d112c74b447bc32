# SPDX-License-Identifier: Apache-2.0
"""Which CPUs best-effort pods get: spread over NUMA nodes, whole cores first, always the same.

Rule: docs/reference/strategies.md#picking.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class CPULocation(NamedTuple):
    """A logical CPU and where it sits."""

    cpu: int
    core: int
    socket: int
    node: int


Bucket = list[CPULocation]


def pick(places: Iterable[CPULocation], count: int) -> list[int]:
    """CPUs by number in the order of picking; empty where there are fewer than asked for.

    Pairs of one core are taken round-robin from buckets, one a (NUMA node, socket), the largest
    first; then single CPUs, from the bucket after the last pair on.
    """
    buckets = _buckets(places)
    if count <= 0 or sum(map(len, buckets)) < count:
        return []
    picked: list[int] = []
    at = _rounds(buckets, 0, picked, count, _pair)
    _rounds(buckets, at, picked, count, _single)
    return picked


def _buckets(places: Iterable[CPULocation]) -> list[Bucket]:
    found: dict[tuple[int, int], Bucket] = {}
    for place in places:
        found.setdefault((place.node, place.socket), []).append(place)
    for bucket in found.values():
        bucket.sort(key=lambda place: (place.core, place.cpu))
    return sorted(found.values(), key=lambda bucket: (-len(bucket), bucket[0].cpu))


def _rounds(
    buckets: list[Bucket],
    start: int,
    picked: list[int],
    count: int,
    take: Callable[[Bucket], int],
) -> int:
    """Visits buckets until enough is picked or a whole round found nothing; the next bucket."""
    at, least = start, 2 if take is _pair else 1
    before = -1
    while count - len(picked) >= least:
        if at == start:
            if len(picked) == before:
                break
            before = len(picked)
        bucket = buckets[at]
        first = take(bucket)
        if first >= 0:
            picked += [place.cpu for place in bucket[first : first + least]]
            # What is taken leaves its bucket, so that the rest stays in order.
            del bucket[first : first + least]
        at = (at + 1) % len(buckets)
    return at


def _pair(bucket: Bucket) -> int:
    cores = [place.core for place in bucket]
    return next((at for at in range(len(cores) - 1) if cores[at] == cores[at + 1]), -1)


def _single(bucket: Bucket) -> int:
    return 0 if bucket else -1
