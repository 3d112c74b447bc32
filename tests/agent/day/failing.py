# SPDX-License-Identifier: Apache-2.0
"""A way to the API server that is cut, and one that refuses, for as long as the day wants."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from koord.base.faults import FaultPlan
from koord.controlplane.frontends.inprocess import InProcessTransport
from koord.kube.errors import TransportError
from koord.kube.transport.messages import Request, Response, Stream

_CONFLICT = (
    b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Conflict","code":409,'
    b'"message":"changed meanwhile"}'
)


class FailingTransport:
    """Passes requests on, unless the server is gone or has a bad day.

    Attributes:
        gone: nothing is answered.
        rate: share of writes that are refused or not answered.
        evicted: paths of evictions that were asked for.
        writes: method and path of all that was no read.
    """

    def __init__(self, inner: InProcessTransport, draw: random.Random) -> None:
        self._inner, self._draw = inner, draw
        self.gone, self.rate = False, 0.0
        self.evicted: list[str] = []
        self.writes: list[str] = []
        self._streams: list[Stream] = []

    async def send(self, request: Request) -> Response:
        self._check()
        if request.method != "GET":
            self.writes.append(f"{request.method} {request.path}")
        if request.method != "GET" and self._draw.random() < self.rate:
            if self._draw.random() < 0.5:
                return Response(409, _CONFLICT)
            await self._inner.send(request)
            raise TransportError("no answer in time")
        if request.path.endswith("/eviction"):
            self.evicted.append(request.path)
        return await self._inner.send(request)

    async def open(self, request: Request) -> Stream:
        self._check()
        stream = await self._inner.open(request)
        self._streams.append(stream)
        return stream

    async def close(self) -> None:
        await self.cut()

    async def cut(self) -> None:
        """Ends every watch."""
        streams, self._streams = self._streams, []
        for stream in streams:
            await stream.close()

    def _check(self) -> None:
        if self.gone:
            raise TransportError("connection refused", sent=False)


@dataclass
class Moody(FaultPlan):
    """A plan that applies only while it is on.

    Attributes:
        on: points that fail now.
    """

    on: set[str] = field(default_factory=set)

    def visit(self, name: str) -> None:
        if name in self.on:
            super().visit(name)

    @contextmanager
    def while_on(self, names: set[str]) -> Iterator[None]:
        """Some points fail for a while."""
        self.on |= names
        try:
            yield
        finally:
            self.on -= names
