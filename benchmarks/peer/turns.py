# SPDX-License-Identifier: Apache-2.0
"""One pair: a run of each side, measured one after the other.

By default each side's control plane is started when its turn comes. Together all sides make
themselves ready at the same time, which saves minutes on a machine with many cores; while one is
measured the others rest, with their pods bound and nothing to do.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence

from benchmarks.peer.arena import Run, fill, measure, settle
from benchmarks.peer.rows import Row
from benchmarks.peer.sides import define, fresh_plane, started
from benchmarks.peer.table import BIND_ONLY, GENERATOR, ORIGINAL, SERVERS

# Until a scheduler has listed the nodes: all are given the same time.
_START_SECONDS = 5.0

Tell = Callable[[str, "Run | Exception"], None]


class Turns:
    """Who is measured when.

    Args:
        count: of the sides.
        together: whether they make themselves ready at the same time.
    """

    def __init__(self, count: int, together: bool) -> None:
        self._together = together
        self._ready = [asyncio.Event() for _ in range(count)]
        self._over = [asyncio.Event() for _ in range(count)]

    async def begin(self, place: int) -> None:
        """Waits until a side may start its programs."""
        if not self._together:
            await self._earlier(place)

    async def ready(self, place: int) -> None:
        """Waits, once a side is ready, until it may be measured."""
        self._ready[place].set()
        if self._together:
            for each in self._ready:
                await each.wait()
            await self._earlier(place)

    def over(self, place: int) -> None:
        """A side is measured, and its programs have ended; or it has failed."""
        self._ready[place].set()
        self._over[place].set()

    async def _earlier(self, place: int) -> None:
        for each in self._over[:place]:
            await each.wait()


async def pair(sides: Sequence[str], row: Row, together: bool, tell: Tell) -> dict[str, Run]:
    """Runs of the sides in the given order; those that failed are told of and left out."""
    turns = Turns(len(sides), together)
    found: dict[str, Run] = {}

    async def one(place: int, which: str) -> None:
        try:
            run = await _one(which, row, turns, place)
        except Exception as error:
            tell(which, error)
        else:
            found[which] = run
            tell(which, run)
        finally:
            turns.over(place)

    async with asyncio.TaskGroup() as tasks:
        for place, which in enumerate(sides):
            tasks.create_task(one(place, which))
    return found


async def _one(which: str, row: Row, turns: Turns, place: int) -> Run:
    """One run on a fresh control plane."""
    await turns.begin(place)
    async with fresh_plane() as (made, client):
        if which == ORIGINAL or row.scenario.objects is not None:
            await define(client)
        await fill(client, row)
        async with started(which, made, client, row) as scheduler:
            await asyncio.sleep(_START_SECONDS)
            await scheduler.ready()
            await settle(client, row, scheduler)
            await turns.ready(place)
            programs = made.programs.items()
            others = {name: program.pid for name, program in programs if name in SERVERS}
            if which != BIND_ONLY:
                others[GENERATOR] = os.getpid()
            return await measure(client, row, scheduler, others)
