# SPDX-License-Identifier: Apache-2.0
"""Passes one call on to the runtime as bytes: messages both ways, metadata, deadline and status.

Every method is taken for a stream both ways, which a single message each way is as well; nothing is
decoded. Rule: docs/reference/delivery.md#what-passes.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc

from koord.base import faults

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    Status = tuple[Any, str, Any]  # code, details and trailers

MOST_MESSAGE_BYTES = 80 << 20
"""The longest that any runtime takes (CRI-O's; containerd and kubelets take 16 MiB)."""

CHANNEL_OPTIONS = [
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MOST_MESSAGE_BYTES),
    # A runtime that is back is reached within a second, not after two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # The path of a socket, which is the default, is no authority to Go's servers.
    ("grpc.default_authority", "localhost"),
]

# What grpc.aio says of a call that a message could not be written to; how often, and after what
# pauses, it is looked whether it knows more.
_FAILED_WRITE = "Internal error from Core"
_LOOKS, _LOOK_SECONDS = 100, 0.005

# Headers that this end of a connection says itself.
_OWN = ("user-agent", "content-type", "te")


class RelayedCall:
    """One call of a kubelet's, and how the runtime ends it.

    Args:
        channel: to the runtime.
        method: its path.
        context: of the call.
        answered: told of the first answer before it is passed on.
        hold: say nothing to the kubelet before there is an answer, so that the call can be made
            again after a failure.

    Attributes:
        code, details: of the status; None before the runtime has ended the call.
    """

    def __init__(
        self,
        channel: Any,
        method: str,
        context: Any,
        answered: Callable[[bytes], None] | None = None,
        *,
        hold: bool = False,
    ) -> None:
        self._channel, self._method, self._context = channel, method, context
        self._answered, self._hold = answered, hold
        self._begun = self._replied = False
        self._trailers: Any = ()
        self._status: Status | None = None
        self.code: Any = None
        self.details = ""

    @property
    def failed_quietly(self) -> bool:
        """Whether the runtime refused and the kubelet does not know yet."""
        return self.code is not grpc.StatusCode.OK and not self._begun

    async def run(self, messages: Sequence[bytes] = (), *, ended: bool = False) -> None:
        """Makes the call, and passes all on but its end, which is for :meth:`finish`.

        Args:
            messages: that were read already, as they are to be sent.
            ended: whether the kubelet sends no more.
        """
        faults.point("cri.relay")
        call = self._channel.stream_stream(self._method)(
            timeout=self._context.time_remaining(),
            metadata=passed_metadata(self._context.invocation_metadata()),
        )
        call.add_done_callback(self._note_status)
        sending = asyncio.create_task(self._send(call, messages, ended=ended))
        try:
            with suppress(grpc.aio.AioRpcError):  # It is that of the status.
                await self._answers(call)
            await self._take_status(call)
        finally:
            sending.cancel()
            call.cancel()
            with suppress(asyncio.CancelledError):
                await sending

    def _note_status(self, call: Any) -> None:
        """Keeps the runtime's word, as it comes.

        A runtime may end a call before it has read the request, as where it does not know the
        method. If the request is being written then, that fails, and what grpc.aio tells as the
        status from then on is that failure.
        """
        if self._status is None or _is_failed_write(*self._status[:2]):
            self._status = _at_once(_status_of(call))

    async def _take_status(self, call: Any) -> None:
        status = await _status_of(call)
        for _ in range(_LOOKS):
            status = self._status or status
            if not _is_failed_write(*status[:2]):
                break
            await asyncio.sleep(_LOOK_SECONDS)  # The runtime's word is on its way.
        self.code, self.details, self._trailers = status

    async def _send(self, call: Any, messages: Sequence[bytes], *, ended: bool) -> None:
        # What ends the call early, an error among them, is read from its answers.
        with suppress(grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError):
            for message in messages:
                await call.write(message)
            while not ended:
                message = await self._context.read()
                ended = message is grpc.aio.EOF
                if not ended:
                    await call.write(message)
            await call.done_writing()

    async def _answers(self, call: Any) -> None:
        initial = await call.initial_metadata() or ()
        if not self._hold:
            await self._begin(initial)
        while (answer := await call.read()) is not grpc.aio.EOF:
            if not self._replied and self._answered is not None:
                self._answered(answer)
            self._replied = True
            await self._begin(initial)
            await self._context.write(answer)

    async def _begin(self, initial: Any) -> None:
        if not self._begun:
            self._begun = True
            await self._context.send_initial_metadata(tuple(initial))

    def finish(self) -> None:
        """Ends the call as the runtime did."""
        end_call(self._context, self.code, self.details, self._trailers)


async def _status_of(call: Any) -> Status:
    """Of a call, once it has ended."""
    return await call.code(), await call.details() or "", await call.trailing_metadata() or ()


def _at_once(status: Coroutine[Any, Any, Status]) -> Status | None:
    """What a coroutine gives if it has nothing to wait for."""
    try:
        status.send(None)
    except StopIteration as end:
        found: Status = end.value
        return found
    status.close()
    return None


def _is_failed_write(code: Any, details: str) -> bool:
    return code is grpc.StatusCode.INTERNAL and details == _FAILED_WRITE


def end_call(context: Any, code: Any, details: str, trailers: Any = ()) -> None:
    """Sets how a call ends once its handler returns."""
    context.set_trailing_metadata(tuple(trailers))
    context.set_code(code)
    context.set_details(details)


def passed_metadata(metadata: Any) -> tuple[tuple[str, Any], ...]:
    """What of a call's metadata is not this connection's own."""
    return tuple(
        (key, value)
        for key, value in metadata or ()
        if key not in _OWN and not key.startswith(("grpc-", ":"))
    )
