# SPDX-License-Identifier: Apache-2.0
"""When oversized pods may be tried: in turn with all other large work of the event loop.

Rule: docs/reference/scheduling.md#oversized-pods.

An attempt of an oversized pod takes tens of milliseconds. In a process that serves others too it
waits for its turn (:mod:`koord.base.loop_share`), and pods of usual size are decided meanwhile. On
virtual time the turn comes at once.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.base.loop_share import loop_share

if TYPE_CHECKING:
    from collections.abc import Callable


class OversizedTurns:
    """The turns of one scheduling loop.

    Args:
        woken: called when a turn that was asked for has come.
    """

    def __init__(self, woken: Callable[[], None]) -> None:
        self._woken = woken
        self._waiting: asyncio.Task[None] | None = None
        self._come = False

    def come(self) -> bool:
        """Whether an oversized pod may be tried now; if not, the turn is asked for."""
        if not self._come and self._waiting is None:
            if loop_share().free():
                self._come = True
            else:
                self._waiting = asyncio.create_task(self._wait())
        return self._come

    def used(self, seconds: float) -> None:
        """A pod was tried; the next one waits for its own turn."""
        self._come = False
        loop_share().used(seconds)

    async def close(self) -> None:
        """Waits no longer; may be called more than once."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)

    async def _wait(self) -> None:
        await loop_share().wait()
        self._waiting, self._come = None, True
        self._woken()
