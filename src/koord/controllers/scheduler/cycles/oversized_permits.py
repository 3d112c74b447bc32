# SPDX-License-Identifier: Apache-2.0
"""When oversized pods may be tried: one after the other with all large work of the event loop.

Rule: docs/reference/scheduling.md#oversized-pods.

An attempt of an oversized pod takes tens of milliseconds. In a process that serves others too it
waits for its share of the loop (:mod:`koord.base.loop_share`), and pods of usual size are decided
meanwhile. On virtual time nothing waits.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.base.loop_share import loop_share

if TYPE_CHECKING:
    from collections.abc import Callable


class OversizedPermits:
    """The permits of one scheduling loop, each for one attempt.

    Args:
        woken: called when a permit that was asked for is there.
    """

    def __init__(self, woken: Callable[[], None]) -> None:
        self._woken = woken
        self._waiting: asyncio.Task[None] | None = None
        self._granted = False

    def granted(self) -> bool:
        """Whether an oversized pod may be tried now; if not, a permit is asked for."""
        if not self._granted and self._waiting is None:
            if loop_share().free():
                self._granted = True
            else:
                self._waiting = asyncio.create_task(self._wait())
        return self._granted

    def used(self, seconds: float) -> None:
        """A pod was tried, which took so long; the next one needs another permit."""
        self._granted = False
        loop_share().used(seconds)

    async def close(self) -> None:
        """Waits no longer; may be called more than once."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _wait(self) -> None:
        await loop_share().wait()
        self._waiting, self._granted = None, True
        self._woken()
