# SPDX-License-Identifier: Apache-2.0
"""The queue against its model: whatever is done to both, the same pods are in the same places."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from koord.base.clock import VirtualClock
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE,
    NODE_ADD,
    POD,
    UNSCHEDULED_POD,
    WILDCARD,
    Action,
    ClusterEvent,
    HintedEvent,
)
from koord.controllers.scheduler.queue.options import QueueOptions, QueueProfile
from koord.controllers.scheduler.queue.queued_pod import QueuedPod
from koord.controllers.scheduler.queue.scheduling_queue import SchedulingQueue
from tests.controllers.scheduler.queue.pods import PROFILE, Info
from tests.models.scheduling_queue import PlainQueue

QUOTA = "elasticquotas.v1alpha1.scheduling.sigs.k8s.io"


def _same_shape(info: Info, _: Any, new: Any) -> bool:
    return bool(info.shape == new)


def _odd(info: Info, _: Any, new: Any) -> bool:
    return int(info.uid) % 2 == 1


def _broken(info: Info, _: Any, new: Any) -> bool:
    raise RuntimeError("a fault of the plugin")


HINTS = {
    "Fit": [
        HintedEvent(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)),
        HintedEvent(ClusterEvent(POD, Action.DELETE), _same_shape, per_shape=True),
    ],
    "Affinity": [
        HintedEvent(ClusterEvent(POD, Action.ADD | Action.DELETE), _odd),
        HintedEvent(ClusterEvent(UNSCHEDULED_POD, Action.UPDATE_POD_LABEL), _same_shape),
    ],
    "Quota": [HintedEvent(ClusterEvent(QUOTA, Action.ALL), _broken)],
    "Gate": [HintedEvent(ClusterEvent(UNSCHEDULED_POD, Action.UPDATE))],
    "Gang": [HintedEvent(ClusterEvent(POD, Action.ADD), _odd, per_shape=False)],
    "Deaf": [],
}
GATES = {
    "Gate": lambda info: "gated" if info.gates & 1 else None,
    "Gang": lambda info: "too few" if info.gates & 2 else None,
}
EVENTS = [
    NODE_ADD,
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ClusterEvent(NODE, Action.UPDATE_NODE_TAINT),
    ClusterEvent(QUOTA, Action.UPDATE_OTHER),
    ClusterEvent(WILDCARD, Action.ALL),
]
CHANGES = [
    ClusterEvent(UNSCHEDULED_POD, action)
    for action in (Action.UPDATE_POD_LABEL, Action.UPDATE_OTHER, Action.UPDATE_POD_TOLERATION)
]
PLACES = {"backoff": "backoff", "error_backoff": "error", "in_flight": "flying"}

uids = st.integers(0, 6).map(str)
infos = st.builds(Info, uids, st.integers(0, 2), st.integers(0, 2), st.integers(0, 3))
plugins = st.frozensets(st.sampled_from(sorted(HINTS)), max_size=2)


class Both(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        logging.getLogger("koord").setLevel(logging.CRITICAL)
        self.clock = VirtualClock()
        self.model = PlainQueue(GATES, HINTS)
        self.flying: dict[str, QueuedPod] = {}

    @initialize(fair=st.booleans())
    def begin(self, fair: bool) -> None:
        """All pods are of one namespace, which has every turn."""
        profile = QueueProfile(list(GATES.items()), HINTS)
        self.queue = SchedulingQueue(
            self.clock, {PROFILE: profile}, options=QueueOptions(fair=fair)
        )

    @rule(info=infos)
    def add(self, info: Info) -> None:
        self.queue.add(info, PROFILE)
        self.model.add(info)

    @rule(info=infos, change=st.sampled_from(CHANGES))
    def update(self, info: Info, change: ClusterEvent) -> None:
        self.queue.update(info, PROFILE, [change])
        self.model.update(info, change)

    @rule(uid=uids)
    def delete(self, uid: str) -> None:
        self.queue.delete(uid)
        self.model.delete(uid)

    @rule()
    def pop(self) -> None:
        pod, expected = self.queue.pop(), self.model.pop()
        assert (pod and pod.info) == (expected and expected.info)
        if pod is not None:
            self.flying[pod.info.uid] = pod

    @rule(uid=uids)
    def take(self, uid: str) -> None:
        pod, expected = self.queue.take(uid), self.model.take(uid)
        assert (pod and pod.info) == (expected and expected.info)
        if pod is not None:
            self.flying[uid] = pod

    @rule(wanted=st.lists(uids, unique=True, max_size=4))
    def pop_many(self, wanted: list[str]) -> None:
        pods = self.queue.pop_many(wanted)
        assert [pod.info.uid for pod in pods] == self.model.pop_many(wanted)
        self.flying |= {pod.info.uid: pod for pod in pods}

    @rule(data=st.data(), by=plugins, waiting=plugins)
    def put_back(self, data: st.DataObject, by: frozenset[str], waiting: frozenset[str]) -> None:
        if self.flying:
            uid = data.draw(st.sampled_from(sorted(self.flying)))
            self.queue.put_back(self.flying.pop(uid), by, waiting)
            self.model.put_back(uid, by, waiting)

    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        if self.flying:
            uid = data.draw(st.sampled_from(sorted(self.flying)))
            self.queue.restore(self.flying.pop(uid))
            self.model.restore(uid)

    @rule(data=st.data())
    def done(self, data: st.DataObject) -> None:
        if self.flying:
            uid = data.draw(st.sampled_from(sorted(self.flying)))
            del self.flying[uid]
            self.queue.done(uid)
            self.model.done(uid)

    @rule(event=st.sampled_from(EVENTS), new=st.integers(0, 2))
    def happens(self, event: ClusterEvent, new: int) -> None:
        self.queue.move_on_event(event, None, new)
        self.model.happened(event, new)

    @rule(uid=uids)
    def activate(self, uid: str) -> None:
        self.queue.activate([uid])
        self.model.activate(uid)

    @rule(seconds=st.sampled_from([0.25, 0.5, 1.0, 2.5, 8.0, 31.0, 290.0]))
    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.model.now += seconds
        self.queue.tick()
        self.model.tick()

    @rule()
    def wait_until_due(self) -> None:
        due = self.queue.next_due_seconds()
        waits = self.model.at("backoff", "error", "unschedulable")
        assert (due is None) == (not waits)
        if due is None:
            return
        # Nothing moves before, something does then; what is looked for late may find more.
        if due <= 1:
            self.clock.advance(due / 2)
            assert self.queue.tick() == 0
            self.clock.advance(due / 2)
        else:
            self.clock.advance(due)
        moved_or_gated = {pod.info.uid: pod.place for pod in waits}
        self.model.now += due
        self.queue.tick()
        self.model.tick()
        after = {uid: pod.place for uid in moved_or_gated if (pod := self.model.get(uid))}
        assert after != moved_or_gated

    @invariant()
    def all_is_where_the_model_has_it(self) -> None:
        places = {}
        for pod in (*self.queue.waiting(), *self.queue.in_flight()):
            name = pod.place.name.lower()
            places[pod.info.uid] = (
                PLACES.get(name, name), pod.attempts, pod.gated_by, pod.info, pod.timestamp,
                pod.unschedulable_plugins, pod.pending_plugins,
            )  # fmt: skip
        assert places == {
            pod.info.uid: (
                pod.place, pod.attempts, pod.gate, pod.info, pod.timestamp, pod.unschedulable,
                pod.pending,
            )
            for pod in self.model.pods
        }  # fmt: skip

    @invariant()
    def figures_add_up(self) -> None:
        count = dict.fromkeys(("active", "backoff", "unschedulable", "gated"), 0)
        for pod in self.model.pods:
            name = "backoff" if pod.place == "error" else pod.place
            if name in count:
                count[name] += 1
        assert self.queue.pending() == count
        assert len(self.queue) == sum(count.values())

    @invariant()
    def nothing_is_kept_for_nobody(self) -> None:
        if not self.flying:
            assert self.queue._in_flight.kept == 0


@pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning")
class TestBoth(Both.TestCase):  # type: ignore[name-defined, misc]
    pass
