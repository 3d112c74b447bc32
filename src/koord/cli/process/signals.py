# SPDX-License-Identifier: Apache-2.0
"""How a program ends on SIGINT and SIGTERM: at once, or with what it has found so far.

The exit status is 128 and the signal's number: 130 after SIGINT, 143 after SIGTERM. Daemons and
``koord up`` end in order instead (:mod:`koord.kube.daemon.lifecycle`), with 0.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE_SECONDS = 1.5
"""How long a program that was asked to end may go on."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SIGNALLED = 128
# After how long what could not be raised is tried again.
_AGAIN_SECONDS = 0.001

Handler = Callable[[int, Any], None]


def end_by_signals() -> None:
    """SIGINT and SIGTERM raise where the main thread is: KeyboardInterrupt and SystemExit.

    So every ``finally`` and every ``with`` on the way does its part, which it does not where
    SIGTERM ends a process by itself, and asyncio does not put off what a task that never waits
    would not hear of. What is left after :data:`PATIENCE_SECONDS`, such as a thread that looks up
    a name, is not waited for. For the beginning of a program.

    Where Python can raise nothing, as in a callback of a weak reference when an import ends, it is
    raised again a moment later instead of being shown and forgotten.
    """

    def end(number: int, _: object) -> None:
        signal.signal(signal.SIGALRM, lambda *_: os._exit(_SIGNALLED + number))
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(_SIGNALLED + number)

    def raise_again(unraisable: Any) -> None:
        raised = unraisable.exc_value
        if not isinstance(raised, (KeyboardInterrupt, SystemExit)):
            sys.__unraisablehook__(unraisable)
            return
        number = signal.SIGINT if isinstance(raised, KeyboardInterrupt) else signal.SIGTERM
        signal.signal(signal.SIGALRM, lambda *_: end(number, None))
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_SECONDS)

    sys.unraisablehook = raise_again
    for number in _SIGNALS:
        signal.signal(number, end)
    # Python gives signals their default back before it clears modules: a timer that ran out
    # then would kill the process, which has said all that it had to. Registered first, called last.
    atexit.register(signal.setitimer, signal.ITIMER_REAL, 0.0)


class StopSignal:
    """Whether a signal has asked for the end."""

    def __init__(self) -> None:
        self._number = 0

    def requested(self) -> bool:
        """Whether one came."""
        return bool(self._number)

    def check(self) -> None:
        """Call once what there is has been shown.

        Raises:
            SystemExit: a signal had asked for the end.
        """
        if self._number:
            raise SystemExit(_SIGNALLED + self._number)

    def signalled(self, number: int, _: object) -> None:
        """The first signal asks, and the time that is left runs; the second ends at once.

        Raises:
            SystemExit: it is the second.
        """
        self.check()
        self._number = number
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_SECONDS)

    def late(self, *_: object) -> None:
        """The time is over.

        Raises:
            SystemExit: always.
        """
        warn_of_partial_results("nothing was found yet that could be shown")
        self.check()


@contextmanager
def keeping_results() -> Iterator[StopSignal]:
    """For work that has something to show before it is done.

    The first signal is only noted, for the work to look at. Work that has not left the context
    after :data:`PATIENCE_SECONDS` is ended where it is, as it is by a second signal.
    """
    ending = StopSignal()
    handlers: dict[signal.Signals, Handler] = dict.fromkeys(_SIGNALS, ending.signalled)
    handlers[signal.SIGALRM] = ending.late
    if threading.current_thread() is not threading.main_thread():
        yield ending  # Python tells signals to the main thread alone.
        return
    former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield ending
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        for number, handler in former.items():
            signal.signal(number, handler)


def warn_of_partial_results(missing: str) -> None:
    """Says on standard error that a signal ended the work, and what the result lacks."""
    print(f"interrupted: {missing}", file=sys.stderr)
