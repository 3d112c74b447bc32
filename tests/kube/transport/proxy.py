# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy on loopback that cuts connections, or lets nothing through for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import Random

_CHUNK = 16384


class Proxy:
    """Bytes in both directions, between whoever connects and one server."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._open = asyncio.Event()
        self._open.set()
        self._pairs: list[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self.cuts = 0

    def cut(self, draw: Random, share: float) -> None:
        """Resets each connection with that probability."""
        for pair in self._pairs:
            if draw.random() < share:
                self.cuts += 1
                for writer in pair:
                    writer.transport.abort()

    def hold(self) -> None:
        """Lets nothing more through; connections stay open and fill up."""
        self._open.clear()

    def release(self) -> None:
        self._open.set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            upstream, back = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            writer.transport.abort()
            self._tasks.discard(task)
            return
        pair = (writer, back)
        self._pairs.append(pair)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._forward(reader, back))
                both.create_task(self._forward(upstream, writer))
        finally:
            self._pairs.remove(pair)
            self._tasks.discard(task)
            for end in pair:
                end.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while chunk := await reader.read(_CHUNK):
                await self._open.wait()
                writer.write(chunk)
                await writer.drain()
        writer.transport.abort()

    async def end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@asynccontextmanager
async def proxy_to(port: int) -> AsyncIterator[tuple[Proxy, int]]:
    """A proxy to a port of loopback, and its own port."""
    proxy = Proxy(port)
    listener = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    try:
        yield proxy, listener.sockets[0].getsockname()[1]
    finally:
        listener.close()
        await proxy.end()
        await listener.wait_closed()
