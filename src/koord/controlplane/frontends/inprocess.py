# SPDX-License-Identifier: Apache-2.0
"""A transport that calls a server in this process."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.base.loop_share import LARGE_BYTES
from koord.controlplane.authorization.identity import ADMINISTRATOR, identified
from koord.controlplane.storage.watch import WatchCursor
from koord.kube.codec.decoder import refusal
from koord.kube.errors import ApiError, TransportError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from koord.controlplane.authorization.identity import Identity
    from koord.controlplane.server import Server
    from koord.kube.transport.messages import Request, Response, Stream

# Calls between two turns of the event loop, and what they may write: without a pause, a caller in a
# loop would starve the watches, whose log is bounded. A watch reads up to LARGE_BYTES in a turn,
# and no less than this of objects up to a quarter of that.
_CALLS_A_TURN = 64
_BYTES_A_TURN = LARGE_BYTES * 3 // 4


class InProcessTransport:
    """Carries requests to a :class:`koord.controlplane.server.Server` without bytes on a wire.

    Args:
        server: answers.
        identity: who sends them.
    """

    def __init__(self, server: Server, identity: Identity = ADMINISTRATOR) -> None:
        self._server, self._identity = server, identity
        # Calls since the last turn of the event loop, and what was written until then by anybody.
        self._calls, self._written_bytes = 0, 0
        self._closed = False
        self._streams: set[WatchCursor] = set()

    async def send(self, request: Request) -> Response:
        """Sends a request and waits for the whole answer, whatever its status."""
        if self._closed:
            raise _closed()
        self._calls += 1
        written = self._server.store.written_bytes
        if self._calls == _CALLS_A_TURN or written - self._written_bytes >= _BYTES_A_TURN:
            self._calls, self._written_bytes = 0, written
            await asyncio.sleep(0)
        work = self._server.handle(identified(request, self._identity))
        try:
            first = work.send(None)
        except StopIteration as done:
            # Nothing had to be waited for, as mostly; a timer would have cost more than the call.
            answer: Response | WatchCursor = done.value
        else:
            answer = await _in_time(_Continuation(work, first), request.timeout_seconds)
        if isinstance(answer, WatchCursor):
            await answer.close()
            raise TransportError("a watch was sent as a plain request", sent=False)
        return answer

    async def open(self, request: Request) -> Stream:
        """Begins a watch."""
        if self._closed:
            raise _closed()
        answer = await self._server.handle(identified(request, self._identity))
        if isinstance(answer, WatchCursor):
            self._streams.add(answer)
            answer.when_ended(self._streams.discard)
            return answer
        raise ApiError(refusal(answer))

    async def close(self) -> None:
        """Ends the watches of this transport."""
        self._closed = True
        for watch in list(self._streams):
            await watch.close()


def _closed() -> TransportError:
    return TransportError("the transport is closed", sent=False)


async def _in_time(rest: _Continuation, seconds: float | None) -> Response | WatchCursor:
    try:
        async with asyncio.timeout(seconds):
            return await rest
    except TimeoutError:
        raise TransportError(f"no answer in {seconds} s") from None


class _Continuation:
    """What is left of a coroutine that has run up to its first wait.

    Args:
        work: the coroutine.
        first: what it waits for.
    """

    def __init__(self, work: Coroutine[Any, Any, Response | WatchCursor], first: Any) -> None:
        self._work = work
        self._first = first

    def __await__(self) -> Generator[Any, Any, Response | WatchCursor]:
        waited, self._first = self._first, None
        while True:
            error: BaseException | None = None
            sent = None
            try:
                sent = yield waited
            except BaseException as thrown:
                # A cancellation is the coroutine's own to see.
                error = thrown
            # What was waited for holds the error that it ended in, and that holds this frame: in a
            # circle they would keep a whole refused request until the collector comes.
            waited = None
            try:
                waited = self._work.send(sent) if error is None else self._work.throw(error)
            except StopIteration as done:
                answer: Response | WatchCursor = done.value
                return answer
            finally:
                error = None
