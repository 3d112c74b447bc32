# SPDX-License-Identifier: Apache-2.0
"""Tells the pods of gangs that do not become complete what they wait for.

A pod that is held back before the queue is never tried, so nobody would tell it anything.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.plugins.coscheduling.gangs import State

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.base.clock import Clock
    from koord.controllers.scheduler.plugins.coscheduling.cache import GangCache

PERIOD_SECONDS = 10.0
PATIENCE_SECONDS = 30.0


class OverdueController:
    """Writes an event a pod, once for each thing that is lacking.

    Args:
        gangs: all gangs.
        clock: the time.
        event: writes one: about, type, reason, message.
    """

    def __init__(
        self, gangs: GangCache, clock: Clock, event: Callable[[Any, str, str, str], None]
    ) -> None:
        self._gangs = gangs
        self._clock = clock
        self._event = event
        self._told: dict[str, str] = {}

    async def run(self) -> None:
        """Looks every 10 s, until cancelled."""
        while True:
            self.tell()
            await asyncio.sleep(PERIOD_SECONDS)

    def tell(self) -> int:
        """Tells those that were not told yet; gives how many."""
        before = self._clock.wall_seconds() - PATIENCE_SECONDS
        due: dict[str, str] = {}
        count = 0
        for gang_id in sorted(self._gangs.gangs):
            gang = self._gangs.gangs[gang_id]
            for member in gang.of(State.PENDING) if gang.created_seconds <= before else ():
                why = self._gangs.obstacle(member.pod)
                if not why:
                    break
                due[member.uid] = why
                if self._told.get(member.uid) != why:
                    self._event(member.pod, "Warning", "FailedScheduling", why)
                    count += 1
        self._told = due
        return count
