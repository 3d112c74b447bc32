# SPDX-License-Identifier: Apache-2.0
"""Tells the pods of gangs that wait for members what they wait for.

A pod that is held back before the queue is never tried, and one that holds a node is not refused:
nobody else would tell them anything.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.controllers.scheduler import pod_conditions
from koord.controllers.scheduler.plugins.coscheduling import reasons
from koord.controllers.scheduler.plugins.coscheduling.state.gangs import MemberState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from koord.api.kinds.pod import Pod
    from koord.base.clock import Clock
    from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache
    from koord.controllers.scheduler.plugins.coscheduling.state.gangs import Gang, GangMember

PERIOD_SECONDS = 5.0
# A job's pods are made one after the other: those of most gangs are all there by then.
PATIENCE_SECONDS = 10.0
# Pods that are told in one round; a gang may have thousands.
MOST = 500


class WaitingGangController:
    """Tells a pod once of each thing that is lacking.

    Args:
        gangs: all gangs.
        clock: the time.
        report: says of a pod that it is unschedulable and why: its condition and an event.
    """

    def __init__(self, gangs: GangCache, clock: Clock, report: Callable[[Pod, str], None]) -> None:
        self._gangs = gangs
        self._clock = clock
        self._report = report
        # By uid, what was told last: of what holds a node, that it waits, whatever for.
        self._last_reported: dict[str, tuple[MemberState, str]] = {}

    async def run(self) -> None:
        """Looks every 5 s, until cancelled."""
        while True:
            self.report()
            await asyncio.sleep(PERIOD_SECONDS)

    def report(self) -> int:
        """Tells those that were not told yet; gives how many."""
        before = self._clock.wall_seconds() - PATIENCE_SECONDS
        told: dict[str, tuple[MemberState, str]] = {}
        count = 0
        for gang_id in sorted(self._gangs.gangs):
            gang = self._gangs.gangs[gang_id]
            for member, why in self._waiting(gang) if gang.created_seconds <= before else ():
                now = member.state, why if member.state is MemberState.PENDING else ""
                if self._last_reported.get(member.uid) != now:
                    if count == MOST:
                        continue
                    count += 1
                    if not _says(member.pod, why):
                        self._report(member.pod, why)
                told[member.uid] = now
        self._last_reported = told
        return count

    def _waiting(self, gang: Gang) -> Iterator[tuple[GangMember, str]]:
        """The pods of a gang that wait for others, and what each is told."""
        for member in gang.of(MemberState.PENDING):
            why = self._gangs.blocking_reason(member.pod)
            if not why:
                break
            yield member, why
        missing = self._gangs.missing(gang) if gang.count(MemberState.WAITING) else 0
        if missing and gang.group is not None:
            why = reasons.still_short(gang.group.id, missing)
            for member in gang.of(MemberState.WAITING):
                yield member, why


def _says(pod: Pod, why: str) -> bool:
    """Whether a pod says so already, as after a restart."""
    known = pod_conditions.find(pod, "PodScheduled")
    return known is not None and (known.status, known.message) == ("False", why)
