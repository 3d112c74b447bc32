# SPDX-License-Identifier: Apache-2.0
"""Pods of a gang that waits for members say so, though nobody tries them."""

from __future__ import annotations

import asyncio
from typing import Any

from koord.api.kinds.pod import Pod
from tests.controllers.scheduler.invalid.cluster import Cluster, play

GANG = "gang.scheduling.koordinator.sh"


def member(name: str, gang: str, least: str) -> dict[str, Any]:
    annotations = {f"{GANG}/name": gang, f"{GANG}/min-available": least}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "annotations": annotations},
        "spec": {"containers": [container], "schedulerName": "koord-scheduler"},
    }  # fmt: skip


def test_they_say_what_they_wait_for_once_by_condition_and_event() -> None:
    lines = {
        "a": "gangGroup [default/g] basic check: memberGangs [default/g] child pod not collect "
        "enough, current gang: default/g, podName: default/a",
        "x": "gang has not init, gangName: default/odd, podName: default/x: Pod default/x: "
        "annotations[gang.scheduling.koordinator.sh/min-available]: got -5, "
        "expected an integer of at least 0",
    }

    async def story(cluster: Cluster) -> None:
        await cluster.add(member("a", "g", "3"), member("b", "g", "3"), member("x", "odd", "-5"))
        for seconds in (20, 300):
            await asyncio.sleep(seconds)
            for name, line in lines.items():
                found = await cluster.client.get(Pod, name, "default")
                (said,) = found.status.conditions
                assert (said.type, said.status, said.reason) == (
                    "PodScheduled", "False", "Unschedulable"
                )  # fmt: skip
                assert said.message == line
                assert await cluster.events(name) == [("Warning", "FailedScheduling", line, 1)]
        await cluster.restart()
        await asyncio.sleep(60)
        assert len(await cluster.events("a")) == 1, "what it says is not told again"
        await cluster.add(member("c", "g", "3"))
        await asyncio.sleep(5)
        assert (await cluster.client.get(Pod, "a", "default")).spec.node_name == "n"

    play(story)


def test_of_pods_that_went_without_a_node_nothing_is_kept() -> None:
    async def story(cluster: Cluster) -> None:
        await cluster.add(member("a", "g", "3"))
        await asyncio.sleep(20)
        failures = cluster.app.scheduler.loop.failures
        assert len(failures._last_written) == 1
        await cluster.client.delete(Pod, "a", "default", grace_period_seconds=0)
        await asyncio.sleep(5)
        assert failures._last_written == {}

    play(story)
