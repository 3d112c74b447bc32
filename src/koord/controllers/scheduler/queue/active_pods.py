# SPDX-License-Identifier: Apache-2.0
"""The active pods: those of usual size in their order, and oversized ones between.

Rule: docs/reference/scheduling.md#oversized-pods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.queue.fair_pods import FairPods
from koord.controllers.scheduler.queue.heap import PodHeap

if TYPE_CHECKING:
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod


class ActivePods:
    """Two heaps of one order; an oversized pod is popped after as many others as were active.

    The others are counted at the first pop that finds an oversized pod first of its kind, and not
    when that came: a list may bring it before all others. Pods that come later do not push it back.

    Args:
        fair: whether namespaces take turns among equal priorities.
    """

    __slots__ = ("_before", "_number", "_oversized", "_usual")

    def __init__(self, fair: bool = False) -> None:
        self._usual: PodHeap | FairPods = FairPods() if fair else PodHeap()
        self._oversized: PodHeap | FairPods = FairPods() if fair else PodHeap()
        # How many others are still to be popped before the next oversized one; None: not known yet.
        self._before: int | None = None
        # Of the oversized: asked at every pop.
        self._number = 0

    def __len__(self) -> int:
        return len(self._usual) + len(self._oversized)

    @property
    def kept(self) -> int:
        """How many entries there are, dead ones included."""
        return self._usual.kept + self._oversized.kept

    def push(self, key: tuple[Any, ...], pod: QueuedPod) -> None:
        """Adds a pod that is in no heap."""
        if not pod.oversized:
            self._usual.push(key, pod)
            return
        self._oversized.push(key, pod)
        self._number += 1

    @property
    def oversized(self) -> int:
        """How many oversized pods there are."""
        return self._number

    def pop(self, oversized: bool = True) -> QueuedPod | None:
        """Takes out the next pod, of usual size if so asked; None if there is none."""
        if not self._number:
            return self._usual.pop()
        if self._before is None:
            self._before = len(self._usual)
        if self._before > 0 and self._usual:
            self._before -= 1
            return self._usual.pop()
        if not oversized:
            return self._usual.pop()
        self._before = None
        self._number -= 1
        return self._oversized.pop()

    def remove(self, pod: QueuedPod) -> None:
        """Takes a pod out that is here."""
        if not pod.oversized:
            self._usual.remove(pod)
            return
        self._oversized.remove(pod)
        self._number -= 1
        if not self._number:
            self._before = None

    def in_order(self) -> list[QueuedPod]:
        """All pods: the usual ones first to last, then the oversized ones."""
        return self._usual.in_order() + self._oversized.in_order()
