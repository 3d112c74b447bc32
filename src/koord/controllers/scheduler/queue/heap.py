# SPDX-License-Identifier: Apache-2.0
"""A heap of pods from which any pod can be taken out."""

from __future__ import annotations

import heapq
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from koord.controllers.scheduler.queue.queued import QueuedPod

_FEW = 64


class PodHeap:
    """Pods by a key, then by arrival. A pod may be in one such heap at a time.

    A key is a tuple of as many parts as all other keys of the heap; it lies flat in its entry,
    which makes comparing entries twice as fast.

    What is taken out from the middle stays behind as a dead entry until it comes up, or until more
    than half are dead.
    """

    __slots__ = ("_entries", "_live")

    # Of all heaps, so that no entry of one pod ever looks like a later one.
    _stamps = count(1)

    def __init__(self) -> None:
        self._entries: list[tuple[Any, ...]] = []
        self._live = 0

    def __len__(self) -> int:
        return self._live

    def push(self, key: tuple[Any, ...], pod: QueuedPod) -> None:
        """Adds a pod that is in no heap."""
        pod.stamp = stamp = next(self._stamps)
        heapq.heappush(self._entries, (*key, pod.arrival, stamp, pod))
        self._live += 1

    def pop(self) -> QueuedPod | None:
        """Takes the first pod out; None if there is none."""
        entries = self._entries
        while entries:
            entry = heapq.heappop(entries)
            pod: QueuedPod = entry[-1]
            if pod.stamp == entry[-2]:
                pod.stamp = 0
                self._live -= 1
                return pod
        return None

    def first(self) -> float | None:
        """The first part of the key of the first pod; None if there is none."""
        entries = self._entries
        while entries:
            entry = entries[0]
            if entry[-1].stamp == entry[-2]:
                first: float = entry[0]
                return first
            heapq.heappop(entries)
        return None

    def remove(self, pod: QueuedPod) -> None:
        """Takes a pod out that is in this heap."""
        pod.stamp = 0
        self._live -= 1
        if len(self._entries) > 2 * self._live + _FEW:
            self._entries = [entry for entry in self._entries if entry[-1].stamp == entry[-2]]
            heapq.heapify(self._entries)

    def in_order(self) -> list[QueuedPod]:
        """All pods, first to last."""
        return [entry[-1] for entry in sorted(self._entries) if entry[-1].stamp == entry[-2]]
