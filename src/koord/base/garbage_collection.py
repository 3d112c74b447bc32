# SPDX-License-Identifier: Apache-2.0
"""How often Python's garbage collector looks at a program's objects."""

from __future__ import annotations

import gc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Allocations between looks at the youngest objects, and how many of those between looks at older.
# Every new object is looked at twice, however many go together, but nobody else runs meanwhile: the
# 25,000 of these take some 8 ms, a million took 130.
_THRESHOLDS = (5_000, 5, 2_000)
# With so few new objects, it is not lists that bring them.
_FEW = 20_000


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
