# SPDX-License-Identifier: Apache-2.0
"""What is found is written and told once a cause, whatever the server does."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from koord.api.kinds.pod import Pod
from koord.api.kinds.quota import ElasticQuota
from koord.api.protocol.keys import PROBLEM
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.invalid.invalid_objects import InvalidObjects
from koord.controllers.scheduler.invalid.pod_labels import problem
from tests.controllers.scheduler.plugins.coscheduling.gangs import member
from tests.controllers.scheduler.plugins.elasticquota.objects import quota
from tests.controllers.scheduler.pods import pod
from tests.controllers.scheduler.world import Told


class Server:
    """Takes patches, or refuses them."""

    def __init__(self) -> None:
        self.refuses = False
        self.written: list[Any] = []

    async def patch(self, kind: Any, name: str, patch: Any, namespace: str) -> None:
        if self.refuses:
            raise RuntimeError("no way")
        self.written.append((kind.plural, namespace, name))


def made() -> tuple[InvalidObjects, Server, Told]:
    server, told = Server(), Told()
    client: Any = server
    return InvalidObjects(client, told, VirtualClock(1_700_000_000.0)), server, told


def test_a_finding_is_written_and_told_once_and_a_new_one_again() -> None:
    invalid, server, told = made()
    item = quota("q", max={"cpu": "1"})

    async def run() -> None:
        for message in ("wrong", "wrong", "worse"):
            invalid.judge(ElasticQuota, item, message)
            assert await invalid.step() == 0

    asyncio.run(run())
    assert told.events == [("q", "Invalid", "wrong"), ("q", "Invalid", "worse")]
    assert server.written == [("elasticquotas", "default", "q")] * 2


def test_a_watch_that_is_faster_than_the_answer_takes_no_event() -> None:
    invalid, server, told = made()
    item = quota("q", max={"cpu": "1"})
    shown = quota("q", max={"cpu": "1"})
    shown.metadata.annotations[PROBLEM] = "wrong"

    async def patch(*_: object) -> None:
        invalid.judge(ElasticQuota, shown, "wrong")

    server.patch = patch  # type: ignore[method-assign]

    async def run() -> None:
        invalid.judge(ElasticQuota, item, "wrong")
        assert [await invalid.step(), await invalid.step()] == [0, 0]
        invalid.judge(ElasticQuota, shown, "wrong")
        assert await invalid.step() == 0

    asyncio.run(run())
    assert told.events == [("q", "Invalid", "wrong")]
    assert invalid.message(ElasticQuota, "default/q") == "wrong"


def test_what_cannot_be_written_is_told_and_logged_once_and_tried_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    invalid, server, told = made()

    async def run() -> None:
        invalid.judge(ElasticQuota, quota("q", max={"cpu": "1"}), "wrong")
        server.refuses = True
        assert [await invalid.step() for _ in range(3)] == [1, 1, 1]
        server.refuses = False
        assert [await invalid.step() for _ in range(2)] == [0, 0]

    with caplog.at_level(logging.WARNING, "koord.scheduler"):
        asyncio.run(run())
    assert told.events == [("q", "Invalid", "wrong")]
    assert server.written == [("elasticquotas", "default", "q")]
    assert len(caplog.records) == 1


def test_a_message_is_no_longer_than_an_event() -> None:
    invalid, _, told = made()

    async def run() -> None:
        invalid.judge(ElasticQuota, quota("q", max={"cpu": "1"}), "x" * 5000)
        await invalid.step()

    asyncio.run(run())
    assert told.events == [("q", "Invalid", "x" * 1020 + " ...")]


def test_a_pod_that_waits_for_what_is_no_gang_says_so_and_not_that_it_is_absent() -> None:
    said = "Pod default/p: annotations[gang.scheduling.koordinator.sh/groups][0]: got 'g', "
    expected = "expected NAMESPACE/NAME of one gang: the group waits for a gang that is called so"
    assert str(problem(member("p", notes={"groups": '["g","default/g"]'}))) == said + expected
    assert problem(member("p", notes={"groups": '["default/g","a-1/G_1.x"]'})) is None


def test_nothing_is_kept_of_objects_that_went_or_no_longer_matter() -> None:
    invalid, _, told = made()
    waiting, gone = pod("p"), pod("g")

    async def run() -> None:
        invalid.judge(Pod, waiting, "odd")
        invalid.judge(Pod, gone, "odd")
        invalid.gone(Pod, gone)
        task = asyncio.create_task(invalid.run())
        await asyncio.sleep(0)
        invalid.judge(Pod, pod("late"), "odd")
        # Bound before the next look: it is told all the same.
        invalid.settled(Pod, pod("late"))
        await invalid.step()
        invalid.settled(Pod, waiting)
        task.cancel()

    asyncio.run(run())
    assert sorted(name for name, _, _ in told.events) == ["late", "p"]
    assert (invalid._findings, invalid._last_written, invalid._waiting) == ({}, {}, {})
