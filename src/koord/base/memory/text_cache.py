# SPDX-License-Identifier: Apache-2.0
"""Answers of functions of a text, remembered for texts that are short.

A count alone bounds nothing where whoever sends the text chooses how long it is: sixteen thousand
answers about names, of which each was sent with a megabyte, are more than a machine has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
A = TypeVar("A")

LONGEST_TEXT = 512
"""Characters: names, keys and values of labels and amounts have fewer, or are refused."""


class TextCache(dict[A, T], Generic[A, T]):
    """A function whose answers about short texts are remembered; all are forgotten at once.

    Args:
        function: of the text alone; what it raises is not remembered.
        entries: how many answers are remembered at most.
        longest: characters of a text whose answer is remembered.
    """

    def __init__(self, function: Callable[[A], T], entries: int, longest: int) -> None:
        super().__init__()
        self.function = function
        self._entries = entries
        self._longest = longest

    def __missing__(self, text: A) -> T:
        answer = self.function(text)
        if isinstance(text, str) and len(text) <= self._longest:
            if len(self) >= self._entries:
                self.clear()
            self[text] = answer
        return answer


def text_cache(
    entries: int, longest: int = LONGEST_TEXT
) -> Callable[[Callable[[A], T]], Callable[[A], T]]:
    """Remembers a function's answers; see :class:`TextCache`."""

    def remembering(function: Callable[[A], T]) -> Callable[[A], T]:
        # A remembered answer costs what a lookup does, which is less than a call.
        return TextCache(function, entries, longest).__getitem__

    return remembering
