# SPDX-License-Identifier: Apache-2.0
"""Which pods are oversized, and when they are tried.

Rule: docs/reference/scheduling.md#oversized-pods.
"""

from __future__ import annotations

from typing import Any

import pytest

from koord.base.clock import VirtualClock
from koord.controllers.scheduler.queue import pod_size
from koord.controllers.scheduler.queue.options import QueueProfile
from koord.controllers.scheduler.queue.scheduling_queue import SchedulingQueue
from tests.controllers.scheduler.pods import info, pod
from tests.controllers.scheduler.queue.pods import PROFILE, Info


def affine(values: int) -> dict[str, Any]:
    term = {"key": "zone", "operator": "In", "values": [f"z{i}" for i in range(values)]}
    terms = [{"matchExpressions": [term]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def test_values_are_counted_by_part() -> None:
    made = pod(
        "p", cpu="1", memory="1Gi", labels={"app": "a", "tier": "b"}, **affine(5),
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        volumes=[{"name": "token", "projected": {"sources": [{}]}}, {"name": "x", "emptyDir": {}}],
        annotations={
            "scheduling.koordinator.sh/reservation-affinity": '{"a": ["b", "c"]}',
            "kubectl.kubernetes.io/last-applied-configuration": "{,,,,,,,,}",
        },
    )  # fmt: skip
    assert pod_size.values_of(made) == {
        "labels": 2, "affinity": 7, "tolerations": 2, "containers": 2, "volumes": 1,
        "annotations": 2,
    }  # fmt: skip


@pytest.mark.parametrize(("values", "oversized"), [(10, False), (996, False), (999, True)])
def test_a_thousand_values_are_the_limit(values: int, oversized: bool) -> None:
    assert pod_size.is_oversized(info(pod("p", cpu="1", **affine(values)))) is oversized


def test_nesting_does_not_end_the_count() -> None:
    deep: dict[str, Any] = {"end": 1}
    for _ in range(200):
        deep = {"x": deep}
    assert pod_size.values_of(pod("p", volumes=[deep])) == {"volumes": 1}


class Queue:
    """A queue whose pods with a name in capitals are oversized."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.queue = SchedulingQueue(
            self.clock, {PROFILE: QueueProfile()}, oversized=lambda info: info.uid.isupper()
        )

    def add(self, *uids: str, priority: int = 0) -> None:
        for uid in uids:
            self.queue.add(Info(uid, priority), PROFILE)

    def pop(self, count: int = 1) -> str:
        found = [self.queue.pop() for _ in range(count)]
        return " ".join(pod.info.uid for pod in found if pod is not None)


def test_oversized_pods_are_tried_after_the_others_whatever_a_list_brings_first() -> None:
    made = Queue()
    made.add("A", "a", "b", "B")
    made.add("c", priority=5)
    assert [each.info.uid for each in made.queue.waiting()] == ["c", "a", "b", "A", "B"]
    assert made.pop(5) == "c a b A B"


def test_one_at_a_time_with_the_others_of_the_moment_between() -> None:
    made = Queue()
    made.add("A", "B", "a")
    assert made.pop() == "a"
    made.add("b", "c")
    assert made.pop(4) == "A b c B"


def test_pods_that_keep_coming_do_not_starve_an_oversized_one() -> None:
    made = Queue()
    made.add("A", "a", "b")
    order = []
    for i in range(4):
        made.add(f"x{i}", priority=9)
        order.append(made.pop())
    # Three others were active at the first pop; those that came since do not push it back.
    assert order == ["x0", "x1", "x2", "A"]


def test_an_oversized_pod_that_leaves_takes_its_turn_along() -> None:
    made = Queue()
    made.add("A", "a", "b")
    assert made.pop() == "a"
    made.queue.delete("A")
    made.add("B", "c")
    assert made.queue.pending()["active"] == 3
    assert made.pop(3) == "b c B"


def test_priority_decides_among_oversized_pods_too() -> None:
    made = Queue()
    made.add("A")
    made.add("B", priority=1)
    assert made.pop(2) == "B A"


def test_an_oversized_pod_in_backoff_is_not_popped_early() -> None:
    made = Queue()
    made.add("A", "a")
    for uid in ("a", "A"):
        popped = made.queue.pop()
        assert popped is not None
        assert popped.info.uid == uid
        made.queue.put_back(popped, ["Fit"])
        made.queue.move_on_event(everything())
    assert made.pop(2) == "a"
    made.clock.advance(1.0)
    made.queue.tick()
    assert made.pop() == "A"


def everything() -> Any:
    from koord.controllers.scheduler.queue import events as ev

    return ev.FORCE_ACTIVATE


def test_usual_pods_are_popped_while_oversized_ones_may_not_be() -> None:
    made = Queue()
    made.add("A", "a", "b")
    assert made.queue.oversized == 1
    found = [made.queue.pop(oversized=False) for _ in range(3)]
    assert [pod and pod.info.uid for pod in found] == ["a", "b", None]
    made.add("c")
    # Two others were active at the first pop, and both have gone.
    assert made.pop(2) == "A c"
    assert made.queue.oversized == 0
