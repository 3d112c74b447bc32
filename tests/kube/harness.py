# SPDX-License-Identifier: Apache-2.0
"""What tests of the client side share: coroutines run, a transport with a script, a raw server."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from koord.base.clock import VirtualClock, VirtualLoop
from koord.kube.codec.decoder import refusal
from koord.kube.errors import ApiError
from koord.kube.transport.messages import Request, Response

T = TypeVar("T")

# Real sockets answer in milliseconds; a test that waits for longer waits for ever.
PATIENCE_SECONDS = 30.0


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine on a real event loop; no task may be left when it ends."""

    async def timed() -> T:
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await work

    return asyncio.run(_tidy(timed()))


def run_virtual(work: Coroutine[Any, Any, T], clock: VirtualClock | None = None) -> T:
    """Runs a coroutine in virtual time: it sleeps at no cost. No sockets, no threads."""
    chosen = clock or VirtualClock()
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(chosen)) as runner:
        return runner.run(_tidy(work))


@contextmanager
def collector_off() -> Iterator[None]:
    """Nothing that is garbage in a circle goes meanwhile."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _tidy(work: Coroutine[Any, Any, T]) -> T:
    result = await work
    # asyncio's own tasks, as of a handshake that failed, take a few turns to end.
    for _ in range(10):
        left = asyncio.all_tasks() - {asyncio.current_task()}
        if not left:
            return result
        await asyncio.sleep(0)
    raise AssertionError(f"tasks outlive the work: {left}")


@contextmanager
def logged(name: str, level: int) -> Iterator[list[logging.LogRecord]]:
    """The records of one logger from a level on, whatever others have done to logging."""
    records: list[logging.LogRecord] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    logger, handler = logging.getLogger(name), Keep(level)
    before = logger.level, logger.disabled, logger.manager.disable
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.disabled = False
    logging.disable(logging.NOTSET)
    try:
        yield records
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.disabled = before[1]
        logging.disable(before[2])


def answer(document: object, status: int = 200, **headers: str) -> Response:
    """A JSON answer; ``retry_after="1"`` becomes the header ``retry-after``."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, json.dumps(document).encode(), headers=named)


def failure(code: int, reason: str = "", message: str = "no", **headers: str) -> Response:
    """An answer that is a Status."""
    status = {"kind": "Status", "status": "Failure", "reason": reason, "message": message}
    return answer(status | {"code": code}, code, **headers)


def event(kind: str, document: object) -> bytes:
    """One line of a watch."""
    return json.dumps({"type": kind, "object": document}, separators=(",", ":")).encode()


class FakeStream:
    """A watch that gives the batches it was made with, then ends or fails."""

    def __init__(self, *steps: list[bytes] | Exception) -> None:
        self._steps = list(steps)
        self.closed = False

    async def read(self) -> list[bytes]:
        await asyncio.sleep(0)
        if not self._steps:
            return []
        step = self._steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    async def close(self) -> None:
        self.closed = True


Step = Response | Exception | FakeStream


@dataclass
class FakeTransport:
    """Answers from a script, one step a call, and remembers what was asked and when.

    Attributes:
        script: answers in order; an exception is raised. The last one is repeated.
        requests: what was asked.
        times: the loop's time of each request.
    """

    script: list[Step]
    requests: list[Request] = field(default_factory=list)
    times: list[float] = field(default_factory=list)

    async def send(self, request: Request) -> Response:
        step = self._next(request)
        assert isinstance(step, Response)
        return step

    async def open(self, request: Request) -> FakeStream:
        step = self._next(request)
        if isinstance(step, Response):
            raise ApiError(refusal(step))
        assert isinstance(step, FakeStream)
        return step

    async def close(self) -> None:
        self.script.clear()

    def _next(self, request: Request) -> Step:
        self.requests.append(request)
        self.times.append(asyncio.get_running_loop().time())
        step = self.script.pop(0) if len(self.script) > 1 else self.script[0]
        if isinstance(step, Exception):
            raise step
        return step


@dataclass(frozen=True)
class Heard:
    """A request as a raw server heard it; header names in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Speaker:
    """One connection of a raw server: says bytes, whole answers, or nothing more."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    async def say(self, text: bytes) -> None:
        """Any bytes."""
        self._writer.write(text)
        await self._writer.drain()

    async def answer(self, body: bytes, status: int = 200, *headers: str) -> None:
        """A whole answer with a length."""
        lines = (*headers, "Content-Type: application/json", f"Content-Length: {len(body)}")
        await self.say(_head(status, lines) + body)

    async def begin(self, *headers: str) -> None:
        """The head of an answer in chunks."""
        await self.say(_head(200, (*headers, "Transfer-Encoding: chunked")))

    async def chunk(self, text: bytes) -> None:
        """One chunk; an empty one ends the answer."""
        await self.say(b"%x\r\n%s\r\n" % (len(text), text))

    def cut(self) -> None:
        """Ends the connection at once, with a reset."""
        self._writer.transport.abort()


@dataclass
class RawServer:
    """An HTTP server that says exactly what a test wants it to."""

    url: str
    heard: list[Heard] = field(default_factory=list)


Answerer = Callable[[Heard, Speaker], Awaitable[None]]


@asynccontextmanager
async def raw_server(answerer: Answerer, **options: Any) -> AsyncIterator[RawServer]:
    """Serves on a free port of loopback; each request goes to ``answerer``."""
    handlers: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            while heard := await _request(reader):
                server.heard.append(heard)
                await answerer(heard, Speaker(writer))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            handlers.discard(task)
            writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0, **options)
    scheme = "https" if "ssl" in options else "http"
    server = RawServer(f"{scheme}://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    try:
        yield server
    finally:
        listener.close()
        for task in list(handlers):
            task.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await listener.wait_closed()


async def _request(reader: asyncio.StreamReader) -> Heard | None:
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode().split("\r\n")
    headers = {}
    for line in filter(None, lines):
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    method, target, _ = first.split(" ")
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Heard(method, target, headers, body)


def _head(status: int, lines: tuple[str, ...]) -> bytes:
    return "\r\n".join((f"HTTP/1.1 {status} Said", *lines, "", "")).encode()
