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
    from collections.abc import Callable, Sequence

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
        sending = asyncio.create_task(self._send(call, messages, ended=ended))
        try:
            await self._answers(call)
            self.code, self.details = await call.code(), await call.details() or ""
            self._trailers = await call.trailing_metadata() or ()
        except grpc.aio.AioRpcError as error:
            self.code, self.details = error.code(), error.details() or ""
            self._trailers = error.trailing_metadata() or ()
        finally:
            sending.cancel()
            call.cancel()
            with suppress(asyncio.CancelledError):
                await sending

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
