# SPDX-License-Identifier: Apache-2.0
"""Where the time of one attempt goes, by plugin and extension point.

A plugin that asks others, as preemption does for each node that it tries, is charged with what they
leave: the parts add up to no more than the whole.
"""

from __future__ import annotations

from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class PluginTimes:
    """Seconds of the attempt under way.

    Args:
        now: monotonic seconds.

    Attributes:
        taken: by plugin and extension point.
        complete: whether all plugins are measured, and not only those that are always.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        # Of the calls under way, the outermost first: what was taken by those that they made.
        self._inner: list[float] = []
        self.taken: defaultdict[tuple[str, str], float] = defaultdict(float)
        self.complete = False

    def begin(self, *, complete: bool) -> None:
        """Begins the next attempt."""
        if self.taken:
            self.taken.clear()
        self.complete = complete

    @contextmanager
    def measured(self, plugin: str, point: str) -> Iterator[None]:
        """Charges a plugin with what runs inside, less what that charges to others."""
        began = self._now()
        self._inner.append(0.0)
        try:
            yield
        finally:
            seconds = self._now() - began
            self.taken[plugin, point] += seconds - self._inner.pop()
            if self._inner:
                self._inner[-1] += seconds
