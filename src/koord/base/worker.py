# SPDX-License-Identifier: Apache-2.0
"""A thread beside the event loop, for what large objects cost."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, ParamSpec, TypeVar

from koord.base.loop_share import loop_share

if TYPE_CHECKING:
    from collections.abc import Callable

    P = ParamSpec("P")
R = TypeVar("R")

# What is lighter takes less than the 50 ms for which a request may hold the loop: an apply, the
# slowest of all, takes 25 ms for so many bytes of the smallest fields.
HEAVY_BYTES = 32 << 10
# How long the loop waits for the interpreter while the thread has it; Python's own 5 ms are for
# programs whose threads all want much. A switch takes microseconds.
_PATIENCE_SECONDS = 0.0001


class Worker:
    """Calls functions in one thread beside the event loop where they are heavy, else at once.

    One thread, so that large requests of many clients wait for each other and not for the
    interpreter, which every thread would ask for as often as the loop does.

    Args:
        threaded: False calls everything at once: on a loop of virtual time a thread takes no time.
    """

    def __init__(self, threaded: bool = False) -> None:
        self._pool = ThreadPoolExecutor(1, "worker") if threaded else None
        self.calls = 0  # that went to the thread

    async def call(
        self, weight_bytes: int, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """The outcome of a function of its arguments alone, which nothing else changes meanwhile.

        Args:
            weight_bytes: of the JSON that the function reads or makes.
        """
        if self._pool is None or weight_bytes < HEAVY_BYTES:
            return function(*args, **kwargs)
        self.calls += 1
        loop, share = asyncio.get_running_loop(), loop_share()
        async with share.aside():
            seconds, outcome = await loop.run_in_executor(
                self._pool, lambda: _outcome(function, *args, **kwargs)
            )
            # Half of its time the loop was others' already.
            share.used(seconds / 2)
        return outcome.take()

    def close(self) -> None:
        """Lets the thread end after what it does now."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


class _CallOutcome(Generic[R]):
    """What a call returned or raised, to be taken once.

    An error knows the frames that it went through, and one of them this: once the error is taken it
    is not known here any more, so that it goes with all that the call has made.
    """

    def __init__(self) -> None:
        self.value: R | None = None
        self.error: Exception | None = None

    def take(self) -> R:
        """What was returned.

        Raises:
            Exception: what was raised.
        """
        error, self.error = self.error, None
        if error is not None:
            try:
                raise error
            finally:
                del error
        return self.value  # type: ignore[return-value]


def _outcome(
    function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> tuple[float, _CallOutcome[R]]:
    """CPU seconds that a call took, and what came of it.

    It is called without the garbage collector, and with the loop seldom kept waiting. The collector
    would walk all that the function has made so far, again and again, and nobody else can run
    meanwhile; nearly all of that is gone without it when the function returns. And the loop asks
    for the interpreter after every read and write of a socket: a pod's way from its creation to its
    binding would take a dozen times what it may be kept waiting.
    """
    collects, patience = gc.isenabled(), sys.getswitchinterval()
    outcome: _CallOutcome[R] = _CallOutcome()
    begun = time.thread_time()
    gc.disable()
    sys.setswitchinterval(_PATIENCE_SECONDS)
    try:
        outcome.value = function(*args, **kwargs)
    except Exception as error:
        outcome.error = error
    finally:
        sys.setswitchinterval(patience)
        if collects:
            gc.enable()
    return time.thread_time() - begun, outcome
