# SPDX-License-Identifier: Apache-2.0
"""What could not be written, and when it is tried again."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor.writers.target_writer import CGROUP_GONE_ERRNOS
from koord.base import log
from koord.base.errors import one_line
from koord.kernels.cgroup import Outcome, Written

if TYPE_CHECKING:
    from koord.agent.executor.target import Target

_LOG = log.get("agent.executor")
FIRST_SECONDS, MOST_SECONDS = 1.0, 60.0


def from_error(error: Exception, prefix: str = "") -> Written:
    """What an error of reading, or of one whole write, means for a target."""
    number = getattr(error, "errno", None) or 0
    outcome = Outcome.FAILED
    if number in CGROUP_GONE_ERRNOS and not prefix:
        outcome = Outcome.MISSING
    elif number == errno.EOPNOTSUPP:
        outcome = Outcome.UNSUPPORTED
    return Written(outcome, number, one_line(f"{prefix}{error}"))


class RejectedClaims:
    """Claims that can never be written, by owner and scope, one line each; told of once."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], tuple[str, ...]] = {}

    def note(self, owner: str, scope: str, lines: tuple[str, ...]) -> None:
        """Replaces those of a scope."""
        if lines and lines != self._lines.get((owner, scope)):
            for why in lines:
                fields = log.fields(owner=owner, scope=scope, why=why)
                _LOG.warning("claim refused", extra=fields)
        if lines:
            self._lines[owner, scope] = lines
        else:
            self._lines.pop((owner, scope), None)

    def all(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """Those that stand."""
        return dict(self._lines)


class WriteFailure(NamedTuple):
    """A target that does not say what it should.

    Attributes:
        target: which.
        result: why: the outcome, the errno and one line.
        attempts: how often in a row.
        again_seconds: monotonic time from which it is tried again.
    """

    target: Target
    result: Written
    attempts: int
    again_seconds: float


class WriteFailures:
    """Doubles the wait of a target with every failure in a row, up to a minute.

    What this kernel does not have is looked at once in the longest wait.
    """

    def __init__(self) -> None:
        self._failing: dict[Target, WriteFailure] = {}

    def __contains__(self, target: object) -> bool:
        return target in self._failing

    def failed(self, target: Target, result: Written, now_seconds: float) -> WriteFailure:
        """Takes a failure up."""
        before = self._failing.get(target)
        attempts = before.attempts + 1 if before else 1
        wait = min(FIRST_SECONDS * 2 ** min(attempts - 1, 30), MOST_SECONDS)
        if result.outcome is Outcome.UNSUPPORTED:
            wait = MOST_SECONDS
        failure = WriteFailure(target, result, attempts, now_seconds + wait)
        self._failing[target] = failure
        return failure

    def passed(self, target: Target) -> None:
        """It says what it should, or nobody wants it any more."""
        self._failing.pop(target, None)

    def due(self, now_seconds: float) -> set[Target]:
        """What is to be tried again."""
        return {t for t, failure in self._failing.items() if failure.again_seconds <= now_seconds}

    def waiting(self, target: Target, now_seconds: float) -> bool:
        """Whether a target failed and its wait is not over."""
        failure = self._failing.get(target)
        return failure is not None and failure.again_seconds > now_seconds

    def all(self) -> list[WriteFailure]:
        """Every target that fails now, sorted."""
        return [self._failing[target] for target in sorted(self._failing)]
