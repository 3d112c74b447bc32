# SPDX-License-Identifier: Apache-2.0
"""The heap of pods against a sorted list; enough pods that parts of it get sorted."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.controllers.scheduler.queue.heap import PodHeap
from koord.controllers.scheduler.queue.queued_pod import QueuedPod
from tests.controllers.scheduler.queue.pods import Info

# How many pods come with which keys, how many are popped, which are taken out.
rounds = st.tuples(st.integers(0, 150), st.integers(1, 7), st.integers(0, 150), st.integers(2, 9))


@given(st.lists(rounds, max_size=6))
def test_pods_come_out_in_order(done: list[tuple[int, int, int, int]]) -> None:
    heap, model, number = PodHeap(), list[tuple[int, int, QueuedPod]](), 0
    for come, step, pop, every in done:
        for _ in range(come):
            pod = QueuedPod(Info(str(number)), "", number, 0.0)
            key = number * step % 11
            heap.push((key,), pod)
            model.append((key, number, pod))
            number += 1
        for entry in model[::every]:
            heap.remove(entry[2])
            model.remove(entry)
        model.sort()
        assert heap.first() == (model[0][0] if model else None)
        for _ in range(pop):
            first = model.pop(0)[2] if model else None
            assert heap.pop() is first
        assert len(heap) == len(model)
        assert heap.kept <= 2 * len(heap) + 65
    assert heap.in_order() == [pod for _, _, pod in sorted(model)]
