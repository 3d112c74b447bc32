# SPDX-License-Identifier: Apache-2.0
"""Worked cases of the scheduling queue.

Rule: docs/reference/scheduling.md#queue.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest

from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.queue.events import Action, ClusterEvent, HintedEvent
from koord.controllers.scheduler.queue.options import QueueOptions, QueueProfile, key_from_less
from koord.controllers.scheduler.queue.queued_pod import QueuedPod
from koord.controllers.scheduler.queue.scheduling_queue import SchedulingQueue
from tests.controllers.scheduler.queue.pods import PROFILE, Bench, Info

ON_NODE = {"Fit": [HintedEvent(ev.NODE_ADD)]}


def test_higher_priority_first_then_who_came_earlier() -> None:
    bench = Bench()
    bench.add("late-low")
    bench.add("low")
    bench.pass_time(0.5)
    bench.add("high", priority=10)
    assert bench.popped() == ["high", "late-low", "low"]


def test_a_failed_pod_queues_behind_its_equals() -> None:
    bench = Bench(ON_NODE)
    bench.add("a")
    bench.fail("a", "Fit")
    bench.pass_time(0.5)
    bench.add("b")
    bench.queue.activate(["a"])
    # Its time is that of the attempt, which was before b came.
    assert bench.popped() == ["a", "b"]


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 0), (1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (6, 10), (5000, 10)]
)
def test_backoff_doubles_up_to_its_limit(attempts: int, seconds: int) -> None:
    assert QueueOptions().backoff(attempts) == seconds


def test_an_event_within_the_backoff_leads_there_and_the_flush_on() -> None:
    bench = Bench(ON_NODE, QueueOptions(pop_from_backoff=False))
    bench.pass_time(0.25)
    bench.add("a")
    bench.fail("a", "Fit")
    assert bench.place("a") == "unschedulable"
    assert bench.queue.move_on_event(ev.NODE_ADD) == 1
    assert bench.place("a") == "backoff"
    # Its backoff ends at 1.25; flushes are at whole seconds.
    assert bench.queue.next_due_seconds() == 1.75
    for seconds in (0.75, 0.75):
        bench.pass_time(seconds)
        assert bench.queue.pop() is None
    bench.pass_time(0.25)
    assert bench.popped() == ["a"]


def test_an_event_after_the_backoff_makes_active_at_once() -> None:
    bench = Bench(ON_NODE)
    bench.add("a")
    bench.fail("a", "Fit")
    bench.pass_time(1)
    bench.queue.move_on_event(ev.NODE_ADD)
    assert bench.place("a") == "active"


def test_a_pod_that_waits_for_something_pending_skips_its_backoff() -> None:
    bench = Bench(ON_NODE | {"Gang": [HintedEvent(ev.ASSIGNED_POD_ADD)]})
    bench.add("a")
    bench.fail("a", "Fit", pending=("Gang",))
    bench.queue.move_on_event(ev.ASSIGNED_POD_ADD)
    assert bench.place("a") == "active"


def test_an_error_is_tried_again_after_its_backoff_but_never_early() -> None:
    bench = Bench()
    bench.add("failed")
    bench.fail("failed")
    assert bench.place("failed") == "error_backoff"
    assert bench.queue.pop() is None
    bench.pass_time(1)
    assert bench.popped() == ["failed"]


def test_with_nothing_active_a_pod_is_popped_from_backoff() -> None:
    bench = Bench(ON_NODE)
    for uid in ("first", "second"):
        bench.add(uid)
        bench.fail(uid, "Fit")
        bench.pass_time(0.25)
    bench.queue.move_on_event(ev.NODE_ADD)
    assert bench.popped() == ["first", "second"]
    assert bench.queue.incoming["active", "PopFromBackoffQ"] == 2


def test_only_plugins_that_rejected_are_asked() -> None:
    bench = Bench(ON_NODE | {"Taint": [HintedEvent(ev.NODE_ADD)]})
    bench.add("a")
    bench.fail("a", "Affinity")
    assert bench.queue.move_on_event(ev.NODE_ADD) == 0
    assert bench.place("a") == "unschedulable"


def test_a_hint_that_fails_is_one_that_says_yes(caplog: pytest.LogCaptureFixture) -> None:
    def broken(info: Any, old: Any, new: Any) -> bool:
        raise ValueError("no such label")

    bench = Bench({"Fit": [HintedEvent(ev.NODE_ADD, broken)]})
    bench.add("a")
    bench.fail("a", "Fit")
    bench.pass_time(2)
    with caplog.at_level(logging.ERROR):
        bench.queue.move_on_event(ev.NODE_ADD)
    assert bench.place("a") == "active"
    assert "a queueing hint failed" in caplog.text


def test_what_happens_during_an_attempt_counts_when_the_pod_returns() -> None:
    bench = Bench(ON_NODE)
    bench.add("a")
    bench.add("b")
    first, second = bench.queue.pop(), bench.queue.pop()
    assert first is not None
    assert second is not None
    bench.queue.move_on_event(ev.NODE_ADD)
    bench.queue.put_back(first, ["Fit"])
    bench.queue.put_back(second, ["Affinity"])
    assert (bench.place("a"), bench.place("b")) == ("backoff", "unschedulable")
    # An event from before an attempt does not.
    bench.fail("a", "Fit")
    assert bench.place("a") == "unschedulable"


def test_gated_pods_hear_their_gating_plugin_alone() -> None:
    removed = ClusterEvent(ev.UNSCHEDULED_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    bench = Bench(ON_NODE | {"SchedulingGates": [HintedEvent(removed)]})
    bench.add("a", gates=1)
    assert bench.queue.pending() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    bench.queue.move_on_event(ev.NODE_ADD)
    bench.queue.move_on_event(ClusterEvent(ev.WILDCARD, Action.ALL))
    bench.queue.activate(["a"])
    bench.pass_time(400)
    assert bench.place("a") == "gated"
    assert bench.queue.get("a") is not None
    bench.queue.update(Info("a"), PROFILE, [removed])
    pod = bench.queue.pop()
    assert pod is not None
    assert (pod.gated_by, pod.attempts, pod.first_seconds) == ("", 1, 400)


def test_a_pod_gated_after_it_failed_hears_its_gating_plugin_alone() -> None:
    removed = ClusterEvent(ev.UNSCHEDULED_POD, Action.UPDATE_OTHER)
    quota = ClusterEvent("elasticquotas.v1alpha1.scheduling.sigs.k8s.io", Action.UPDATE_OTHER)
    gate = [HintedEvent(removed), HintedEvent(quota)]
    bench = Bench(ON_NODE | {"SchedulingGates": gate})
    bench.add("a")
    bench.fail("a", "Fit")
    bench.queue.update(Info("a", gates=1), PROFILE, [])
    assert bench.place("a") == "unschedulable"
    assert bench.queue.move_on_event(ev.NODE_ADD) == 0
    assert bench.place("a") == "gated"
    bench.queue.update(Info("a"), PROFILE, [])
    assert bench.queue.move_on_event(ev.NODE_ADD) == 0
    assert bench.queue.move_on_event(quota) == 1
    assert bench.place("a") == "backoff"


def test_of_several_events_in_flight_the_strongest_counts() -> None:
    bench = Bench(ON_NODE | {"Gang": [HintedEvent(ev.ASSIGNED_POD_ADD)]})
    bench.add("a")
    pod = bench.queue.pop()
    assert pod is not None
    bench.queue.move_on_event(ev.NODE_ADD)
    bench.queue.move_on_event(ev.ASSIGNED_POD_ADD)
    bench.queue.put_back(pod, ["Fit"], ["Gang"])
    assert bench.place("a") == "active"


def test_a_gate_that_fails_holds_the_pod_back(caplog: pytest.LogCaptureFixture) -> None:
    def broken(info: Any) -> object:
        raise KeyError("gang")

    profile = QueueProfile([("Coscheduling", broken)])
    bench = Bench()
    queue = SchedulingQueue(bench.clock, {PROFILE: profile})
    pod = queue.add(Info("a"), PROFILE)
    assert (pod.gated_by, repr(pod.gate_reason)) == ("Coscheduling", "KeyError('gang')")
    assert "a PreEnqueue plugin failed" in caplog.text


def test_what_nothing_wakes_is_tried_again_after_five_minutes() -> None:
    bench = Bench()
    bench.pass_time(1)
    bench.add("a")
    bench.fail("a", "Deaf")
    # Older than 300 s from 301 on; looked for every 30 s.
    assert bench.queue.next_due_seconds() == 329
    bench.pass_time(300)
    assert bench.place("a") == "unschedulable"
    bench.pass_time(29)
    assert bench.place("a") == "active"
    assert bench.queue.incoming["active", "UnschedulableTimeout"] == 1


def test_activate_wins_over_backoff_and_reaches_pods_in_flight() -> None:
    bench = Bench(ON_NODE)
    bench.add("a")
    bench.fail("a", "Fit")
    bench.queue.move_on_event(ev.NODE_ADD)
    assert bench.queue.activate(["a", "unknown"]) == 1
    pod = bench.queue.pop()
    assert pod is not None
    bench.queue.activate(["a"])
    bench.queue.put_back(pod, ["Fit"])
    assert bench.place("a") == "backoff"


def test_a_pod_deleted_while_in_flight_does_not_return() -> None:
    bench = Bench()
    bench.add("a")
    pod = bench.queue.pop()
    assert pod is not None
    bench.queue.delete("a")
    bench.queue.put_back(pod, ["Fit"])
    assert bench.queue.get("a") is None
    assert bench.queue.in_flight() == []


def test_an_update_reorders_and_reaches_the_next_attempt() -> None:
    bench = Bench()
    bench.add("a")
    bench.add("b")
    bench.queue.update(Info("b", priority=5), PROFILE, [])
    pod = bench.queue.pop()
    assert pod is not None
    assert pod.info == Info("b", priority=5)
    bench.queue.update(Info("b", priority=7), PROFILE, [])
    assert pod.info.priority == 5  # the attempt under way keeps what it began with
    bench.queue.put_back(pod, ["Fit"])
    assert pod.info.priority == 7


def test_a_job_is_taken_from_everywhere_and_put_back_unchanged() -> None:
    bench = Bench(ON_NODE)
    for uid in ("active", "backoff", "stuck"):
        bench.add(uid, priority={"backoff": 2, "stuck": 1}.get(uid, 0))
    bench.fail("backoff", "Fit")
    bench.queue.move_on_event(ev.NODE_ADD)
    bench.fail("stuck", "Fit")
    bench.add("gated", gates=1)
    members = ["active", "backoff", "stuck", "gated", "unknown"]
    before = {uid: bench.place(uid) for uid in members}
    assert list(before.values()) == ["active", "backoff", "unschedulable", "gated", ""]

    pods = bench.queue.pop_many(members)
    assert [pod.attempts for pod in pods] == [1, 2, 2, 1]
    assert len(bench.queue) == 0
    for pod in pods:
        bench.queue.restore(pod)
    assert {uid: bench.place(uid) for uid in members} == before
    assert [pod.attempts for pod in pods] == [0, 1, 1, 0]

    # What has happened meanwhile is not lost.
    stuck = bench.queue.take("stuck")
    assert stuck is not None
    bench.queue.move_on_event(ev.NODE_ADD)
    bench.queue.restore(stuck)
    assert bench.place("stuck") == "backoff"


def test_an_event_asks_once_a_shape_and_no_pod_of_other_plugins() -> None:
    asked: list[str] = []

    def hint(info: Info, old: Any, new: Any) -> bool:
        asked.append(info.uid)
        return info.shape == 3

    events = {
        "Fit": [HintedEvent(ev.ASSIGNED_POD_DELETE, hint, per_shape=True)],
        "Affinity": [HintedEvent(ev.ASSIGNED_POD_ADD, hint)],
    }
    bench = Bench(events)
    for number in range(1000):
        bench.add(str(number), shape=number % 10)
        bench.fail(str(number), "Fit")
    assert bench.queue.move_on_event(ev.ASSIGNED_POD_ADD) == 0
    assert asked == []
    assert bench.queue.move_on_event(ev.ASSIGNED_POD_DELETE) == 100
    assert asked == [str(number) for number in range(10)]


def test_a_queue_sort_that_can_only_compare() -> None:
    def longest_name_first(one: QueuedPod, other: QueuedPod) -> bool:
        return len(one.info.uid) > len(other.info.uid)

    bench = Bench()
    queue = SchedulingQueue(
        bench.clock, {PROFILE: QueueProfile()}, key_from_less(longest_name_first)
    )
    for uid in ("a", "ccc", "bb", "dd"):
        queue.add(Info(uid), PROFILE)
    assert [pod.info.uid for pod in queue.waiting()] == ["ccc", "bb", "dd", "a"]


def test_incoming_pods_are_counted_by_what_brought_them() -> None:
    bench = Bench(ON_NODE)
    bench.add("a")
    bench.fail("a", "Fit")
    bench.queue.move_on_event(ev.NODE_ADD)
    bench.pass_time(1)
    assert dict(bench.queue.incoming) == {
        ("active", "UnscheduledPodAdd"): 1,
        ("unschedulable", "ScheduleAttemptFailure"): 1,
        ("backoff", "NodeAdd"): 1,
        ("active", "BackoffComplete"): 1,
    }


def test_events_are_not_kept_for_ever_while_one_pod_binds() -> None:
    bench = Bench(ON_NODE)
    bench.add("0")
    for number in range(1, 20_000):
        bench.add(str(number))
        bench.queue.pop()
        bench.queue.move_on_event(ev.NODE_ADD)
        bench.queue.done(str(number - 1))
    assert bench.queue._in_flight.kept < 10_000


def test_many_updates_do_not_fill_the_heap() -> None:
    bench = Bench()
    for number in range(1000):
        bench.add("a", priority=number)
    assert bench.queue._places.active.kept < 100
    assert bench.popped() == ["a"]


def test_who_keeps_pods_waiting_is_counted_until_they_are_tried_again() -> None:
    bench = Bench(ON_NODE)
    for name in ("a", "b"):
        bench.add(name)
    bench.fail("a", "Fit")
    bench.fail("b", "Fit", "Affinity")
    assert bench.queue.rejected() == {("Fit", PROFILE): 2, ("Affinity", PROFILE): 1}
    bench.pass_time(1)
    bench.queue.move_on_event(ev.NODE_ADD)
    assert bench.queue.rejected() == {("Fit", PROFILE): 2, ("Affinity", PROFILE): 1}
    assert len(bench.popped()) == 2
    assert bench.queue.rejected() == {}
