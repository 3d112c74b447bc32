# SPDX-License-Identifier: Apache-2.0
"""One subject's histories by hypothesis: one after the other until time is over or one fails."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import HealthCheck, Phase, settings
from hypothesis.control import current_build_context
from hypothesis.reporting import with_reporter

Over = Callable[[], bool]
"""Whether a subject's time is over."""
# So many at a time, since hypothesis remembers all that one run has tried.
_CHUNK = 500
_BLOB = re.compile(r"@reproduce_failure\('([^']*)', (b'(?:[^'\\]|\\.)*')\)")


class TimeOverError(KeyboardInterrupt):
    """Ends a run: an interruption is the only end that hypothesis does not take for a result."""


class Outcome(NamedTuple):
    """What came of a subject's turn.

    Attributes:
        count: histories that began.
        error: of the last one, None if time was over first.
        history: that one, as a literal; None if none failed.
    """

    count: int
    error: Exception | None = None
    history: Any = None


class Counter:
    """Counts histories as they begin, and ends the run when time is over."""

    def __init__(self, over: Over) -> None:
        self.count = 0
        self._over = over

    def begin(self) -> None:
        """To be called first in each history; not to be caught."""
        if current_build_context().is_final:
            return  # the one that failed, once more, to tell of it
        if self._over():
            raise TimeOverError
        self.count += 1


def fresh(of: settings | None = None) -> settings:
    """Fresh seeds, no limits, nothing remembered, nothing shrunk: to shrink one takes minutes."""
    return settings(
        of,
        max_examples=_CHUNK, derandomize=False, database=None, deadline=None, print_blob=True,
        phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )  # fmt: skip


def explore(make: Callable[[Counter], Callable[[], None]], over: Over) -> Outcome:
    """Runs a test again and again.

    Args:
        make: a hypothesis test whose every example begins with the counter's ``begin``.
        over: whether time is.
    """
    counter = Counter(over)
    while not over():
        try:
            # What it has to say of an end it says as notes on the error, too.
            with with_reporter(lambda _: None):
                make(counter)()
        except TimeOverError:
            break
        except Exception as error:
            return Outcome(counter.count, error)
    return Outcome(counter.count)


def steps_of(error: Exception) -> list[tuple[str, dict[str, Any]]] | None:
    """The calls on a state machine that hypothesis has noted; None if not all are literals."""
    text = "\n".join(getattr(error, "__notes__", ()))
    start = text.find("state = ")
    end = text.find("state.teardown()", start)
    if start < 0 or end < 0:
        return None
    try:
        found = [_call(each) for each in ast.parse(text[start:end]).body[1:]]
    except (SyntaxError, ValueError):
        return None
    return found


def _call(node: ast.stmt) -> tuple[str, dict[str, Any]]:
    match node:
        case ast.Expr(ast.Call(ast.Attribute(_, name), [], keywords)):
            return name, {str(each.arg): ast.literal_eval(each.value) for each in keywords}
    raise ValueError("no plain call")


def choices_of(error: Exception) -> tuple[str, bytes] | None:
    """Hypothesis's version, and what it drew; only that version draws the same again."""
    found = _BLOB.search("\n".join(getattr(error, "__notes__", ())))
    return (found[1], ast.literal_eval(found[2])) if found else None
