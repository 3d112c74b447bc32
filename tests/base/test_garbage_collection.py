# SPDX-License-Identifier: Apache-2.0
"""While caches are filled the garbage collector stays away, and nothing piles up."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from koord.base.memory import garbage_collection


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
