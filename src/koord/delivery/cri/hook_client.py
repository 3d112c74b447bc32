# SPDX-License-Identifier: Apache-2.0
"""Calls of one hook server, each within a bounded time.

One that did not answer in time is left alone for a moment, so that not every pod waits for it.
Rule: docs/reference/delivery.md#a-hook-server-that-fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from koord.base import faults
from koord.base.errors import one_line
from koord.delivery.hooks.messages import HOOKS, POD_STAGES, method_of

if TYPE_CHECKING:
    from koord.base.clock import Clock

PAUSE_SECONDS = 5.0
"""How long a hook server that did not answer in time is not called."""
MOST_ANSWER_BYTES = 4 << 20

_OPTIONS = [
    ("grpc.max_receive_message_length", MOST_ANSWER_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.default_authority", "localhost"),
]


class HookServerError(Exception):
    """A hook server did not do what it was called for; the message is one line."""


class HookClient:
    """One hook server's.

    Args:
        endpoint: path of its socket.
        timeout_seconds: how long an answer is waited for.
        clock: of pauses.
    """

    def __init__(self, endpoint: str, timeout_seconds: float, clock: Clock) -> None:
        self._timeout_seconds, self._clock = timeout_seconds, clock
        self._channel = grpc.aio.insecure_channel(f"unix://{endpoint}", options=_OPTIONS)
        self._again_seconds = 0.0

    async def call(self, stage: str, request: Any) -> Any:
        """Gives the answer of a stage's method.

        Raises:
            HookServerError: it is not there, fails, does not answer in time, or answers nonsense.
        """
        now = self._clock.monotonic_seconds()
        if now < self._again_seconds:
            raise HookServerError("did not answer in time a moment ago")
        try:
            faults.point("cri.hook")
            answer = await self._channel.unary_unary(method_of(stage))(
                request.SerializeToString(), timeout=self._timeout_seconds
            )
            kind = "PodSandbox" if stage in POD_STAGES else "ContainerResource"
            return getattr(HOOKS, f"{kind}HookResponse").FromString(answer)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                self._again_seconds = self._clock.monotonic_seconds() + PAUSE_SECONDS
                text = f"no answer within {self._timeout_seconds:g} s"
                raise HookServerError(text) from None
            words = f"{error.code().name}: {error.details() or 'no reason'}"
            raise HookServerError(one_line(words)[:400]) from None
        except (DecodeError, OSError) as error:
            text = f"the answer is none: {error}" if isinstance(error, DecodeError) else str(error)
            raise HookServerError(one_line(text)[:400]) from None

    async def close(self) -> None:
        """Ends what is under way."""
        await self._channel.close()
