# SPDX-License-Identifier: Apache-2.0
"""While caches are filled the garbage collector stays away, and nothing piles up."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import weakref
from collections.abc import Iterator

import pytest

from koord.base.memory import garbage_collection
from koord.base.memory.garbage_collection import CollectorLook, MemoryUpkeep, next_look


class Knot:
    """Refers to itself: only the collector can take it away."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.enable()
    yield
    gc.unfreeze()
    (gc.enable if was_enabled else gc.disable)()


def test_it_is_off_meanwhile_and_what_came_is_set_aside() -> None:
    before = gc.get_freeze_count()
    with garbage_collection.collection_paused():
        assert not gc.isenabled()
        held = [Knot() for _ in range(100)]
    assert gc.isenabled()
    assert gc.get_freeze_count() - before >= len(held)


def test_it_stays_off_where_it_was() -> None:
    gc.disable()
    with garbage_collection.collection_paused():
        pass
    assert not gc.isenabled()


def test_an_error_switches_it_on_again() -> None:
    with pytest.raises(ValueError, match="lost"), garbage_collection.collection_paused():
        raise ValueError("lost")
    assert gc.isenabled()


def test_garbage_goes_where_little_comes() -> None:
    with garbage_collection.collection_paused():
        gc.collect()
        gone = weakref.ref(Knot())
        garbage_collection.freeze_new_objects()
        assert gone() is None


def test_much_is_set_aside_without_a_look() -> None:
    with garbage_collection.collection_paused():
        garbage_collection.freeze_new_objects()
        before = gc.get_freeze_count()
        held: list[list[int]] = [[] for _ in range(30_000)]
        garbage_collection.freeze_new_objects()
        assert gc.get_freeze_count() - before >= len(held)


def test_a_look_at_the_young_is_short() -> None:
    """All that came since the last such look is gone through at once, and nobody else runs."""
    code = (
        "import gc; from koord.base.memory import garbage_collection as g; g.collect_rarely(); "
        "youngest, middle, _ = gc.get_threshold(); print(youngest * middle)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(run.stdout) <= 50_000


def old_knot() -> weakref.ref[Knot]:
    """Garbage that has been looked at twice while it was in use."""
    knot = Knot()
    gone = weakref.ref(knot)
    gc.collect()
    return gone


def test_what_was_in_use_for_long_goes_too() -> None:
    """The thresholds never lead to a look at the oldest generation."""
    garbage_collection.collect_rarely()
    gone = old_knot()
    upkeep = MemoryUpkeep(None)
    assert upkeep.round(quiet=True) is CollectorLook.NEW
    assert gone() is None


def test_a_look_is_at_what_came_since_the_last() -> None:
    upkeep = MemoryUpkeep(None)
    upkeep.round(quiet=True)
    held = [[Knot()] for _ in range(1_000)]
    gc.collect()
    upkeep.round(quiet=True)
    assert sum(len(gc.get_objects(generation)) for generation in range(3)) < 500
    assert gc.get_freeze_count() > 2 * len(held)
    assert upkeep.round(quiet=True) is not CollectorLook.ALL


def test_many_new_objects_wait_for_quiet_and_are_not_looked_at_between_work() -> None:
    few, many, huge = 10_000, 100_000, 500_000
    settled = 1_000_000
    assert next_look(0, settled, settled, quiet=True) is CollectorLook.NOTHING
    assert next_look(few, settled, settled, quiet=False) is CollectorLook.NEW
    assert next_look(many, settled, settled, quiet=False) is CollectorLook.NOTHING
    assert next_look(many, settled, settled, quiet=True) is CollectorLook.NEW
    assert next_look(huge, settled, settled, quiet=False) is CollectorLook.SET_ASIDE
    assert next_look(few, 2 * settled + 1, settled, quiet=False) is CollectorLook.ALL


_SET_ASIDE = """
import gc
from koord.base.memory import garbage_collection
garbage_collection._MANY, garbage_collection._COUNT_ROUNDS = 4_000, 1
class Knot:
    def __init__(self):
        self.itself = self
gc.collect()
gc.freeze()
upkeep = garbage_collection.MemoryUpkeep(None)
before, most = gc.get_freeze_count(), 0
for _ in range(25):
    held = [Knot() for _ in range(before // 10)]
    gc.collect()  # As old as the collector knows.
    upkeep.round(quiet=True)
    del held
    most = max(most, gc.get_freeze_count())
print(before, most)
"""


def test_garbage_of_what_was_set_aside_never_is_more_than_what_was_there() -> None:
    """In a process of its own: this one's objects are many, and are looked at each time."""
    command = [sys.executable, "-c", _SET_ASIDE]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    before, most = map(int, done.stdout.split())
    assert before > 4_000
    assert most <= 2.5 * before


_TRIM = """
import asyncio, os
from koord.base.memory.garbage_collection import MemoryUpkeep, memory_trim
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
# What stays at the end of the heap keeps all that is free before it.
held = [[bytes(100_000), bytes(1_000)] for _ in range(600)]
before = resident()
for each in held:
    each[0] = None
kept = resident()
async def rounds():
    upkeep = MemoryUpkeep(memory_trim())
    for _ in range(3):
        upkeep.round(quiet=False)
        await upkeep.give_back(quiet=False)
asyncio.run(rounds())
print(before - kept, before - resident())
"""


@pytest.mark.skipif(garbage_collection.memory_trim() is None, reason="not the GNU C library")
def test_free_memory_goes_back_to_the_system() -> None:
    """In a process of its own, whose heap nobody else has used."""
    command = [sys.executable, "-c", _TRIM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    kept, given_back = map(int, done.stdout.split())
    assert given_back >= 30_000_000 > kept


def test_where_it_takes_long_it_waits_for_quiet() -> None:
    calls: list[int] = []
    upkeep = MemoryUpkeep(lambda: calls.append(1))

    async def rounds(quiet: bool) -> int:
        for _ in range(3):
            upkeep.round(quiet=True)
            await upkeep.give_back(quiet=quiet)
        return len(calls)

    assert asyncio.run(rounds(False)) == 1
    upkeep._trim_seconds = 0.2
    assert asyncio.run(rounds(False)) == 1
    assert asyncio.run(rounds(True)) == 2
