# SPDX-License-Identifier: Apache-2.0
"""A transport on which everything goes wrong that may: by lot, and so that a seed replays it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from koord.base import rng
from koord.kube.errors import TransportError
from koord.kube.transport.messages import Request, Response, Stream, Transport


@dataclass(frozen=True)
class Forecast:
    """How often each thing happens, from 0 to 1.

    ``conflict``: a write is refused with 409 and not done. ``busy``: with 503. ``lost``: a write is
    done, and its answer lost. ``cut``: it is not done, and nobody can tell. ``slow``: a call takes
    up to two seconds on its way and back. For watches: ``torn``: broken instead of read; ``gone``:
    ended with 410; ``late``: events up to three seconds old; ``again``: events come twice.
    """

    conflict: float = 0.0
    busy: float = 0.0
    lost: float = 0.0
    cut: float = 0.0
    slow: float = 0.0
    torn: float = 0.0
    gone: float = 0.0
    late: float = 0.0
    again: float = 0.0


CALM = Forecast()
STORMS = {
    "calm": CALM,
    "conflicts": Forecast(conflict=0.5),
    "lost": Forecast(lost=0.5, cut=0.2),
    "busy": Forecast(busy=0.4, slow=0.5),
    "late": Forecast(late=0.8, again=0.5, slow=0.3),
    "torn": Forecast(torn=0.3, gone=0.3, late=0.3),
    "all": Forecast(0.1, 0.1, 0.15, 0.1, 0.3, 0.1, 0.1, 0.3, 0.3),
}


class Weather:
    """What one client's calls meet.

    Attributes:
        trace: every write that was done: moment, verb, path and body.
        swallows: which lines of watches are lost, and nobody ever hears of it.
    """

    def __init__(self) -> None:
        self._forecast = CALM
        self._draw = rng.stream(0, "weather")
        self._streams: dict[_Stream, None] = {}
        self.trace: list[tuple[float, str, str, bytes]] = []
        self.met: dict[str, int] = {}
        self.swallows: Callable[[bytes], bool] = lambda line: False

    def change(self, forecast: Forecast, seed: int = 0) -> None:
        self._forecast = forecast
        self._draw = rng.stream(seed, "weather")

    def without_writes(self) -> None:
        """Only watches go on to suffer."""
        self._forecast = replace(self._forecast, conflict=0.0, busy=0.0, lost=0.0, cut=0.0)

    def strike(self, gone: bool) -> None:
        """Breaks all watches at once, or has the server say that they are too old."""
        for stream in list(self._streams):
            stream.strike(gone)

    def meets(self, what: str) -> bool:
        found = self._draw.random() < getattr(self._forecast, what)
        if found:
            self.met[what] = self.met.get(what, 0) + 1
        return found

    async def delay(self, what: str, most_seconds: float) -> None:
        if self.meets(what):
            await asyncio.sleep(self._draw.random() * most_seconds)


class StormyTransport:
    """A transport in some weather."""

    def __init__(self, inner: Transport, weather: Weather) -> None:
        self._inner = inner
        self._weather = weather

    async def send(self, request: Request) -> Response:
        weather = self._weather
        await weather.delay("slow", 2.0)
        if weather.meets("busy"):
            return _status(503, "ServiceUnavailable")
        if request.method == "GET":
            return await self._inner.send(request)
        if weather.meets("conflict"):
            return _status(409, "Conflict")
        if weather.meets("cut"):
            raise TransportError("cut off on the way there")
        answer = await self._inner.send(request)
        now = asyncio.get_running_loop().time()
        if answer.status < 300:
            weather.trace.append((now, request.method, request.path, request.body))
        await weather.delay("slow", 2.0)
        if weather.meets("lost"):
            raise TransportError("cut off on the way back")
        return answer

    async def open(self, request: Request) -> Stream:
        await self._weather.delay("slow", 2.0)
        if self._weather.meets("torn"):
            raise TransportError("no watch begins")
        return _Stream(await self._inner.open(request), self._weather)

    async def close(self) -> None:
        await self._inner.close()


class _Stream:
    def __init__(self, inner: Stream, weather: Weather) -> None:
        self._inner = inner
        self._weather = weather
        self._struck = asyncio.Event()
        self._gone = False
        weather._streams[self] = None

    def strike(self, gone: bool) -> None:
        self._gone = gone
        self._struck.set()

    async def read(self) -> list[bytes]:
        weather = self._weather
        lines = await self._lines()
        await weather.delay("late", 3.0)
        if weather.meets("torn"):
            raise TransportError("the watch broke, and events with it")
        if weather.meets("gone"):
            return [_GONE]
        if lines and weather.meets("again"):
            return [*lines, *lines[-2:]]
        return lines

    async def _lines(self) -> list[bytes]:
        while lines := await self._next():
            if left := [line for line in lines if not self._weather.swallows(line)]:
                return left
        return []

    async def _next(self) -> list[bytes]:
        read = asyncio.ensure_future(self._inner.read())
        struck = asyncio.ensure_future(self._struck.wait())
        try:
            await asyncio.wait({read, struck}, return_when=asyncio.FIRST_COMPLETED)
            if read.done():
                return read.result()
        finally:
            struck.cancel()
            read.cancel()
        if self._gone:
            return [_GONE]
        raise TransportError("the watch broke")

    async def close(self) -> None:
        self._weather._streams.pop(self, None)
        await self._inner.close()


def _status(code: int, reason: str) -> Response:
    return Response(code, _document(code, reason))


def _document(code: int, reason: str) -> bytes:
    status: dict[str, Any] = {
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "reason": reason, "message": f"{reason} by weather",
    }  # fmt: skip
    return json.dumps(status).encode()


_GONE = b'{"type":"ERROR","object":' + _document(410, "Expired") + b"}"
