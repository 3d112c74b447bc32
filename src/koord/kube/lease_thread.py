# SPDX-License-Identifier: Apache-2.0
"""A thread with an event loop of its own, for what must go on while the main loop stands still.

Real time and real sockets only: what it runs shares neither connections nor tasks with the main
loop. It takes its turns while other code holds the interpreter, as long as kernels that take long
let go of its lock.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any


class LeaseThread:
    """Runs one coroutine in a thread.

    Args:
        name: of the thread.
        work: makes the coroutine; called in the thread.
    """

    def __init__(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._name = name
        self._work = work
        self._lock = threading.Lock()
        self._stopped = False
        self._cancel: Callable[[], object] | None = None

    async def run(self) -> None:
        """Starts the thread and waits for its end; when cancelled the coroutine is, and waited for.

        Raises:
            Exception: what the coroutine raised.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[BaseException | None] = loop.create_future()

        def settle(error: BaseException | None) -> None:
            if not ended.done():
                ended.set_result(error)

        def body() -> None:
            error: BaseException | None = None
            try:
                asyncio.run(self._main())
            except BaseException as raised:
                error = raised
            # A loop that is closed waits for nobody.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(settle, error)

        # A daemon: a process whose main loop never comes back can end all the same.
        threading.Thread(target=body, name=self._name, daemon=True).start()
        try:
            error = await asyncio.shield(ended)
        except asyncio.CancelledError:
            self._stop()
            await asyncio.wait({ended})
            raise
        if error is not None:
            raise error

    async def _main(self) -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with self._lock:
            if self._stopped:
                return
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
        with suppress(asyncio.CancelledError):
            await self._work()

    def _stop(self) -> None:
        with self._lock:
            self._stopped = True
            if self._cancel is not None:
                with suppress(RuntimeError):
                    self._cancel()
