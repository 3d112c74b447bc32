# SPDX-License-Identifier: Apache-2.0
"""Something else where a socket should be: the proxy's own, the runtime's, a hook server's."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from koord.base.errors import KoordError
from koord.delivery.cri.messages import CRI
from koord.delivery.cri.proxy import make_place
from tests.delivery.cri.world import World, create_request, world


@pytest.mark.parametrize(
    "make", [Path.touch, Path.mkdir, os.mkfifo, lambda path: path.symlink_to("/nowhere")]
)
def test_what_lies_in_the_sockets_place_stays(
    tmp_path: Path, make: Callable[[Path], object]
) -> None:
    place = tmp_path / "p.sock"
    make(place)
    before = place.lstat()
    with pytest.raises(KoordError, match="a path where nothing is but a socket"):
        make_place(place)
    assert place.lstat().st_ino == before.st_ino


def test_the_socket_of_a_run_before_goes(tmp_path: Path) -> None:
    place = tmp_path / "made" / "p.sock"
    make_place(place)
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(place))
    make_place(place)
    assert not place.exists()


def test_a_file_in_place_of_the_runtimes_socket_is_the_calls_failure(tmp_path: Path) -> None:
    async def run() -> None:
        runtime = tmp_path / "elsewhere"
        runtime.write_text("no socket")
        async with world(tmp_path, remote_runtime_service_endpoint=str(runtime)) as here:
            with pytest.raises(grpc.aio.AioRpcError) as failed:
                await here.call("CreateContainer", create_request())
            assert failed.value.code() is grpc.StatusCode.UNAVAILABLE
            assert here.proxy.store.container_ids() == []

    asyncio.run(run())
    assert (tmp_path / "elsewhere").read_text() == "no socket"


def test_a_file_in_place_of_a_hook_servers_socket_holds_up_nothing(tmp_path: Path) -> None:
    async def made(here: World) -> str:
        here.runtime.answers["CreateContainer"] = CRI.CreateContainerResponse(container_id="c")
        answer = await here.call("CreateContainer", create_request(), CRI.CreateContainerResponse)
        return str(answer.container_id)

    async def run() -> None:
        file = tmp_path / "elsewhere"
        file.write_text("no socket")
        async with world(tmp_path) as here:
            here.register(**{"remote-endpoint": str(file)})
            assert await made(here) == "c"
            assert here.runtime.of("CreateContainer") == [create_request().SerializeToString()]
            (call,) = here.proxy.status()["calls"]
            assert (call["method"], call["failures"]) == ("PreCreateContainer", 1)

    asyncio.run(run())
    assert (tmp_path / "elsewhere").read_text() == "no socket"
