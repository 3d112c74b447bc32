# SPDX-License-Identifier: Apache-2.0
"""One connection to a runtime, which goes and comes back, over real sockets."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from koord.delivery.nri.messages import NRI
from koord.delivery.nri.plugin import PluginServices
from koord.delivery.nri.plugin_loop import LONGEST_PAUSE_SECONDS, NriLoop, NriOptions
from tests.delivery.nri.test_plugin import Setting
from tests.delivery.nri.wire import FakeRuntime, frame
from tests.kube.harness import run

QUICK = NriOptions("", backoff_duration=0.001, backoff_cap=0.001)


def served(folder: Path, story: Callable[[FakeRuntime, NriLoop], Awaitable[None]]) -> FakeRuntime:
    setting, runtime = Setting(folder), FakeRuntime(folder / "nri.sock")
    services: PluginServices = setting.plugin._services
    options = replace(QUICK, socket=str(runtime.path))

    async def whole() -> None:
        loop = NriLoop(options, services, random.Random(1))
        running = asyncio.ensure_future(loop.run())
        try:
            await story(runtime, loop)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if runtime._server is not None:
                await runtime.stop()

    run(whole())
    return runtime


async def until(check: Callable[[], Any]) -> None:
    while not check():
        await asyncio.sleep(0.001)


async def synchronized(runtime: FakeRuntime, loop: NriLoop) -> Any:
    plugin = await runtime.plugin()
    configured = await plugin.call("Configure", NRI.ConfigureRequest(runtime_name="fake"))
    assert NRI.ConfigureResponse.FromString(configured.payload).events
    assert (await plugin.call("Synchronize", NRI.SynchronizeRequest())).status.code == 0
    await until(lambda: loop.status()["connected"])
    return plugin


def test_it_registers_and_says_so(tmp_path: Path) -> None:
    async def story(runtime: FakeRuntime, loop: NriLoop) -> None:
        assert loop.status()["connected"] is False
        await runtime.start()
        plugin = await synchronized(runtime, loop)
        status = loop.status()
        assert status["synchronized"]
        assert (status["runtime"], status["connections"], status["error"]) == ("fake", 1, "")
        unknown = await plugin.call("Later", NRI.Empty())
        assert unknown.status.code == 12

    (asked,) = served(tmp_path, story).registered
    assert (asked.plugin_name, asked.plugin_idx) == ("koordlet_nri", "00")


def test_it_comes_back_and_never_has_two_connections(tmp_path: Path) -> None:
    async def story(runtime: FakeRuntime, loop: NriLoop) -> None:
        await runtime.start()
        for _ in range(3):
            await synchronized(runtime, loop)
            await runtime.stop()
            await until(lambda: not loop.status()["connected"])
            await runtime.start()
        await synchronized(runtime, loop)

    runtime = served(tmp_path, story)
    assert len(runtime.registered) == 4
    assert runtime.most_open == 1


@pytest.mark.parametrize("noise", [frame(1, b"\xff" * 40), b"\xff" * 8])
def test_noise_ends_the_connection_and_another_begins(tmp_path: Path, noise: bytes) -> None:
    async def story(runtime: FakeRuntime, loop: NriLoop) -> None:
        await runtime.start()
        plugin = await synchronized(runtime, loop)
        plugin.writer.write(noise)
        await until(lambda: not loop.status()["connected"])
        await synchronized(runtime, loop)

    assert served(tmp_path, story).most_open == 1


def test_a_refusal_is_told_and_tried_again(tmp_path: Path) -> None:
    async def story(runtime: FakeRuntime, loop: NriLoop) -> None:
        runtime.refuses = "plugin is not wanted"
        await runtime.start()
        await until(lambda: len(runtime.registered) >= 2)
        assert loop.status()["error"] == "CallError: plugin is not wanted"
        runtime.refuses = ""
        await synchronized(runtime, loop)

    served(tmp_path, story)


def test_a_file_in_place_of_the_socket_is_told(tmp_path: Path) -> None:
    async def story(runtime: FakeRuntime, loop: NriLoop) -> None:
        runtime.path.write_text("no socket")
        await until(lambda: loop.error)
        assert "refused" in loop.error
        runtime.path.unlink()
        await runtime.start()
        await synchronized(runtime, loop)

    served(tmp_path, story)


def test_pauses_grow_and_are_bounded_whatever_they_are_told_to_be() -> None:
    usual = NriOptions("s")
    assert [usual.pause_seconds(n) for n in range(1, 9)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert usual.pause_seconds(10**9) == LONGEST_PAUSE_SECONDS
    far = replace(usual, backoff_cap=4.6e9, backoff_factor=1e308)
    assert far.pause_seconds(5) == LONGEST_PAUSE_SECONDS
    assert replace(usual, backoff_steps=2).pause_seconds(9) == 4
    assert replace(usual, backoff_factor=0.0).pause_seconds(9) == 0
