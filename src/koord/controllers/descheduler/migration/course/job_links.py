# SPDX-License-Identifier: Apache-2.0
"""Which jobs have to do with a reservation or a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


class JobLinks:
    """Which jobs have to do with a thing."""

    def __init__(self) -> None:
        self._by_thing: dict[str, set[str]] = {}
        self._by_job: dict[str, frozenset[str]] = {}

    def put(self, uid: str, things: Iterable[str]) -> None:
        """Says all that a job has to do with."""
        for thing in self._by_job.pop(uid, frozenset()):
            self._by_thing[thing].discard(uid)
            if not self._by_thing[thing]:
                del self._by_thing[thing]
        linked = frozenset(things)
        for thing in linked:
            self._by_thing.setdefault(thing, set()).add(uid)
        if linked:
            self._by_job[uid] = linked

    def of(self, thing: str) -> list[str]:
        """Uids of jobs."""
        return sorted(self._by_thing.get(thing, ()))
