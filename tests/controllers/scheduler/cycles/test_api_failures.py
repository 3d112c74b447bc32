# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between the scheduler and the API, one mishap at a time."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.base import faults
from tests.controllers.scheduler.cycles.test_scheduling_loop import points, settle
from tests.controllers.scheduler.histories import weather
from tests.controllers.scheduler.histories.cluster import History, live
from tests.controllers.scheduler.histories.documents import CPU_STATUS, kind, pod
from tests.controllers.scheduler.histories.room import annotation, bound_to
from tests.controllers.scheduler.histories.steps import Step, tell
from tests.controllers.scheduler.pods import node
from tests.controllers.scheduler.pods import pod as typed_pod
from tests.controllers.scheduler.world import scheduler

LOST = replace(weather.CALM, lost=1.0)
STORY: list[Step] = [
    ("node", False), ("storm", "all", 3), ("pods", 4, "pcpu", 1, "", ""),
    ("gang", 3, "plain", 1, "PodGroup"), ("reservation", 2, "Restricted", False), ("wait", 5.0),
    ("pods", 2, "plain", 1, "", "r"), ("strike", True), ("wait", 30.0), ("restart",),
    ("gang", 3, "share", 1, "annotations"), ("pods", 3, "high", 4, "", ""),
]  # fmt: skip


def writes(history: History, part: str) -> list[dict[str, Any]]:
    """The bodies of what was written to paths with this end."""
    found = [each for each in history.weather.trace if each[2].endswith(part)]
    return [json.loads(body) for _, _, _, body in found]


async def the_pod(history: History, name: str) -> dict[str, Any]:
    found: dict[str, Any] = await history.client.get(kind("Pod"), name, "default")
    return found


def test_a_bind_whose_answer_is_lost_is_a_bind() -> None:
    async def run(history: History) -> None:
        await history.add_node(False)
        history.weather.change(LOST)
        await history.client.create(pod("p", "plain", 1, {}))
        await asyncio.sleep(2.0)
        history.weather.change(weather.CALM)
        await asyncio.sleep(10.0)
        found = await the_pod(history, "p")
        assert bound_to(found) == "node-001"
        assert not writes(history, "p/status"), "nobody may say that it has no node"
        assert len(writes(history, "p/binding")) == 1
        await history.check()

    live(run)


def test_a_pod_whose_binding_failed_is_tried_again_though_nothing_else_happens() -> None:
    async def run(history: History) -> None:
        await history.add_node(False)
        always = faults.FaultPlan(
            seed=1, rules={"scheduler.bind": faults.FaultRule(rate=1.0, error=OSError("no"))}
        )
        with faults.inject(always):
            await history.client.create(pod("p", "plain", 1, {}))
            # The second failure is told of in the words of the first: no event comes back.
            await asyncio.sleep(2.0)
        await asyncio.sleep(10.0)
        assert bound_to(await the_pod(history, "p")) == "node-001"

    live(run)


def test_a_condition_that_was_not_written_is_written_later() -> None:
    async def run(history: History) -> None:
        await history.add_node(False)
        history.weather.change(replace(weather.CALM, conflict=1.0))
        await history.client.create(pod("p", "plain", 99, {}))
        await asyncio.sleep(2.0)
        assert not writes(history, "p/status")
        history.weather.change(weather.CALM)
        await asyncio.sleep(10.0)
        (said,) = writes(history, "p/status")
        assert said["status"]["conditions"][0]["reason"] == "Unschedulable"

    live(run)


def test_nobody_is_bound_to_what_came_after_its_node() -> None:
    async def run(history: History) -> None:
        await history.add_node(False)
        history.weather.change(replace(weather.CALM, slow=1.0), 1)
        await history.client.create(pod("p", "bound", 2, {"form": "bound"}))
        await asyncio.sleep(0.01)
        history.weather.change(weather.CALM)
        await history.remove_node(0)
        # Takes the row that the first one had.
        await history.add_node(False)
        await history.cordon(0, True)
        await asyncio.sleep(30.0)
        assert not writes(history, "p/binding")
        assert not history.app.world.orphans.uids()
        (said,) = (await the_pod(history, "p"))["status"]["conditions"]
        assert "1 node(s) were unschedulable" in said["message"], "the latest is what stands"
        await history.cordon(0, False)
        await asyncio.sleep(30.0)
        found = await the_pod(history, "p")
        assert bound_to(found) == "node-002"
        await history.check()

    live(run)


def test_a_copied_note_of_cpus_is_taken_off() -> None:
    async def run(history: History) -> None:
        await history.add_node(False)
        made = pod("p", "plain", 1, {})
        made["metadata"]["annotations"][CPU_STATUS] = '{"cpuset":"0-3"}'
        await history.client.create(made)
        await asyncio.sleep(10.0)
        await history.client.create(pod("q", "bound", 8, {}))
        assert not annotation(await the_pod(history, "p"), CPU_STATUS)
        await history.delete("Pod", 0)
        await asyncio.sleep(30.0)
        assert annotation(await the_pod(history, "q"), CPU_STATUS) == '{"cpuset":"0-7"}'

    live(run)


@pytest.mark.parametrize(
    ("key", "note"),
    [
        (CPU_STATUS, '{"cpuset":"0-3"}'),
        (keys.DEVICE_ALLOCATED, '{"gpu":[{"minor":0,"resources":{}}]}'),
        (keys.RESERVATION_ALLOCATED, '{"name":"r","uid":"u"}'),
        (keys.BIND_GANG_GROUP_ID, "default/g"),
        (keys.BIND_GANG_MEMBER_COUNT, "2"),
        (keys.BIND_GANG_GROUP_ID_OLD, "default/g"),
        (keys.BIND_GANG_MEMBER_COUNT_OLD, "2"),
    ],
)
def test_a_copied_note_is_taken_off_though_no_plugin_is_asked(key: str, note: str) -> None:
    async def run(history: History) -> None:
        await history.add_node(False)
        # Of the same shape, for which no plugin has anything to do before it is bound.
        await history.client.create(pod("p", "plain", 1, {}))
        await asyncio.sleep(10.0)
        copied = pod("q", "plain", 1, {})
        copied["metadata"]["annotations"][key] = note
        await history.client.create(copied)
        await asyncio.sleep(10.0)
        found = await the_pod(history, "q")
        assert bound_to(found) == "node-001"
        assert not annotation(found, key)

    live(run)


def test_a_pod_that_finds_no_node_at_all_goes_to_the_first() -> None:
    async def run(history: History) -> None:
        await history.client.create(pod("p", "plain", 1, {}))
        await asyncio.sleep(5.0)
        attempts = history.app.scheduler.loop.decided
        await asyncio.sleep(100.0)
        assert history.app.scheduler.loop.decided == attempts, "tried again for nothing"
        await history.add_node(False)
        await asyncio.sleep(15.0)
        assert bound_to(await the_pod(history, "p")) == "node-001"

    live(run)


def told_in(story: list[Step]) -> str:
    """A digest of all that a scheduler wrote in a history."""
    digest = hashlib.sha256()

    async def run(history: History) -> None:
        await tell(history, story)
        assert history.weather.met, "it was calm"
        for each in history.weather.trace:
            digest.update(repr(each).encode())

    live(run)
    return digest.hexdigest()


def test_a_history_replays_exactly() -> None:
    """Also in another process, whose sets of names have another order."""
    script = (
        "from tests.controllers.scheduler.cycles.test_api_failures import STORY, told_in\n"
        "print(told_in(STORY))\n"
    )
    root = Path(__file__).parents[4]
    path = os.pathsep.join((str(root), os.environ.get("PYTHONPATH", "")))
    environment = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, cwd=root, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert done.stdout.split()[-1] == told_in(STORY)


class Promising:
    """Promises something at Reserve; its PreBind fails when told to."""

    name = "Promising"

    def __init__(self) -> None:
        self.promised = 0
        self.fail = asyncio.Event()

    def events(self) -> list[Any]:
        return []

    def reserve(self, cycle: Any, row: int) -> None:
        self.promised += 1

    def unreserve(self, cycle: Any, row: int) -> None:
        self.promised -= 1

    async def pre_bind(self, cycle: Any, row: int, changes: Any) -> None:
        await self.fail.wait()
        raise RuntimeError("no")


def test_what_a_pod_was_promised_is_free_again_when_it_is_deleted_on_its_way() -> None:
    async def run() -> None:
        plugin = Promising()
        asked = {**points(), "reserve": [plugin], "preBind": [plugin]}
        made, views, _, _ = scheduler(asked, [node("a")], [typed_pod("p", cpu="1")])
        made.loop.schedule(1.0)
        await settle()
        assert plugin.promised == 1
        views.view(Pod).remove("default/p")
        plugin.fail.set()
        await settle()
        assert plugin.promised == 0
        await made.loop.binder.close()

    asyncio.run(run())
