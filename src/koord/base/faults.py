# SPDX-License-Identifier: Apache-2.0
"""Named places where something may fail, and plans that make them fail.

Code says ``faults.point("executor.write")`` wherever something is written, retried or given up.
Without a plan that is one global read and a comparison; with one, the plan decides by its own seed
whether the point raises.

Example:
    >>> full = FaultRule(rate=1.0, error=OSError(28, "no space"))
    >>> plan = FaultPlan(seed=7, rules={"store.sync": full})
    >>> with inject(plan):
    ...     point("store.sync")
    Traceback (most recent call last):
    OSError: [Errno 28] no space
"""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from koord.base.rng import stream

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class FaultRule:
    """When a point fails and how.

    Attributes:
        rate: probability in [0, 1] that one pass fails.
        error: what is raised.
        after: passes that succeed before the rule begins to apply.
    """

    rate: float
    error: BaseException
    after: int = 0

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise ValueError(f"rate: got {self.rate!r}, expected a number from 0 to 1")


@dataclass
class FaultPlan:
    """Rules by point name. One stream a point, so that points do not disturb each other's draws.

    Attributes:
        seed: replays the same failures at the same passes.
        rules: point name to rule; other points pass.
        passed: how often each point was reached, failures included.
        failed: how often each point raised.
    """

    seed: int
    rules: dict[str, FaultRule]
    passed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._streams = {name: stream(self.seed, "fault", name) for name in self.rules}

    def visit(self, name: str) -> None:
        """Counts one pass of ``name`` and raises if its rule says so."""
        self.passed[name] += 1
        rule = self.rules.get(name)
        if rule is None or self.passed[name] <= rule.after:
            return
        if self._streams[name].random() < rule.rate:
            self.failed[name] += 1
            # One error for all: what it passed through the last time would stay with it.
            raise rule.error.with_traceback(None)


_plan: FaultPlan | None = None


def point(name: str) -> None:
    """A place that may fail. Free of cost unless a plan is injected."""
    if _plan is not None:
        _plan.visit(name)


@contextmanager
def inject(plan: FaultPlan) -> Iterator[FaultPlan]:
    """Makes ``plan`` the process's plan for the block.

    Raises:
        RuntimeError: another plan is active; plans do not nest, since their draws would mix.
    """
    global _plan
    if _plan is not None:
        raise RuntimeError("a fault plan is active already")
    _plan = plan
    try:
        yield plan
    finally:
        _plan = None
