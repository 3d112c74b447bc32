# SPDX-License-Identifier: Apache-2.0
"""Calls pass as they are: any method, streams both ways, metadata, deadline, status and end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import grpc
import pytest

from koord.delivery.cri.messages import RUNTIME_SERVICE
from koord.delivery.cri.relay import RelayedCall
from tests.delivery.cri.world import World, world

_LATER = "/runtime.v2.LaterService/NotInventedYet"
_DETAILS = ("grpc-status-details-bin", b"\x08\x05\x12\x01x")


async def _failure(call: Any) -> grpc.aio.AioRpcError:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value


def test_a_stream_of_a_method_that_is_not_known_passes_both_ways(tmp_path: Path) -> None:
    async def back(context: Any) -> None:
        while (message := await context.read()) is not grpc.aio.EOF:
            await context.write(b"<" + message + b">")

    async def run() -> None:
        async with world(tmp_path) as here:
            here.runtime.handlers["NotInventedYet"] = back
            call = here.channel.stream_stream(_LATER)()
            for message in (b"", b"one", b"\xff\x00"):
                # Each is answered before the next is sent: nothing is held back.
                await call.write(message)
                assert await call.read() == b"<" + message + b">"
            await call.done_writing()
            assert await call.read() is grpc.aio.EOF
            assert await call.code() is grpc.StatusCode.OK

    asyncio.run(run())


def test_metadata_trailers_and_status_details_pass(tmp_path: Path) -> None:
    async def refuse(context: Any) -> None:
        await context.read()
        await context.send_initial_metadata((("began", "yes"),))
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such thing", (("end", "1"), _DETAILS))

    async def run() -> None:
        async with world(tmp_path) as here:
            here.runtime.handlers["NotInventedYet"] = refuse
            sent = (("traceparent", "00-1"), ("blob-bin", b"\x00\xff"))
            error = await _failure(here.channel.unary_unary(_LATER)(b"x", metadata=sent))
            assert error.code() is grpc.StatusCode.NOT_FOUND
            assert error.details() == "no such thing"
            assert dict(error.trailing_metadata()) == dict((("end", "1"), _DETAILS))
            assert dict(error.initial_metadata()) == {"began": "yes"}
            assert {key: here.runtime.metadata[key] for key, _ in sent} == dict(sent)

    asyncio.run(run())


def test_a_runtime_that_refuses_what_it_has_not_read_is_heard(tmp_path: Path) -> None:
    """As one does that does not know a method. Once in a hundred times the write fails first."""

    async def refuse(context: Any) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")

    async def run() -> None:
        async with world(tmp_path) as here:
            here.runtime.handlers["NotInventedYet"] = refuse
            call = here.channel.unary_unary(_LATER)
            for _ in range(25):
                calls = [_failure(call(b"x" * size)) for size in (1, 200_000) * 4]
                for error in await asyncio.gather(*calls):
                    assert error.code() is grpc.StatusCode.UNIMPLEMENTED
                    assert error.details() == "no such method"

    asyncio.run(run())


class TwiceEnded:
    """A channel and a call of it that ends, and then ends again otherwise, as grpc.aio tells it."""

    def __init__(self, *statuses: tuple[grpc.StatusCode, str]) -> None:
        self._statuses = list(statuses)

    def stream_stream(self, method: str) -> Any:
        return lambda **_: self

    def add_done_callback(self, callback: Any) -> None:
        self._callback = callback

    async def initial_metadata(self) -> None:
        pass

    trailing_metadata = done_writing = initial_metadata

    async def read(self) -> Any:
        self._callback(self)
        asyncio.get_running_loop().call_later(0.01, self._end_again)
        return grpc.aio.EOF

    def _end_again(self) -> None:
        del self._statuses[0]
        self._callback(self)

    async def code(self) -> grpc.StatusCode:
        return self._statuses[0][0]

    async def details(self) -> str:
        return self._statuses[0][1]

    def cancel(self) -> None:
        pass


_RUNTIMES = grpc.StatusCode.UNIMPLEMENTED, "no such method"
_OF_GRPC = grpc.StatusCode.INTERNAL, "Internal error from Core"


@pytest.mark.parametrize("statuses", [(_RUNTIMES, _OF_GRPC), (_OF_GRPC, _RUNTIMES)])
def test_the_runtimes_word_counts_whichever_came_first(statuses: Any) -> None:
    context = Mock(time_remaining=lambda: None, invocation_metadata=tuple)
    call = RelayedCall(TwiceEnded(*statuses), _LATER, context, hold=True)
    asyncio.run(call.run(ended=True))
    assert (call.code, call.details) == _RUNTIMES


def test_a_deadline_is_the_runtimes_as_well(tmp_path: Path) -> None:
    remaining = []

    async def wait(context: Any) -> None:
        await context.read()
        remaining.append(context.time_remaining())
        await context.abort(grpc.StatusCode.DEADLINE_EXCEEDED, "mine")

    async def run() -> None:
        async with world(tmp_path) as here:
            here.runtime.handlers["NotInventedYet"] = wait
            call = here.channel.unary_unary(_LATER)
            assert (await _failure(call(b"", timeout=77))).details() == "mine"
            await _failure(call(b""))

    asyncio.run(run())
    # grpc's clocks differ by a little; what counts is that it is this call's.
    assert 7 < remaining[0] < 90
    assert remaining[1] is None


@pytest.mark.parametrize("path", [_LATER, f"{RUNTIME_SERVICE}StartContainer"])
def test_a_call_that_is_cancelled_is_cancelled_at_the_runtime(tmp_path: Path, path: str) -> None:
    async def run() -> None:
        begun, ended = asyncio.Event(), asyncio.Event()

        async def wait(context: Any) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with world(tmp_path) as here:
            here.runtime.handlers[path.rpartition("/")[2]] = wait
            call = here.channel.unary_unary(path)(b"")
            await asyncio.wait_for(begun.wait(), 30)
            call.cancel()
            await asyncio.wait_for(ended.wait(), 30)

    asyncio.run(run())


def test_a_large_message_passes_both_ways(tmp_path: Path) -> None:
    """Kubelets and containerd take 16 MiB; grpc by itself 4."""

    async def run() -> None:
        async with world(tmp_path) as here:
            here.runtime.answers["NotInventedYet"] = lambda message: message
            large = bytes(15 << 20)
            assert await here.channel.unary_unary(_LATER)(large) == large

    asyncio.run(run())


async def _unreachable(here: World, path: str) -> None:
    error = await _failure(here.channel.unary_unary(path)(b""))
    assert error.code() is grpc.StatusCode.UNAVAILABLE


def test_a_runtime_that_is_not_there_is_the_calls_failure(tmp_path: Path) -> None:
    async def run() -> None:
        async with world(tmp_path, remote_runtime_service_endpoint="/nowhere/at/all") as here:
            for path in (_LATER, f"{RUNTIME_SERVICE}RunPodSandbox"):
                await _unreachable(here, path)
            assert await here.proxy.ready()

    asyncio.run(run())


@pytest.mark.parametrize("messages", [[], [b"a", b"b", b"c"]])
def test_a_hooked_method_with_another_number_of_messages_passes(
    tmp_path: Path, messages: list[bytes]
) -> None:
    async def back(context: Any) -> None:
        got = []
        while (message := await context.read()) is not grpc.aio.EOF:
            got.append(message)
        await context.write(b"|".join(got))

    async def run() -> None:
        async with world(tmp_path) as here:
            here.register()
            here.runtime.handlers["CreateContainer"] = back
            call = here.channel.stream_stream(f"{RUNTIME_SERVICE}CreateContainer")(iter(messages))
            assert [answer async for answer in call] == [b"|".join(messages)]
            assert here.hooks.requests == []

    asyncio.run(run())
