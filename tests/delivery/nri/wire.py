# SPDX-License-Identifier: Apache-2.0
"""A runtime's side of the wire, written down anew: frames, messages, and calls to a plugin."""

from __future__ import annotations

import asyncio
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from koord.delivery.nri.messages import NRI, TTRPC

PLUGIN, RUNTIME = 1, 2
SERVICE = "nri.pkg.api.v1alpha1."


def frame(connection: int, payload: bytes) -> bytes:
    return struct.pack(">II", connection, len(payload)) + payload


def message(stream: int, kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">IIBB", len(body), stream, kind, flags) + body


def call(stream: int, method: str, asked: Any, service: str = "Plugin") -> bytes:
    request = TTRPC.Request(
        service=SERVICE + service, method=method, payload=asked.SerializeToString()
    )
    return frame(PLUGIN, message(stream, 1, request.SerializeToString()))


def parsed(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Connection, stream, kind and body of all messages; frames are to hold at most 4096 bytes."""
    streams: dict[int, bytes] = {}
    at = 0
    while at < len(data):
        connection, length = struct.unpack_from(">II", data, at)
        assert length <= 4096
        streams[connection] = streams.get(connection, b"") + data[at + 8 : at + 8 + length]
        at += 8 + length
    found = []
    for connection, text in streams.items():
        at = 0
        while at < len(text):
            length, stream, kind, _ = struct.unpack_from(">IIBB", text, at)
            found.append((connection, stream, kind, text[at + 10 : at + 10 + length]))
            at += 10 + length
    return found


class Pipe:
    """A writer that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    async def drain(self) -> None:
        await asyncio.sleep(0)


class FakeRuntime:
    """Listens, takes plugins in, and calls them.

    Attributes:
        registered: what each plugin said when it registered.
        refuses: an error to answer registrations with.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.registered: list[Any] = []
        self.refuses = ""
        self.open = 0
        self.most_open = 0
        self._plugins: asyncio.Queue[FakePlugin] = asyncio.Queue()
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._accept, str(self.path))

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.path.unlink(missing_ok=True)

    async def plugin(self) -> FakePlugin:
        """The next plugin that has registered."""
        return await self._plugins.get()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self._serve(FakePlugin(reader, writer))
        except (asyncio.CancelledError, ConnectionError, asyncio.IncompleteReadError):
            pass  # it was stopped, or the plugin has gone
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _serve(self, plugin: FakePlugin) -> None:
        while True:
            connection, stream, body = await plugin.read()
            if connection == RUNTIME:
                request = TTRPC.Request.FromString(body)
                assert request.service == SERVICE + "Runtime"
                assert request.method == "RegisterPlugin"
                self.registered.append(NRI.RegisterPluginRequest.FromString(request.payload))
                answer = TTRPC.Response()
                if self.refuses:
                    answer.status.code, answer.status.message = 2, self.refuses
                await plugin.send(RUNTIME, stream, 2, answer.SerializeToString())
                if not self.refuses:
                    self._plugins.put_nowait(plugin)
            else:
                plugin.answered(stream, body)


class FakePlugin:
    """A plugin as its runtime sees it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self._held: dict[int, bytes] = {PLUGIN: b"", RUNTIME: b""}
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._stream = 1

    async def send(self, connection: int, stream: int, kind: int, body: bytes) -> None:
        self.writer.write(frame(connection, message(stream, kind, body)))
        await self.writer.drain()

    async def read(self) -> tuple[int, int, bytes]:
        """Connection, stream and body of the next whole message."""
        while True:
            for connection, held in self._held.items():
                if len(held) >= 10:
                    length, stream, _, _ = struct.unpack_from(">IIBB", held)
                    if len(held) >= 10 + length:
                        self._held[connection] = held[10 + length :]
                        return connection, stream, held[10 : 10 + length]
            connection, length = struct.unpack(">II", await self._reader.readexactly(8))
            self._held[connection] += await self._reader.readexactly(length)

    def answered(self, stream: int, body: bytes) -> None:
        self._waiting.pop(stream).set_result(TTRPC.Response.FromString(body))

    async def call(self, method: str, asked: Any) -> Any:
        """The ``Response`` of a call."""
        stream, self._stream = self._stream, self._stream + 2
        waiting = self._waiting[stream] = asyncio.get_running_loop().create_future()
        self.writer.write(call(stream, method, asked))
        return await waiting
