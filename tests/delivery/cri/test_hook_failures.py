# SPDX-License-Identifier: Apache-2.0
"""A hook server that is not there, slow or wrong holds up no pod; with ``Fail`` the kubelet hears
one line.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest

from koord.delivery.cri.hook_client import HookClient, HookServerError
from koord.delivery.cri.messages import CRI
from koord.delivery.hooks.messages import HOOKS
from tests.delivery.cri.world import World, create_request, world

_MARK = "PreCreateContainer of pod default/p container main"


async def never(context: Any) -> None:
    await asyncio.Event().wait()


async def broken(context: Any) -> None:
    await context.abort(grpc.StatusCode.INTERNAL, "hook is\nbroken")


def _slow(here: World) -> None:
    here.hooks.handlers["PreCreateContainerHook"] = never


def _broken(here: World) -> None:
    here.hooks.handlers["PreCreateContainerHook"] = broken


def _nonsense(here: World) -> None:
    here.hooks.answers["PreCreateContainerHook"] = b"\xff\xff\xff"


def _absent(here: World) -> None:
    here.register(**{"remote-endpoint": str(here.folder / "nobody")})


def _file(here: World) -> None:
    (here.folder / "plain").write_text("not a socket")
    here.register(**{"remote-endpoint": str(here.folder / "plain")})


_WAYS = pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (_slow, "no answer within 0.05 s"),
        (_broken, "INTERNAL: hook is"),
        (_nonsense, "the answer is none"),
        (_absent, "UNAVAILABLE"),
        (_file, "UNAVAILABLE"),
    ],
)


def _patience(break_it: Callable[[World], None]) -> float:
    """Seconds; those that answer are waited for however busy this machine is."""
    return 0.05 if break_it is _slow else 30.0


@_WAYS
@pytest.mark.parametrize("policy", ["Ignore", ""])
def test_the_kubelets_own_request_goes_on(
    tmp_path: Path, break_it: Callable[[World], None], words: str, policy: str
) -> None:
    async def run() -> None:
        async with world(tmp_path, runtime_hook_timeout=_patience(break_it)) as here:
            here.register(policy)
            break_it(here)
            raw = create_request(cpu_shares=2).SerializeToString()
            await here.call("CreateContainer", raw)
            assert here.runtime.of("CreateContainer") == [raw]
            calls = {each["method"]: each for each in here.proxy.status()["calls"]}
            assert words in calls["PreCreateContainer"]["error"]

    asyncio.run(run())


@_WAYS
def test_with_fail_the_kubelet_hears_who_failed_when_and_for_whom(
    tmp_path: Path, break_it: Callable[[World], None], words: str
) -> None:
    async def run() -> None:
        async with world(tmp_path, runtime_hook_timeout=_patience(break_it)) as here:
            here.register("Fail")
            break_it(here)
            if break_it in (_absent, _file):
                endpoint = here.proxy.hooks.servers.all()[0].endpoint
                here.register("Fail", **{"remote-endpoint": endpoint})
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await here.call("CreateContainer", create_request())
            details = raised.value.details() or ""
            assert raised.value.code() is grpc.StatusCode.UNKNOWN
            assert details.startswith("hook server err: /")
            assert f"(hooks.json): {_MARK}: " in details
            assert words in details
            assert "\n" not in details
            assert here.runtime.of("CreateContainer") == []

    asyncio.run(run())


def test_a_stage_after_the_fact_fails_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path) as here:
            here.register("Fail", ["PostStopPodSandbox", "PostStartContainer"])
            here.runtime.answers["CreateContainer"] = CRI.CreateContainerResponse(container_id="c")
            here.hooks.handlers["PostStartContainerHook"] = broken
            await here.call("CreateContainer", create_request())
            later = asyncio.create_task(here.proxy.hooks.run())
            await here.call("StartContainer", CRI.StartContainerRequest(container_id="c"))
            await here.call("StopPodSandbox", CRI.StopPodSandboxRequest(pod_sandbox_id="s1"))
            await here.proxy.hooks.drain()
            later.cancel()
            # The next one is told after one that failed.
            assert [name for name, _ in here.hooks.requests] == ["PostStopPodSandboxHook"]

    asyncio.run(run())


class _HandClock:
    seconds = 100.0

    def wall_seconds(self) -> float:
        return self.seconds

    def monotonic_seconds(self) -> float:
        return self.seconds


def test_one_that_did_not_answer_in_time_is_left_alone_for_a_moment(tmp_path: Path) -> None:
    """Else each of a hundred pods would wait for it."""

    async def run() -> None:
        clock = _HandClock()
        async with world(tmp_path) as here:
            here.hooks.handlers["PreCreateContainerHook"] = never
            client = HookClient(str(tmp_path / "h"), 0.05, clock)
            request = HOOKS.ContainerResourceHookRequest()
            with pytest.raises(HookServerError, match="no answer within"):
                await client.call("PreCreateContainer", request)
            del here.hooks.handlers["PreCreateContainerHook"]
            with pytest.raises(HookServerError, match="a moment ago"):
                await client.call("PreCreateContainer", request)
            assert here.hooks.requests == []
            clock.seconds += 5.0
            answers = HookClient(str(tmp_path / "h"), 30.0, clock)
            await answers.call("PreCreateContainer", request)
            assert len(here.hooks.requests) == 1
            await client.close()
            await answers.close()

    asyncio.run(run())


def test_one_that_registers_anew_is_called_at_once(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, runtime_hook_timeout=0.5) as here:
            here.register()
            _slow(here)
            await here.call("CreateContainer", create_request())
            del here.hooks.handlers["PreCreateContainerHook"]
            await here.call("CreateContainer", create_request())
            assert here.hooks.requests == []
            file = here.proxy.hooks.servers.directory / "hooks.json"
            before = file.stat().st_mtime_ns
            os.utime(file, ns=(before + 1, before + 1))
            await here.call("CreateContainer", create_request())
            assert len(here.hooks.requests) == 1

    asyncio.run(run())


def test_what_fails_in_the_proxy_itself_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with world(tmp_path) as here:
            here.register("Fail")

            def oops(*_: Any) -> Any:
                raise RuntimeError("a mistake of ours")

            monkeypatch.setattr("koord.delivery.cri.interception.container_request", oops)
            raw = create_request().SerializeToString()
            await here.call("CreateContainer", raw)
            assert here.runtime.of("CreateContainer") == [raw]

    asyncio.run(run())
