# SPDX-License-Identifier: Apache-2.0
"""The hook server on a real socket: who calls it, what lies in its way, what a proxy is told."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from koord.agent.hooks.base_hook import BaseHook
from koord.agent.hooks.hook import HookStage
from koord.delivery.cri.hook_servers import HookServers
from koord.delivery.hooks.messages import CONTAINER_STAGES, HOOKS, POD_STAGES, method_of
from koord.delivery.hooks.registration import Registration
from koord.delivery.hooks.server import MOST_BYTES, AgentHookServer, ServerOptions
from koord.delivery.hooks.service import HookServices
from koord.delivery.policy import DeliveryPolicy
from tests.delivery.hooks.test_service import ServiceSetting, echo, of_container, of_pod
from tests.delivery.nri.test_plugin import Broken, batch
from tests.kube.harness import run

STAGES = (HookStage.PRE_RUN_POD_SANDBOX, HookStage.PRE_CREATE_CONTAINER)


class Place:
    """Where one server lives.

    Attributes:
        socket, folder: its own and the proxy's.
    """

    def __init__(self, folder: Path, *extra: BaseHook) -> None:
        self.setting = ServiceSetting(folder / "node", *extra)
        self.socket, self.folder = folder / "k.sock", folder / "hookserver.d"
        self.folder.mkdir()

    def server(self, **more: Any) -> AgentHookServer:
        asked, policy = self.setting, more.pop("policy", DeliveryPolicy())
        registration = Registration(self.folder, "/var/run/k.sock", "Ignore", STAGES)
        options = ServerOptions(self.socket, registration, **{"look_seconds": 0.001} | more)
        return AgentHookServer(options, HookServices(
            asked.node.creation, asked.arrivals, asked.node.reconciler.restate, asked.calls,
            lambda: False, policy,
        ))  # fmt: skip

    def told(self) -> Any:
        return json.loads((self.folder / "koordlet.json").read_text())

    async def call(self, stage: str, payload: bytes) -> bytes:
        # As large as it may be and larger; the server's limit is the one that counts.
        large = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(f"unix:{self.socket}", options=large) as channel:
            answer: bytes = await channel.unary_unary(method_of(stage))(payload, timeout=20)
            return answer


@asynccontextmanager
async def running(server: AgentHookServer) -> AsyncIterator[AgentHookServer]:
    serving = asyncio.ensure_future(server.run())
    try:
        yield server
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


async def until(condition: Callable[[], object]) -> None:
    while not condition():
        await asyncio.sleep(0.001)


def story(folder: Path, told: Callable[[Place], Awaitable[None]], *extra: BaseHook) -> None:
    run(told(Place(folder, *extra)))  # type: ignore[arg-type]


def test_every_method_is_answered(tmp_path: Path) -> None:
    async def told(place: Place) -> None:
        await place.setting.knows(batch())
        async with running(place.server()) as server:
            await until(lambda: server.serving)
            for stage in (*POD_STAGES, *CONTAINER_STAGES):
                asked = of_pod(batch()) if stage in POD_STAGES else of_container(batch())
                assert await place.call(stage, asked.SerializeToString())
            asked = of_container(batch())
            answer = HOOKS.ContainerResourceHookResponse.FromString(
                await place.call("PreCreateContainer", asked.SerializeToString())
            )
            assert answer.container_resources.cpu_quota == 50_000
            answer.container_resources.CopyFrom(asked.container_resources)
            assert answer == echo(asked)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await place.call("PreRemoveRunPodSandbox", b"")
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
            assert {each["method"] for each in server.status()["calls"]} == {
                *POD_STAGES, *CONTAINER_STAGES,
            }  # fmt: skip

    story(tmp_path, told)


def test_a_proxy_is_told_and_the_socket_is_roots_alone(tmp_path: Path) -> None:
    async def told(place: Place) -> None:
        async with running(place.server()) as server:
            await until(lambda: server.serving)
            assert place.told() == {
                "remote-endpoint": "/var/run/k.sock",
                "failure-policy": "Ignore",
                "runtime-hooks": ["PreRunPodSandbox", "PreCreateContainer"],
            }
            assert stat.S_IMODE(place.socket.stat().st_mode) == 0o600
            assert [entry.name for entry in place.folder.iterdir()] == ["koordlet.json"]
            # A proxy that is installed anew empties its folder.
            (place.folder / "koordlet.json").unlink()
            await until((place.folder / "koordlet.json").exists)
        assert not place.socket.exists()
        # Who upgrades koordlet wants to be called again.
        assert place.told()["failure-policy"] == "Ignore"
        async with running(place.server(stays=False)) as server:
            await until(lambda: server.serving)
        assert list(place.folder.iterdir()) == []

    story(tmp_path, told)


def test_an_agent_that_is_back_says_so_and_makes_the_folder_of_its_socket(tmp_path: Path) -> None:
    """The proxy takes a file that was written again for another server, whom it has not given up.

    koordlet's own is beneath ``/run``, which is empty after a boot.
    """

    async def told(place: Place) -> None:
        place.socket = tmp_path / "made" / "k.sock"
        proxy = HookServers(place.folder)
        found = []
        for _ in range(2):
            async with running(place.server()) as server:
                await until(lambda: server.serving)
                found.append(proxy.of_stage(STAGES[0]))
                assert proxy.of_stage(STAGES[0]) == found[-1]
        assert None not in found
        assert found[0] != found[1]

    story(tmp_path, told)


def test_without_a_proxy_nothing_is_served(tmp_path: Path) -> None:
    async def told(place: Place) -> None:
        place.folder.rmdir()
        async with running(place.server()) as server:
            await until(lambda: server.error)
            assert "no proxy is there" in server.error
            assert not place.socket.exists()
            place.folder.mkdir()
            await until(lambda: server.serving)
            assert server.error == ""

    story(tmp_path, told)


def test_the_socket_of_one_who_died_is_taken_over(tmp_path: Path) -> None:
    async def told(place: Place) -> None:
        with socket.socket(socket.AF_UNIX) as died:
            died.bind(os.fspath(place.socket))
        async with running(place.server()) as server:
            await until(lambda: server.serving)
            assert await place.call("PostStopContainer", b"") == b""

    story(tmp_path, told)


def test_the_socket_of_one_who_lives_is_not(tmp_path: Path) -> None:
    async def told(place: Place) -> None:
        async with running(place.server()) as first:
            await until(lambda: first.serving)
            before = place.socket.stat().st_ino
            second = place.server()
            async with running(second):
                await until(lambda: second.error)
                assert "another process serves this one" in second.error
                assert place.socket.stat().st_ino == before
                assert await place.call("PostStopContainer", b"") == b""
            assert place.socket.stat().st_ino == before
            assert first.serving

    story(tmp_path, told)


@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_else_lies_there_stays(tmp_path: Path, kind: str) -> None:
    make = {
        "file": lambda path: path.write_text("precious"),
        "directory": lambda path: path.mkdir(),
        "link": lambda path: path.symlink_to("/nowhere"),
    }

    async def told(place: Place) -> None:
        make[kind](place.socket)
        async with running(place.server()) as server:
            await until(lambda: server.error)
            assert "what lies there is left alone" in server.error
            assert not server.serving
        assert place.socket.is_symlink() or place.socket.exists()

    story(tmp_path, told)


def test_a_socket_that_is_replaced_is_made_again_once_there_is_room(tmp_path: Path) -> None:
    async def told(place: Place) -> None:
        async with running(place.server()) as server:
            await until(lambda: server.serving)
            place.socket.unlink()
            place.socket.write_text("a file")
            await until(lambda: not server.serving and "left alone" in server.error)
            assert place.socket.read_text() == "a file"
            place.socket.unlink()
            await until(lambda: server.serving)
            assert await place.call("PostStopContainer", b"") == b""

    story(tmp_path, told)


def test_sizes_are_bounded(tmp_path: Path) -> None:
    async def told(place: Place) -> None:
        await place.setting.knows(batch())
        async with running(place.server()) as server:
            await until(lambda: server.serving)
            for size, answers in ((3 << 20, True), (5 << 20, False)):
                large = of_container(batch(), container_envs={"A": "x" * size})
                answer = await place.call("PreCreateContainer", large.SerializeToString())
                assert bool(answer) is answers
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await place.call("PreCreateContainer", bytes(MOST_BYTES + 1))
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert await place.call("PreCreateContainer", b"\xff") == b""

    story(tmp_path, told)


def test_a_failure_that_counts_is_an_error_of_the_call(tmp_path: Path) -> None:
    async def told(place: Place) -> None:
        await place.setting.knows(batch())
        async with running(place.server(policy=DeliveryPolicy(fails=True))) as server:
            await until(lambda: server.serving)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await place.call("PreCreateContainer", of_container(batch()).SerializeToString())
            assert caught.value.details() == "AAA: pod: annotation: got 1, expected 2"

    story(tmp_path, told, Broken())


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    async def told(place: Place) -> None:
        # In the way of the file, whoever this test runs as.
        (place.folder / "koordlet.json").mkdir()
        async with running(place.server()) as server:
            await until(lambda: server.error)
            assert "Is a directory" in server.error
            (place.folder / "koordlet.json").rmdir()
            await until(lambda: server.serving)

    story(tmp_path, told)
