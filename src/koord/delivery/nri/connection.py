# SPDX-License-Identifier: Apache-2.0
"""One socket to a runtime: answers its calls and makes some, both ways at once."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from koord.base.errors import one_line
from koord.delivery.nri import ttrpc
from koord.delivery.nri.multiplexer import (
    PLUGIN_CONNECTION,
    RUNTIME_CONNECTION,
    FrameReader,
    ProtocolError,
    frames_of,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from koord.delivery.nri.ttrpc import TtrpcMessage

    Handler = Callable[[str, str, bytes], Awaitable[bytes]]

MOST_CALLS = 64
"""Calls of the runtime that are answered at a time; more of them wait unread."""

_READ_BYTES = 1 << 16


class RuntimeConnection:
    """A connection over a stream of bytes.

    Args:
        reader, writer: the socket's two ways.
        handler: answers ``(service, method, payload)``; a ``CallError`` of its is the answer.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, handler: Handler
    ) -> None:
        self._reader, self._writer, self._handler = reader, writer, handler
        self._free = asyncio.Semaphore(MOST_CALLS)
        self._stream = 1
        self._waiting: dict[int, asyncio.Future[TtrpcMessage]] = {}
        self._answers: set[asyncio.Task[None]] = set()

    async def call(self, service: str, method: str, payload: bytes) -> bytes:
        """Calls the runtime; :meth:`serve` must be running.

        Raises:
            CallError: it refused.
            ProtocolError: the answer is none.
        """
        stream, self._stream = self._stream, self._stream + 2
        self._waiting[stream] = asyncio.get_running_loop().create_future()
        try:
            await self._send(RUNTIME_CONNECTION, ttrpc.request(stream, service, method, payload))
            return ttrpc.result_of(await self._waiting[stream])
        finally:
            del self._waiting[stream]

    async def serve(self) -> None:
        """Reads until the runtime closes; answers each call in a task of its own.

        Raises:
            ProtocolError: what came is no frame, message or call.
            OSError: the socket failed.
        """
        frames = FrameReader()
        messages = {
            PLUGIN_CONNECTION: ttrpc.MessageReader(),
            RUNTIME_CONNECTION: ttrpc.MessageReader(),
        }
        try:
            while data := await self._reader.read(_READ_BYTES):
                for number, payload in frames.feed(data):
                    if number in messages:  # nobody has opened another
                        for message in messages[number].feed(payload):
                            await self._take(number, message)
        finally:
            for task in self._answers:
                task.cancel()
            await asyncio.gather(*self._answers, return_exceptions=True)

    async def _take(self, number: int, message: TtrpcMessage) -> None:
        if number == RUNTIME_CONNECTION and message.kind == ttrpc.MessageKind.RESPONSE:
            waiting = self._waiting.get(message.stream)
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif number == PLUGIN_CONNECTION and message.kind == ttrpc.MessageKind.REQUEST:
            request = ttrpc.read_request(message)
            await self._free.acquire()
            task = asyncio.create_task(self._answer(message.stream, request))
            self._answers.add(task)
            task.add_done_callback(self._answered)
        else:
            raise ProtocolError(f"stream {message.stream}: got a message of kind {message.kind}")

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._answers.discard(task)
        self._free.release()

    async def _answer(self, stream: int, request: Any) -> None:
        try:
            payload = await self._handler(request.service, request.method, request.payload)
            answer = ttrpc.response(stream, payload)
        except ttrpc.CallError as error:
            answer = ttrpc.response(stream, b"", error.code, one_line(str(error)))
        # What reads the socket finds out that it is gone.
        with suppress(OSError):
            await self._send(PLUGIN_CONNECTION, answer)

    async def _send(self, number: int, message: TtrpcMessage) -> None:
        self._writer.write(frames_of(number, ttrpc.pack(message)))
        await self._writer.drain()

    async def close(self) -> None:
        """Closes the socket and waits until it is closed."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()
