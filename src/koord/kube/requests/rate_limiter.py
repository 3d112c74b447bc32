# SPDX-License-Identifier: Apache-2.0
"""How fast requests may go out, and in what order those that wait.

The rule is in ``docs/kube.md#client``. All waiting is the event loop's.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter

from koord.base.turn_queue import TurnQueue

# A timer may come a rounding error before its time.
_ROUNDING = 1e-9


class RateLimiter:
    """A token bucket: ``burst`` requests at once, then ``per_second``.

    Flows of waiters take turns, so that who has much to write holds up nobody else; within a flow
    they go in order. Rule: docs/kube.md#client.

    Args:
        per_second: how fast tokens come back; with 0 none does.
        burst: how many there are at most.
    """

    def __init__(self, per_second: float = 50.0, burst: int = 100) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._tokens = float(burst)
        self._counted_at: float | None = None
        self._waiting: TurnQueue[asyncio.Future[None]] = TurnQueue()
        # How many of each flow wait and have not given up.
        self._of_flow: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, most_seconds: float | None = None, flow: str = "") -> float | None:
        """Waits for a token.

        Args:
            most_seconds: who waits so long gets none, at once where that is sure; None for no
                limit: who waits where no token comes back waits until it is cancelled.
            flow: whose request it is, such as a namespace.

        Returns:
            Seconds waited; None where there is no token in time.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._count(now)
        if self._tokens >= 1.0 and not self._waiting:
            self._tokens -= 1.0
            return 0.0
        # However the others come and go, those of its own flow stand before it.
        lacking = self._of_flow[flow] + 1.0 - self._tokens
        if most_seconds is not None and most_seconds <= self._seconds(lacking):
            return None
        granted: asyncio.Future[None] = loop.create_future()
        self._waiting.push(flow, granted)
        self._of_flow[flow] += 1
        self._arm(loop)
        try:
            async with asyncio.timeout(most_seconds):
                await granted
        except (TimeoutError, asyncio.CancelledError) as gives_up:
            if not granted.cancelled():
                self._tokens = min(self._burst, self._tokens + 1.0)
            if isinstance(gives_up, TimeoutError):
                return None
            raise
        finally:
            self._of_flow[flow] -= 1
            if not self._of_flow[flow]:
                del self._of_flow[flow]
        return loop.time() - now

    def _seconds(self, tokens: float) -> float:
        return max(0.0, tokens) / self._per_second if self._per_second > 0.0 else math.inf

    def _count(self, now: float) -> None:
        """Adds the tokens that have come since they were counted last."""
        elapsed = 0.0 if self._counted_at is None else now - self._counted_at
        self._counted_at = now
        self._tokens = min(self._burst, self._tokens + elapsed * self._per_second)

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Looks again when there is a token for who waits."""
        seconds = self._seconds(1.0 - self._tokens)
        if self._timer is None and self._waiting and seconds < math.inf:
            self._timer = loop.call_later(seconds, self._release, loop)

    def _release(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        self._count(loop.time())
        while self._waiting and self._tokens >= 1.0 - _ROUNDING:
            granted = self._waiting.pop()
            if not granted.done():  # Else whoever waited has given up.
                granted.set_result(None)
                self._tokens -= 1.0
        self._arm(loop)
