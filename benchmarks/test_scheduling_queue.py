# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import heapq

from benchmarks.conftest import Gate
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    HintedEvent,
)
from tests.controllers.scheduler.queue.pods import PROFILE, Bench, Info
from tests.models.scheduling_queue import PlainQueue

PODS = [Info(str(number), number % 3, number % 10) for number in range(2000)]


def _never(info: object, old: object, new: object) -> bool:
    return False


HINTS = {
    "Fit": [HintedEvent(ASSIGNED_POD_DELETE, _never, per_shape=True)],
    "Affinity": [HintedEvent(ASSIGNED_POD_ADD, _never)],
}


def test_add_and_pop(gate: Gate) -> None:
    def ours() -> None:
        queue = Bench().queue
        for pod in PODS:
            queue.add(pod, PROFILE)
        for _ in PODS:
            queue.pop()

    def heap_and_dict() -> None:
        heap: list[tuple[int, int, Info]] = []
        known = {}
        for number, pod in enumerate(PODS):
            known[pod.uid] = pod
            heapq.heappush(heap, (-pod.priority, number, pod))
        while heap:
            del known[heapq.heappop(heap)[-1].uid]

    gate("scheduling queue: add and pop, beside a bare heap", ours, heap_and_dict, 0.08)


def test_events(gate: Gate) -> None:
    """2,000 unschedulable pods of one plugin; events that it has not, and has, registered."""
    bench, plain = Bench(HINTS), PlainQueue({}, HINTS)
    for pod in PODS:
        bench.queue.add(pod, PROFILE)
        plain.add(pod)
    while (queued := bench.queue.pop()) is not None:
        bench.queue.put_back(queued, ["Fit"])
    for waiting in plain.pods:
        waiting.place, waiting.unschedulable = "unschedulable", frozenset({"Fit"})

    def ours() -> None:
        for event in (ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, NODE_ADD):
            bench.queue.move_on_event(event)

    def walked() -> None:
        for event in (ASSIGNED_POD_ADD, ASSIGNED_POD_DELETE, NODE_ADD):
            plain.happened(event, None)
        plain.log.clear()

    gate("scheduling queue: events with 2,000 unschedulable pods", ours, walked, 50.0)
    assert bench.queue.pending()["unschedulable"] == len(PODS)
