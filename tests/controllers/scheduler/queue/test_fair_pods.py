# SPDX-License-Identifier: Apache-2.0
"""Namespaces take turns among equal priorities.

Rule: docs/reference/scheduling.md#turns-of-namespaces.
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from koord.base.clock import VirtualClock
from koord.controllers.scheduler.queue.fair_pods import FairPods
from koord.controllers.scheduler.queue.heap import PodHeap
from koord.controllers.scheduler.queue.options import QueueOptions, QueueProfile
from koord.controllers.scheduler.queue.queued_pod import QueuedPod
from koord.controllers.scheduler.queue.scheduling_queue import SchedulingQueue
from tests.controllers.scheduler.queue.pods import PROFILE, Info


def queue(fair: bool = True) -> SchedulingQueue:
    return SchedulingQueue(
        VirtualClock(), {PROFILE: QueueProfile()}, options=QueueOptions(fair=fair)
    )


def popped(made: SchedulingQueue) -> list[str]:
    order = [pod.info.uid for pod in made.waiting()]
    found = []
    while (pod := made.pop()) is not None:
        found.append(pod.info.uid)
    assert order == found
    return found


def add(made: SchedulingQueue, names: str) -> None:
    """``a1`` is of namespace ``a``, ``A1`` too, and more important."""
    for name in names.split():
        info = Info(name, priority=int(name[0].isupper()), namespace=name[0].lower())
        made.add(info, PROFILE)


def test_the_example_of_the_page() -> None:
    pods = "a1 a2 a3 a4 b1 c1 b2 A5"
    for fair, order in ((True, "A5 a1 b1 c1 a2 b2 a3 a4"), (False, "A5 a1 a2 a3 a4 b1 c1 b2")):
        made = queue(fair)
        add(made, pods)
        assert " ".join(popped(made)) == order


def test_who_comes_waits_for_one_pod_of_each_other_namespace() -> None:
    made = queue()
    add(made, " ".join(f"a{number} b{number}" for number in range(1000)))
    add(made, "c1")
    assert popped(made).index("c1") == 2


def test_a_pod_that_is_put_back_stands_behind_its_own_alone() -> None:
    clock = VirtualClock()
    made = SchedulingQueue(clock, {PROFILE: QueueProfile()}, options=QueueOptions(fair=True))
    add(made, "a1 a2 b1")
    pod = made.pop()
    assert pod is not None
    clock.advance(1.0)
    made.put_back(pod)
    clock.advance(1.0)
    made.tick()
    # Of its namespace another waits longer.
    add(made, "a3")
    assert popped(made) == ["b1", "a2", "a1", "a3"]


def test_nothing_is_left_of_namespaces_and_priorities_that_went() -> None:
    pods = FairPods()
    for number in range(1000):
        pod = QueuedPod(Info(str(number), number, namespace=f"n{number}"), "", number, 0.0)
        pods.push((0,), pod)
        if number % 2:
            pods.remove(pod)
        else:
            assert pods.pop() is pod
    assert (len(pods), pods.kept, pods._levels) == (0, 0, {})
    assert len(pods._priorities) <= 65


class PlainFairPods:
    """Pods as they came; of each namespace and priority, since when it waits for its turn."""

    def __init__(self) -> None:
        self.pods: list[tuple[int, int, QueuedPod]] = []
        self.waits_since: dict[tuple[int, str], int] = {}
        self.now = 0

    @staticmethod
    def turn(pod: QueuedPod) -> tuple[int, str]:
        return pod.info.priority, pod.info.namespace

    def push(self, key: int, pod: QueuedPod) -> None:
        self.now += 1
        if all(self.turn(pod) != self.turn(other) for _, _, other in self.pods):
            self.waits_since[self.turn(pod)] = self.now
        self.pods.append((key, pod.arrival, pod))

    def remove(self, pod: QueuedPod) -> None:
        self.pods = [entry for entry in self.pods if entry[2] is not pod]

    def pop(self) -> QueuedPod | None:
        if not self.pods:
            return None
        self.now += 1
        highest = max(pod.info.priority for _, _, pod in self.pods)
        turns = {self.turn(pod) for _, _, pod in self.pods if pod.info.priority == highest}
        turn = min(turns, key=lambda each: self.waits_since[each])
        pod = min(entry for entry in self.pods if self.turn(entry[2]) == turn)[2]
        self.remove(pod)
        self.waits_since[turn] = self.now
        return pod


pods = st.tuples(st.integers(0, 3), st.integers(0, 2), st.sampled_from("abc"))
steps = st.lists(st.one_of(pods, st.sampled_from(["pop", "pop", "pop", "remove"])), max_size=60)


@given(steps, st.randoms(use_true_random=False))
def test_against_the_model(done: list[object], random: object) -> None:
    fair, model = FairPods(), PlainFairPods()
    for number, step in enumerate(done):
        if isinstance(step, tuple):
            key, priority, namespace = step
            pod = QueuedPod(Info(str(number), priority, namespace=namespace), "", number, 0.0)
            fair.push((key,), pod)
            model.push(key, pod)
        elif step == "pop":
            assert fair.pop() is model.pop()
        elif model.pods:
            chosen = random.choice(model.pods)[2]  # type: ignore[attr-defined]
            fair.remove(chosen)
            model.remove(chosen)
        assert len(fair) == len(model.pods)
    order = fair.in_order()
    assert order == [fair.pop() for _ in range(len(fair))]
    assert order == [model.pop() for _ in range(len(model.pods))]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-2, 2)), max_size=40))
def test_of_one_namespace_the_order_is_the_heaps(entries: list[tuple[int, int]]) -> None:
    fair, heap = FairPods(), PodHeap()
    for number, (key, priority) in enumerate(entries):
        for order in (fair, heap):
            pod = QueuedPod(Info(str(number), priority), "", number, 0.0)
            order.push((-priority, key), pod)  # type: ignore[attr-defined]
    assert [p.arrival for p in fair.in_order()] == [p.arrival for p in heap.in_order()]
