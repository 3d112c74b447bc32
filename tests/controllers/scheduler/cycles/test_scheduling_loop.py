# SPDX-License-Identifier: Apache-2.0
"""The loop over views that are fed by hand: queue, feed, accounts, bindings, failures."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.controllers.scheduler.framework.rejection import Rejection, Wait
from koord.controllers.scheduler.queue import events as ev
from tests.controllers.scheduler.decision.test_decider import Room
from tests.controllers.scheduler.pods import node, pod
from tests.controllers.scheduler.world import scheduler


class WakingRoom(Room):
    def events(self) -> list[ev.HintedEvent]:
        return [ev.HintedEvent(ev.ASSIGNED_POD_DELETE), ev.HintedEvent(ev.NODE_ADD)]


def points(*more: Any) -> dict[str, list[Any]]:
    room = WakingRoom()
    return {"filter": [room], "score": [room], "permit": list(more), "reserve": list(more)}


def bound(pod: Pod, node_name: str) -> Pod:
    """The pod as the API shows it once it is bound."""
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node_name))


async def settle() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def test_pods_are_assumed_bound_and_confirmed() -> None:
    async def run() -> None:
        pods = [pod(f"p{i}", cpu="2") for i in range(2)]
        made, views, _, told = scheduler(points(), [node("a", cpu="4")], pods)
        assert made.loop.schedule(1.0) == 2
        await settle()
        assert sorted(made.feed.assumed) == ["uid-p0", "uid-p1"]
        assert [reason for _, reason, _ in told.events] == ["Scheduled", "Scheduled"]
        assert told.events[0][2] == "Successfully assigned default/p0 to a"
        for each in pods:
            views.view(Pod).put(bound(each, "a"))
        assert not made.feed.assumed
        assert made.world.table.requested[0, 0] == 4000
        assert not made.queue.in_flight()

    asyncio.run(run())


def test_who_was_promised_a_node_is_tried_at_once_when_the_last_preempted_pod_is_gone() -> None:
    """Not after its backoff; and nobody else is tried early."""

    def doomed(name: str) -> Pod:
        reason = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
        ends = structs.replace(
            pod(name, cpu="2", status={"conditions": [reason]}).metadata,
            deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC),
        )
        made = pod(name, cpu="2", status={"conditions": [reason]})
        return bound(structs.replace(made, metadata=ends), "a")

    async def run() -> None:
        waits = [pod(f"p{i}", cpu="4", priority=10) for i in range(2)]
        there = [doomed("x"), doomed("y")]
        made, views, _, _ = scheduler(points(), [node("a", cpu="4")], [*there, *waits])
        assert made.loop.schedule(1.0) == 2
        promised = made.queue.get("uid-p1")
        assert promised is not None
        made.queue.nominator.nominate(promised.info, "a")
        views.view(Pod).remove("default/x")
        assert made.queue.pending() == {"active": 0, "backoff": 2, "unschedulable": 0, "gated": 0}
        views.view(Pod).remove("default/y")
        assert made.queue.pending() == {"active": 1, "backoff": 1, "unschedulable": 0, "gated": 0}
        assert made.queue.pop() is promised

    asyncio.run(run())


def test_a_pod_that_has_its_node_is_promised_none_any_more() -> None:
    """From when it is bound: until then it may come back, and needs the promise again."""

    async def run() -> None:
        made, views, _, _ = scheduler(points(), [node("a", cpu="4")], [pod("p", cpu="2")])
        waits = made.queue.get("uid-p")
        assert waits is not None
        made.queue.nominator.nominate(waits.info, "a")
        made.loop.schedule(1.0)
        assert made.queue.nominator.node_of("uid-p") == "a"
        await settle()
        views.view(Pod).put(bound(pod("p", cpu="2"), "a"))
        assert made.queue.nominator.nodes() == []
        assert made.queue.empty

    asyncio.run(run())


def test_what_a_scheduler_before_this_one_has_promised_is_kept_free() -> None:
    """A pod in whose status a node stands gets the room there, whoever is tried first."""

    async def run() -> None:
        waits = pod("p", cpu="3", priority=10, status={"nominatedNodeName": "a"})
        others = [pod(name, cpu="3", priority=10) for name in ("first", "last")]
        there = bound(pod("there", cpu="3"), "a")
        pods = [others[0], waits, others[1], there]
        made, views, _, _ = scheduler(points(), [node("a", cpu="4")], pods)
        views.view(Pod).remove("default/there")
        made.loop.schedule(1.0)
        assert made.world.accounts.get("uid-p") is not None
        assert made.world.accounts.get("uid-first") is None
        await settle()

    asyncio.run(run())


def test_a_pod_that_fits_nowhere_waits_for_room() -> None:
    async def run() -> None:
        first, second = pod("p0", cpu="3"), pod("p1", cpu="3")
        made, views, clock, told = scheduler(points(), [node("a", cpu="4")], [first, second])
        made.loop.schedule(1.0)
        await settle()
        assert told.events[0][1:] == (
            "FailedScheduling",
            "0/1 nodes are available: 1 Insufficient cpu.",
        )
        assert made.queue.pending()["unschedulable"] == 1
        views.view(Pod).put(bound(first, "a"))
        views.view(Pod).remove("default/p0")
        clock.advance(2.0)
        made.queue.tick()
        assert made.loop.schedule(1.0) == 1
        assert made.world.accounts.get("uid-p1") is not None
        await settle()

    asyncio.run(run())


def test_pods_of_a_node_that_went_wait_for_it() -> None:
    async def run() -> None:
        there = bound(pod("p", cpu="3"), "a")
        made, views, _, _ = scheduler(points(), [node("a", cpu="4")], [there])
        assert made.world.table.requested[0, 0] == 3000
        views.view(Node).remove("a")
        assert made.world.accounts.get("uid-p") is None
        views.view(Node).put(node("b", cpu="4"))
        views.view(Node).put(node("a", cpu="4"))
        row = made.world.table.row("a")
        assert row is not None
        assert made.world.table.requested[0, row] == 3000

    asyncio.run(run())


class Gate:
    """Makes pods wait; remembers what was undone."""

    name = "Gate"

    def __init__(self, refuse: bool = False) -> None:
        self.undone: list[str] = []
        self.refuse = refuse

    def events(self) -> list[ev.HintedEvent]:
        return []

    def reserve(self, cycle: Any, row: int) -> Rejection | None:
        return Rejection(self.name, ("no",)) if self.refuse else None

    def unreserve(self, cycle: Any, row: int) -> None:
        self.undone.append(cycle.pod.key)

    def permit(self, cycle: Any, row: int) -> Wait:
        return Wait(self.name, 60.0)


def test_permit_waits_allows_and_rejects() -> None:
    async def run() -> None:
        gate = Gate()
        pods = [pod("p0", cpu="1"), pod("p1", cpu="1")]
        made, _, _, told = scheduler(points(gate), [node("a", cpu="4")], pods)
        made.loop.schedule(1.0)
        await settle()
        assert [info.key for info in made.world.waiting()] == ["default/p0", "default/p1"]
        assert made.world.allow("uid-p0")
        assert made.world.reject("uid-p1", Rejection("Gate", ("closed",)))
        await settle()
        assert sorted((name, reason) for name, reason, _ in told.events) == [
            ("p0", "Scheduled"),
            ("p1", "FailedScheduling"),
        ]
        assert gate.undone == ["default/p1"]
        assert made.world.table.requested[0, 0] == 1000
        assert not made.world.allow("uid-p0")

    asyncio.run(run())


def test_what_reserve_refuses_is_undone() -> None:
    async def run() -> None:
        gate = Gate(refuse=True)
        made, _, _, told = scheduler(points(gate), [node("a")], [pod("p0", cpu="1")])
        made.loop.schedule(1.0)
        assert gate.undone == ["default/p0"]
        assert made.world.table.requested[0, 0] == 0
        assert told.events == [("p0", "FailedScheduling", "0/1 nodes are available: 1 no.")]

    asyncio.run(run())


class Broken(Room):
    def filter(self, cycle: Any, rows: Any) -> Any:
        raise ZeroDivisionError("of mine")


def test_a_faulty_plugin_does_not_stop_the_loop() -> None:
    async def run() -> None:
        broken = Broken()
        broken.events = list  # type: ignore[attr-defined]
        made, _, clock, told = scheduler(
            {"filter": [broken]}, [node("a")], [pod("p0", cpu="1"), pod("p1", cpu="1")]
        )
        assert made.loop.schedule(1.0) == 2
        assert {reason for _, reason, _ in told.events} == {"FailedScheduling"}
        assert made.queue.pending()["backoff"] == 2
        assert not made.loop.schedule(1.0), "a failed pod is not tried before its backoff"
        clock.advance(2.0)
        made.queue.tick()
        assert made.loop.schedule(1.0) == 2

    asyncio.run(run())
