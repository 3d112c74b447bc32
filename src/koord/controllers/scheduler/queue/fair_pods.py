# SPDX-License-Identifier: Apache-2.0
"""Pods whose namespaces take turns among equal priorities.

Rule: docs/reference/scheduling.md#turns-of-namespaces.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.queue.heap import PodHeap

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.controllers.scheduler.queue.queued_pod import QueuedPod


def namespace_of(pod: QueuedPod) -> str:
    """Whose pod it is."""
    namespace: str = pod.info.key.partition("/")[0]
    return namespace


class FairPods:
    """As :class:`~koord.controllers.scheduler.queue.heap.PodHeap`, but for who is next.

    That is a pod of the highest priority, of the namespace whose turn it is, by its key. A
    namespace that had its turn, or that has just come, waits for that of all others.
    """

    __slots__ = ("_levels", "_live", "_priorities")

    def __init__(self) -> None:
        # By priority the namespaces with pods, whose turn is next first. None of them is empty.
        self._levels: dict[int, OrderedDict[str, PodHeap]] = {}
        # Negative priorities, a heap; some may have no level any more.
        self._priorities: list[int] = []
        self._live = 0

    def __len__(self) -> int:
        return self._live

    @property
    def kept(self) -> int:
        """How many entries there are, dead ones included."""
        return sum(heap.kept for level in self._levels.values() for heap in level.values())

    def push(self, key: tuple[Any, ...], pod: QueuedPod) -> None:
        """Adds a pod that is in no heap."""
        priority, namespace = pod.info.priority, namespace_of(pod)
        level = self._levels.get(priority)
        if level is None:
            level = self._levels[priority] = OrderedDict()
            heapq.heappush(self._priorities, -priority)
        heap = level.get(namespace)
        if heap is None:
            heap = level[namespace] = PodHeap()
        heap.push(key, pod)
        self._live += 1

    def pop(self) -> QueuedPod | None:
        """Takes the next pod out; None if there is none."""
        level = self._highest()
        if level is None:
            return None
        namespace = next(iter(level))
        heap = level[namespace]
        pod = heap.pop()
        assert pod is not None, "an empty namespace has a turn"
        self._live -= 1
        if heap:
            level.move_to_end(namespace)
        else:
            self._leave(pod.info.priority, namespace)
        return pod

    def remove(self, pod: QueuedPod) -> None:
        """Takes a pod out that is here."""
        priority, namespace = pod.info.priority, namespace_of(pod)
        heap = self._levels[priority][namespace]
        heap.remove(pod)
        self._live -= 1
        if not heap:
            self._leave(priority, namespace)

    def in_order(self) -> list[QueuedPod]:
        """All pods, first to last, if none came and none went otherwise."""
        levels = (self._levels[priority] for priority in sorted(self._levels, reverse=True))
        return list(chain.from_iterable(map(_rounds, levels)))

    def _highest(self) -> OrderedDict[str, PodHeap] | None:
        priorities = self._priorities
        while priorities:
            level = self._levels.get(-priorities[0])
            if level is not None:
                return level
            heapq.heappop(priorities)
        return None

    def _leave(self, priority: int, namespace: str) -> None:
        """A namespace has no more pods of a priority."""
        level = self._levels[priority]
        del level[namespace]
        if not level:
            del self._levels[priority]
            if len(self._priorities) > 2 * len(self._levels) + 64:
                self._priorities = sorted(-each for each in self._levels)


def _rounds(level: OrderedDict[str, PodHeap]) -> Iterator[QueuedPod]:
    """The pods of a priority, one of each namespace a round."""
    for turn in zip_longest(*(heap.in_order() for heap in level.values())):
        yield from (pod for pod in turn if pod is not None)
