# SPDX-License-Identifier: Apache-2.0
"""Time as a parameter: the system's clock, one moved by hand, and an event loop on virtual time.

Nothing in koord reads the time but through a :class:`Clock`, so that a test waits for no timer and
a day of a cluster runs in seconds.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from _typeshed import FileDescriptorLike


class Clock(Protocol):
    """Two readings: wall time for what is written down, monotonic time for what is waited for."""

    def wall_seconds(self) -> float:
        """Seconds since the Unix epoch; may jump."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """The machine's clocks."""

    def wall_seconds(self) -> float:
        """Seconds since the Unix epoch."""
        return time.time()

    def monotonic_seconds(self) -> float:
        """Seconds since the machine started."""
        return time.monotonic()


class VirtualClock:
    """A clock that stands still until told to advance.

    Args:
        wall_start_seconds: wall time at monotonic zero.
    """

    def __init__(self, wall_start_seconds: float = 0.0) -> None:
        self._wall_start_seconds = wall_start_seconds
        self._elapsed_seconds = 0.0

    def wall_seconds(self) -> float:
        """The start plus what was advanced."""
        return self._wall_start_seconds + self._elapsed_seconds

    def monotonic_seconds(self) -> float:
        """Seconds advanced so far."""
        return self._elapsed_seconds

    def advance(self, seconds: float) -> None:
        """Moves time forward.

        Raises:
            ValueError: seconds is negative or not a number.
        """
        if not seconds >= 0:
            raise ValueError(f"seconds: got {seconds!r}, expected a number >= 0")
        self._elapsed_seconds += seconds


class DeadlockError(RuntimeError):
    """Every task of a virtual loop waits, and no timer is set that could wake one."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on a :class:`VirtualClock`: instead of sleeping it moves the clock.

    Real sockets and threads do not belong on it: they take real time, which here does not pass.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self._clock = clock
        # asyncio compares deadlines with this resolution; virtual time has no jitter to absorb.
        self._clock_resolution = 1e-9

    def time(self) -> float:
        """The loop's time: the virtual clock's monotonic seconds."""
        return self._clock.monotonic_seconds()


class _JumpingSelector(selectors.BaseSelector):
    """Answers a wait by advancing the clock; still delivers the loop's own wake-up pipe."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready:
            return ready
        if timeout is None:
            raise DeadlockError("every task waits and no timer is set")
        if timeout > 0:
            self._clock.advance(timeout)
        return []

    def register(
        self, fileobj: FileDescriptorLike, events: int, data: object = None
    ) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: FileDescriptorLike) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def get_map(self) -> Mapping[FileDescriptorLike, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()
