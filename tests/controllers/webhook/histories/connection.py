# SPDX-License-Identifier: Apache-2.0
"""A replica's way to the API server: watches are late, requests are lost before or after."""

from __future__ import annotations

import asyncio
import random
from collections import deque

from koord.kube.errors import TransportError
from koord.kube.transport.messages import Request, Response, Stream, Transport

_LOST_BEFORE, _LOST_AFTER = 0.06, 0.06


class LateConnection:
    """Carries requests of one replica.

    Args:
        inner: the way to the server.
        draw: lots.
        longest_seconds: by which a watch is late at most.

    Attributes:
        faulty: whether requests are lost.
    """

    def __init__(self, inner: Transport, draw: random.Random, longest_seconds: float) -> None:
        self._inner, self._draw, self._longest = inner, draw, longest_seconds
        self.faulty = False
        self.close = inner.close

    async def send(self, request: Request) -> Response:
        """Sends a request, a moment later; an answer may be lost though the write was done."""
        draw = self._draw.random()
        await asyncio.sleep(self._draw.choice((0.0, 0.0, 0.02, 0.3)))
        if self.faulty and draw < _LOST_BEFORE:
            raise TransportError("cut before", sent=False)
        answer = await self._inner.send(request)
        await asyncio.sleep(self._draw.choice((0.0, 0.0, 0.02, 0.3)))
        if self.faulty and draw > 1 - _LOST_AFTER:
            raise TransportError("cut after")
        return answer

    async def open(self, request: Request) -> Stream:
        """Begins a watch."""
        return _LateStream(await self._inner.open(request), self._draw, self._longest)


class _LateStream:
    """A watch whose events come in order, a few at a time, and late."""

    def __init__(self, inner: Stream, draw: random.Random, longest_seconds: float) -> None:
        self._inner, self._draw, self._longest = inner, draw, longest_seconds
        self._waiting: deque[bytes] = deque()
        self.close = inner.close

    async def read(self) -> list[bytes]:
        if not self._waiting:
            events = await self._inner.read()
            if not events:
                return []
            self._waiting.extend(events)
        if self._draw.random() < 0.7:
            await asyncio.sleep(self._draw.uniform(0, self._longest))
        most = self._draw.randint(1, 4)
        return [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
