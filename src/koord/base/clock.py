# SPDX-License-Identifier: Apache-2.0
"""Time as a parameter: the system's clock, one moved by hand, and an event loop on virtual time.

Nothing in koord reads the time but through a :class:`Clock`, so that a test waits for no timer and
a day of a cluster runs in seconds.
"""

from __future__ import annotations

import asyncio
import math
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

    # Read several times a pod: without a call of Python's.
    wall_seconds = staticmethod(time.time)
    monotonic_seconds = staticmethod(time.monotonic)


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


MOST_BEHIND_SECONDS = 0.5
"""Real seconds by which a paced loop may be late and still catch up."""


class DeadlockError(RuntimeError):
    """Every task of a virtual loop waits, and no timer is set that could wake one."""


class Pace:
    """How fast virtual time goes beside real time.

    A loop that is late may make up for at most :data:`MOST_BEHIND_SECONDS`; what is more than that
    makes virtual time slower.

    Args:
        speed: virtual seconds a real second.
        real: the real clock.

    Raises:
        ValueError: speed is not above 0.
    """

    def __init__(self, speed: float, real: Clock | None = None) -> None:
        if not speed > 0:
            raise ValueError(f"speed: got {speed!r}, expected a number > 0")
        self.speed = speed
        self._real = real or SystemClock()
        # Two readings of the same moment.
        self._virtual_at: float | None = None
        self._real_at = 0.0

    def wait_seconds(self, now: float, until: float) -> float:
        """Real seconds until virtual time should be ``until``; not above 0 if that is past.

        Args:
            now: virtual seconds, as is ``until``.
        """
        real = self._real.monotonic_seconds()
        if self._virtual_at is None:
            self._virtual_at, self._real_at = now, real
        behind = real - self._real_at - (now - self._virtual_at) / self.speed
        self._real_at += max(0.0, behind - MOST_BEHIND_SECONDS)
        return self._real_at + (until - self._virtual_at) / self.speed - real

    def now(self) -> float:
        """What virtual time should be now, once something has been waited for."""
        passed = self._real.monotonic_seconds() - self._real_at
        return (self._virtual_at or 0.0) + passed * self.speed


class VirtualLoop(asyncio.SelectorEventLoop):
    """An asyncio loop on a :class:`VirtualClock`: instead of sleeping it moves the clock.

    Real sockets and threads do not belong on it without a pace: they take real time, which then
    does not pass.

    Args:
        clock: what is moved.
        pace: sleeps as long as virtual time takes at that speed; None never sleeps.
    """

    def __init__(self, clock: VirtualClock, pace: Pace | None = None) -> None:
        self._clock = clock
        super().__init__(_JumpingSelector(clock) if pace is None else _PacedSelector(clock, pace))

    @property
    def _clock_resolution(self) -> float:
        """What asyncio wakes timers ahead of their time by: the least that lets it wake any.

        Whoever was woken ahead and waits for the rest would be woken again at once, for ever: here
        time does not go on by itself.
        """
        return math.ulp(self._clock.monotonic_seconds())

    @_clock_resolution.setter
    def _clock_resolution(self, seconds: float) -> None:
        """The base class would have that of the machine's clock."""

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


class _PacedSelector(_JumpingSelector):
    """Answers a wait by a shorter one; what arrives meanwhile finds the clock moved that far."""

    def __init__(self, clock: VirtualClock, pace: Pace) -> None:
        super().__init__(clock)
        self._pace = pace

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return self._real.select(0)
        now = self._clock.monotonic_seconds()
        most = float("inf") if timeout is None else timeout
        wait = self._pace.wait_seconds(now, now + most)
        ready = self._real.select(None if timeout is None else max(wait, 0))
        self._clock.advance(min(most, max(self._pace.now() - now, 0.0)) if ready else most)
        return ready
