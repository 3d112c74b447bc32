# SPDX-License-Identifier: Apache-2.0
"""The event loop of the programs that run once per cluster: uvloop's where it is installed.

It serves sockets, TLS among them, with less CPU than asyncio's own (docs/kube.md#event-loop). Where
there is no uvloop for a system or a Python, asyncio's does the same.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

try:
    import uvloop
except ImportError:
    _Loop: type[asyncio.AbstractEventLoop] | None = None
else:

    class _UvLoop(uvloop.Loop):
        """uvloop's, with a time that goes on within a turn of the loop.

        Its own stands still there, and whoever asks how long a decoding took is told none.
        """

        def time(self) -> float:
            """Monotonic seconds."""
            return time.monotonic()

    _Loop = _UvLoop

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A loop that nobody runs yet."""
    return asyncio.new_event_loop() if _Loop is None else _Loop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a program's coroutine to its end, as :func:`asyncio.run` does."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
