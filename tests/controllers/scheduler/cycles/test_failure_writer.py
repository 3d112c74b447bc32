# SPDX-License-Identifier: Apache-2.0
"""What is told of pods that got no node, to whom, and how often they are tried."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from koord.controllers.scheduler.app import _event_writer
from koord.controllers.scheduler.feature_gates import feature_gates
from koord.controllers.scheduler.queue import events as ev
from koord.kube.patches import Patch
from tests.controllers.scheduler.decision.test_timed_plugins import exposed
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.histories.documents import CPU_SPEC, kind, pod
from tests.controllers.scheduler.histories.room import bound_to
from tests.controllers.scheduler.pods import pod as typed_pod


async def the_pod(history: History, name: str) -> dict[str, Any]:
    found: dict[str, Any] = await history.client.get(kind("Pod"), name, "default")
    return found


def test_what_cannot_be_read_waits_until_it_says_something_else() -> None:
    async def run(history: History) -> None:
        await history.add_node(False)
        made = pod("p", "broken", 1, {})
        made["metadata"]["labels"]["koordinator.sh/qosClass"] = "LSR"
        made["spec"]["priorityClassName"] = "koord-prod"
        await history.client.create(made)
        await asyncio.sleep(5.0)
        (said,) = (await the_pod(history, "p"))["status"]["conditions"]
        assert said["reason"] == "SchedulerError"
        tried = history.app.scheduler.loop.decided
        assert tried == 1
        await asyncio.sleep(200.0)
        assert history.app.scheduler.loop.decided == tried, "tried again for nothing"
        fixed = Patch.merge({"metadata": {"annotations": {CPU_SPEC: None}}})
        await history.client.patch(kind("Pod"), "p", fixed, "default")
        await asyncio.sleep(15.0)
        assert bound_to(await the_pod(history, "p")) == "node-001"

    live(run)


@pytest.mark.parametrize("gate", [True, False])
def test_members_of_a_gang_that_failed_are_told_if_the_gate_says_so(gate: bool) -> None:
    async def run(history: History) -> None:
        history.gates = feature_gates(f"GangPendingPodsConditionPatch={str(gate).lower()}")
        await history.restart()
        await history.add_node(False)
        before = attempts_to_preempt(history)
        await history.add_gang(3, "plain", 4)
        await asyncio.sleep(0.5)
        conditions = [
            each.get("status", {}).get("conditions", []) for each in await history.list("Pod")
        ]
        assert sum(1 for each in conditions if each) == (3 if gate else 1)
        assert attempts_to_preempt(history) > before, "making room for a gang counts too"

    live(run)


def attempts_to_preempt(history: History) -> float:
    return exposed(history.app.scheduler).get("scheduler_preemption_attempts_total", 0.0)


def test_events_are_told_in_the_name_of_the_pods_profile() -> None:
    told: list[tuple[str, str]] = []

    class Recorder:
        def event(self, about: Any, *rest: Any, component: str = "") -> None:
            told.append((about.metadata.name, component))

    recorder: Any = Recorder()
    tell = _event_writer(recorder, ["koord-scheduler", "batch"])
    tell(typed_pod("a", schedulerName="batch"), "Normal", "Scheduled", "")
    tell(typed_pod("b", schedulerName="strange"), "Normal", "Preempted", "")
    assert told == [("a", "batch"), ("b", "")]


def test_a_reservation_is_waited_for_where_one_would_help() -> None:
    async def run(history: History) -> None:
        await history.add_node(False)
        for name, cpu, selector in (("big", 99, {}), ("picky", 1, {"disk": "ssd"})):
            made = pod(name, "plain", cpu, {})
            made["spec"]["nodeSelector"] = selector
            await history.client.create(made)
        await asyncio.sleep(5.0)
        waits = {
            each.info.pod.metadata.name: each.unschedulable_plugins
            for each in history.app.scheduler.queue.waiting()
        }
        assert waits == {"big": {"NodeResourcesFit", "Reservation"}, "picky": {"NodeAffinity"}}
        assert ev.OWN not in waits["big"]

    live(run)
