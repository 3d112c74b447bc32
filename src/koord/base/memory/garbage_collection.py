# SPDX-License-Identifier: Apache-2.0
"""How often Python's garbage collector looks at a program's objects, and what the system gets back.

Rule: docs/limits.md#memory-of-the-process.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import time
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Allocations between looks at the youngest objects, and how many of those between looks at older.
# Every new object is looked at twice, however many go together, but nobody else runs meanwhile: the
# 25,000 of these take some 8 ms, a million took 130.
_THRESHOLDS = (5_000, 5, 2_000)
# With so few new objects, it is not lists that bring them; to look at them takes 30 to 60 ms.
_FEW = 20_000
# So many are not looked at between the work of others: that takes a second.
_MANY = 400_000
_ROUND_SECONDS = 10.0
# Of a core, below which nobody waits for the program.
_QUIET_SHARE = 0.25
# Rounds between counts of all objects that are set aside, and between returns of free memory.
_COUNT_ROUNDS, _TRIM_ROUNDS = 30, 3
_LONG_TRIM_SECONDS = 0.05


def collect_rarely() -> None:
    """For programs that hold much and make little garbage in cycles: looks seldom from now on.

    What is there is never looked at again. To be called once, when a program is ready: with its
    caches full, looking at them all is a quarter of what it does. Changes the whole process.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)


@contextmanager
def collection_paused() -> Iterator[None]:
    """While a program fills its caches for the first time: the collector is off.

    That is millions of objects and no garbage, and they stay: at the end what is there is out of
    the collector's sight for good. Whoever fills for long calls :func:`freeze_new_objects` now and
    then. Changes the whole process.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
        gc.freeze()
    finally:
        if was_enabled:
            gc.enable()


def freeze_new_objects() -> None:
    """Takes what has come since the last call out of the collector's sight.

    Where little has come, as while a server does not answer, it is looked through instead: then
    nothing piles up however long that lasts.
    """
    if gc.get_count()[0] < _FEW:
        gc.collect(1)
    else:
        gc.freeze()


class CollectorLook(Enum):
    """What of its objects a program looks through for garbage in circles."""

    NOTHING = "nothing"
    NEW = "what has come since the last look"
    ALL = "all objects"
    SET_ASIDE = "nothing, and what has come is out of sight"


def next_look(new: int, aside: int, settled: int, *, quiet: bool) -> CollectorLook:
    """What a program is to look through now.

    What stays is set aside after each look, so that none is longer than what came since. Of what is
    set aside some is garbage later: once there is twice as much of it all is looked through, so
    that garbage never is more than what was there.

    Args:
        new: how many objects have come since the last look and are still there.
        aside: how many are set aside.
        settled: how many were after the last look at all.
        quiet: whether the program has little else to do.
    """
    if aside > 2 * max(settled, _MANY // 4):
        return CollectorLook.ALL
    if quiet or new <= _FEW:
        return CollectorLook.NEW if new else CollectorLook.NOTHING
    return CollectorLook.SET_ASIDE if new > _MANY else CollectorLook.NOTHING


class MemoryUpkeep:
    """Looks after the memory of a process that holds much, in small steps.

    Args:
        trim: gives free memory back to the system; None where that cannot be told to.
    """

    def __init__(self, trim: Callable[[], object] | None) -> None:
        self._trim = trim
        self._settled = self._aside = gc.get_freeze_count()
        self._rounds = 0
        self._trim_seconds = 0.0

    def round(self, *, quiet: bool) -> CollectorLook:
        """Looks through what is due; holds the interpreter meanwhile. Gives what that was."""
        self._rounds += 1
        if self._rounds % _COUNT_ROUNDS == 0:
            self._aside = gc.get_freeze_count()  # Walks them all.
        new = sum(len(gc.get_objects(generation)) for generation in (1, 2))
        look = next_look(new, self._aside, self._settled, quiet=quiet)
        if look is CollectorLook.NOTHING:
            return look
        if look is CollectorLook.ALL:
            gc.unfreeze()
        if look is not CollectorLook.SET_ASIDE:
            gc.collect()
        gc.freeze()
        if look is CollectorLook.ALL:
            self._settled = self._aside = gc.get_freeze_count()
        return look

    async def give_back(self, *, quiet: bool) -> None:
        """Lets the system have what is free, beside the loop; where that takes long in quiet."""
        if self._trim is None or (self._trim_seconds > _LONG_TRIM_SECONDS and not quiet):
            return
        if self._rounds % _TRIM_ROUNDS == 0:
            self._trim_seconds = await asyncio.to_thread(_seconds, self._trim)

    async def run(self) -> None:
        """Round after round until cancelled."""
        worked, then = time.process_time(), time.monotonic()
        while True:
            await asyncio.sleep(_ROUND_SECONDS)
            busy, now = time.process_time(), time.monotonic()
            quiet = busy - worked < _QUIET_SHARE * (now - then)
            self.round(quiet=quiet)
            await self.give_back(quiet=quiet)
            worked, then = time.process_time(), time.monotonic()


def _seconds(work: Callable[[], object]) -> float:
    """What work takes of this thread."""
    begun = time.thread_time()
    work()
    return time.thread_time() - begun


async def keep_memory_low() -> None:
    """For a program that holds much and is ready: looks seldom and briefly for garbage from now on.

    And what the C library keeps of freed memory goes back to the system. Until cancelled.
    """
    collect_rarely()
    await MemoryUpkeep(memory_trim()).run()


def memory_trim() -> Callable[[], object] | None:
    """What gives free memory of the C library back to the system; None for another than glibc."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    return lambda: trim(0)
