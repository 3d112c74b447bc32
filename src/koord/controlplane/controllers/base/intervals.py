# SPDX-License-Identifier: Apache-2.0
"""Work on one key not more often than every so many seconds."""

from __future__ import annotations


class KeyInterval:
    """When each key was worked on last.

    Args:
        seconds: from one time to the next.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._last: dict[str, float] = {}

    def begin(self, key: str, now: float) -> float | None:
        """Begins work on a key, or says after how many seconds it may begin.

        Args:
            key: whose turn it may be.
            now: wall seconds; where the clock was put back nobody waits longer than the interval.
        """
        since = now - self._last.get(key, now - self._seconds)
        if 0 <= since < self._seconds:
            return self._seconds - since
        self._last[key] = now
        return None

    def forget(self, key: str) -> None:
        """The key is gone, or may begin at once."""
        self._last.pop(key, None)
