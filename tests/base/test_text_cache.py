# SPDX-License-Identifier: Apache-2.0
"""A cache by texts of others is bounded by their length too."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.base.text_cache import text_cache


class Answer:
    """What a function gave, to be looked for."""


def test_what_is_known_is_not_asked_again_and_errors_are_not_kept() -> None:
    calls: list[str] = []

    @text_cache(10)
    def answer(text: str) -> int:
        """A docstring."""
        calls.append(text)
        if text == "bad":
            raise ValueError(text)
        return len(text)

    for _ in range(3):
        assert answer("four") == 4
        with pytest.raises(ValueError, match="bad"):
            answer("bad")
    assert calls == ["four", "bad", "bad", "bad"]
    assert answer.__doc__ == "A docstring."


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 40)), max_size=200))
def test_what_is_kept_is_no_longer_than_it_may_be(asked: list[tuple[int, int]]) -> None:
    """Whatever comes, in whatever order, as texts, bytes or texts in tuples."""
    kept: weakref.WeakKeyDictionary[Answer, int] = weakref.WeakKeyDictionary()

    @text_cache(1_000, characters=100)
    def answer(text: str, more: tuple[bytes, ...]) -> Answer:
        made = Answer()
        kept[made] = len(text) + sum(map(len, more))
        return made

    for number, length in asked:
        text = f"{number:02}".ljust(length // 2, "x")
        answer(text, (b"y" * (length - length // 2),))
        assert sum(kept.values()) <= 100 + 2 + 40
    gc.collect()
    answer("x" * 1_000, ())
    answer("y" * 1_000, ())
    assert len(kept) == 1
