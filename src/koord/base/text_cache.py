# SPDX-License-Identifier: Apache-2.0
"""A cache by texts that somebody else chooses: bounded in size, and not in number alone.

``functools.lru_cache`` keeps as many answers as it is told. Where a tenant writes what they are
kept by, each may be as long as a request: a few thousand names of a pod's images, of two megabytes
each, whether or not they were accepted. Here all are forgotten once what has come in since the last
time is long enough. What is counted is what was not known, so that known ones cost as little as
ever.
"""

from __future__ import annotations

from functools import lru_cache, update_wrapper
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

    P = ParamSpec("P")
R = TypeVar("R")

MOST_CHARACTERS = 1 << 20


def text_cache(
    entries: int, characters: int = MOST_CHARACTERS
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Keeps what a function of texts gives, as :func:`functools.lru_cache` does.

    Args:
        entries: of the cache.
        characters: what is kept has so many together, and what came last.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        came = 0

        def missed(*args: P.args, **kwargs: P.kwargs) -> R:
            nonlocal came
            came += sum(map(_length, args)) + sum(map(_length, kwargs.values()))
            if came > characters:
                came = 0
                kept.cache_clear()
            return function(*args, **kwargs)

        kept = lru_cache(entries)(missed)
        made: Any = update_wrapper(kept, function)
        return made  # type: ignore[no-any-return]

    return decorate


def _length(value: Any) -> int:
    """Characters or bytes of a value's texts."""
    if isinstance(value, str | bytes):
        return len(value)
    return sum(map(_length, value)) if isinstance(value, tuple) else 0
