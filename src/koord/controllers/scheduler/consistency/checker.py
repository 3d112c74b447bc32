# SPDX-License-Identifier: Apache-2.0
"""Compares what the scheduler believes with what the API says, and says where they differ.

The informers' caches are the API's word as far as it has arrived; all accounts are counted anew
from them, a little at a time. Whether it did arrive is looked up at the API itself now and then
(:mod:`koord.controllers.scheduler.consistency.informer_check`). Differences that stay are faults:
they are logged and counted, and nothing is repaired behind anybody's back.
"""

from __future__ import annotations

import asyncio
from itertools import chain, islice
from typing import TYPE_CHECKING

from koord.base import log
from koord.controllers.scheduler.consistency.recounts import recounts

if TYPE_CHECKING:
    from koord.controllers.scheduler.scheduler import Scheduler

_LOG = log.get("scheduler")
ROUND_SECONDS = 300.0
"""Of rest after a round, which takes 3 to 5 s of CPU with 5,000 nodes and 140,000 pods."""
TICK_SECONDS = 0.1
STEPS = 50
"""At a tick: nodes, or slices of pods."""
_LISTED_NAMES = 10


class CheckRound:
    """One look at all accounts, in ticks.

    Attributes:
        differences: by account, what differs; complete once :meth:`tick` said so.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        accounts = recounts(scheduler)
        self.differences: dict[str, list[str]] = {account: [] for account in accounts}
        self._steps = (
            (account, name)
            for account, parts in accounts.items()
            for name in chain.from_iterable(parts)
        )

    def tick(self) -> bool:
        """Some steps; False once all have been done."""
        taken = list(islice(self._steps, STEPS))
        for account, name in taken:
            if name is not None and name not in self.differences[account]:
                self.differences[account].append(name)
        return len(taken) == STEPS


def drift(scheduler: Scheduler) -> dict[str, list[str]]:
    """By account, what differs now, looked at in one go; all empty where all is well."""
    now = CheckRound(scheduler)
    while now.tick():
        pass
    return now.differences


async def look(scheduler: Scheduler) -> dict[str, list[str]]:
    """The same, while others get their turns."""
    now = CheckRound(scheduler)
    while now.tick():
        await asyncio.sleep(0)
    return now.differences


async def run(scheduler: Scheduler) -> None:
    """Compares once a round; what differs twice in a row is told of."""
    before: dict[str, list[str]] = {}
    while True:
        await asyncio.sleep(ROUND_SECONDS)
        now = CheckRound(scheduler)
        while now.tick():
            await asyncio.sleep(TICK_SECONDS)
        for account, names in now.differences.items():
            report(scheduler, account, [name for name in names if name in before.get(account, ())])
        before = now.differences


def report(scheduler: Scheduler, account: str, names: list[str]) -> None:
    """Counts what of an account differs, and logs it."""
    scheduler.metrics.drift(account, len(names))
    if names:
        where = log.fields(kind=account, count=len(names), some=",".join(names[:_LISTED_NAMES]))
        _LOG.error("the cache differs from the API", extra=where)
