# SPDX-License-Identifier: Apache-2.0
"""A transport that calls a server in this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from koord.controlplane.watches import Watch
from koord.kube.errors import ApiError, Status, TransportError

if TYPE_CHECKING:
    from koord.controlplane.server import Server
    from koord.kube.messages import Request, Response, Stream

# Calls between two turns of the event loop: without a pause, a caller in a loop would starve the
# watches, whose log is bounded.
_CALLS_A_TURN = 64


class InProcessTransport:
    """Carries requests to a :class:`koord.controlplane.server.Server` without bytes on a wire."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._calls = 0
        self._closed = False
        self._streams: set[Watch] = set()

    async def send(self, request: Request) -> Response:
        """See :meth:`koord.kube.messages.Transport.send`."""
        self._check()
        self._calls += 1
        if self._calls % _CALLS_A_TURN == 0:
            await asyncio.sleep(0)
        if request.timeout_seconds is None:
            answer = await self._server.handle(request)
        else:
            try:
                async with asyncio.timeout(request.timeout_seconds):
                    answer = await self._server.handle(request)
            except TimeoutError:
                raise TransportError(f"no answer in {request.timeout_seconds} s") from None
        if isinstance(answer, Watch):
            await answer.close()
            raise TransportError("a watch was sent as a plain request", sent=False)
        return answer

    async def open(self, request: Request) -> Stream:
        """See :meth:`koord.kube.messages.Transport.open`."""
        self._check()
        answer = await self._server.handle(request)
        if isinstance(answer, Watch):
            self._streams.add(answer)
            answer.when_ended(self._streams.discard)
            return answer
        raise ApiError(msgspec.json.decode(answer.body, type=Status))

    async def close(self) -> None:
        """Ends the watches of this transport."""
        self._closed = True
        for watch in list(self._streams):
            await watch.close()

    def _check(self) -> None:
        if self._closed:
            raise TransportError("the transport is closed", sent=False)
