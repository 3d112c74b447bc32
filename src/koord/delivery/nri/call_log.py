# SPDX-License-Identifier: Apache-2.0
"""What a runtime asked: by method how often, when last, how long it took and what failed."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.api.timestamps import seconds_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.base.clock import Clock


@dataclass(slots=True)
class MethodCalls:
    """The calls of one method; times in wall seconds.

    Attributes:
        error: of the last one that failed.
    """

    count: int = 0
    failures: int = 0
    at_seconds: float = 0.0
    took_seconds: float = 0.0
    error: str = ""

    def fail(self, error: str) -> None:
        """The call under way failed, of one line."""
        self.failures += 1
        self.error = error


class CallLog:
    """Of one agent, over all its connections.

    Args:
        clock: of the times.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._methods: dict[str, MethodCalls] = {}
        self._unknown, self._last_unknown = 0, ""

    @contextmanager
    def call(self, method: str) -> Iterator[MethodCalls]:
        """Notes a call; the method is one that koord knows."""
        found = self._methods.setdefault(method, MethodCalls())
        found.count += 1
        found.at_seconds, began = self._clock.wall_seconds(), self._clock.monotonic_seconds()
        try:
            yield found
        finally:
            found.took_seconds = self._clock.monotonic_seconds() - began

    def unknown_pod(self, name: str) -> None:
        """A pod was asked about that the agent did not know in time."""
        self._unknown += 1
        self._last_unknown = name

    def status(self) -> dict[str, Any]:
        """As ``koord node status`` shows it."""
        return {
            "calls": [
                {
                    "method": method,
                    "count": each.count,
                    "failures": each.failures,
                    "at": seconds_text(each.at_seconds),
                    "tookMilliseconds": round(1000 * each.took_seconds, 2),
                    "error": each.error,
                }
                for method, each in sorted(self._methods.items())
            ],
            "unknownPods": self._unknown,
            "lastUnknownPod": self._last_unknown,
        }
