# SPDX-License-Identifier: Apache-2.0
"""Minimums of children that were admitted and are not stored yet, written on their parent.

Rule: docs/reference/admission.md#a-parents-minimum. All replicas see the same claims, since they
stand in one object that each writes only where it has seen its last version; a claim ends as the
child is seen as it was claimed, or when its request cannot be stored any more.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from msgspec import field

from koord.api.protocol import annotation, keys
from koord.api.wirestruct import WireStruct
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from koord.api.kinds.quota import ElasticQuota
    from koord.base.clock import Clock
    from koord.controllers.cluster.quota_groups import Amounts, QuotaGroup

LIFETIME_SECONDS = 90.0
"""An API server gives up a request after 60 s; the rest is for clocks that differ."""
MOST_CLAIMS = 500


class MinimumClaim(WireStruct):
    """What one request takes.

    Attributes:
        request: uid of the admission request.
        child: name of the child.
        min: what it is to have, in the integers of ``amounts_of``.
        until: wall time in seconds at which it is void.
    """

    request: str = ""
    child: str = ""
    min: dict[str, int] = field(default_factory=dict)
    until: float = 0.0


def read_claims(parent: ElasticQuota) -> list[MinimumClaim]:
    """The claims on an object; what cannot be read is none."""
    try:
        found = (
            annotation.read(parent, keys.QUOTA_CLAIMS, list[MinimumClaim], empty_is_absent=True)
            or []
        )
    except KoordError:
        return []
    return found[:MOST_CLAIMS]


class ClaimBook:
    """All claims that this replica has seen and that may still become true.

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._open: defaultdict[str, dict[str, MinimumClaim]] = defaultdict(dict)
        self._done: dict[str, float] = {}

    def see(self, item: ElasticQuota, group: QuotaGroup) -> None:
        """Learns from a quota that is stored: of its own claims, and that its parent's are met."""
        for claim in read_claims(item):
            if claim.request not in self._done and claim.until > self._now():
                self._open[group.name].setdefault(claim.request, claim)
        there = self._open.get(group.parent)
        if not there:
            return
        for claim in list(there.values()):
            if claim.child == group.name and _covers(group.min, claim.min):
                self._done[claim.request] = claim.until
                del there[claim.request]

    def forget(self, name: str) -> None:
        """A parent is gone, and with it what was claimed of it."""
        self._open.pop(name, None)

    def has(self, parent: str, request: str) -> bool:
        """Whether a request's claim on a parent stands."""
        return request in self._open.get(parent, {}) or request in self._done

    def open(self, parent: str) -> list[MinimumClaim]:
        """The claims on a parent that stand."""
        now = self._now()
        for uid in [uid for uid, until in self._done.items() if until <= now]:
            del self._done[uid]
        there = self._open.get(parent)
        if there is None:
            return []
        for uid in [uid for uid, claim in there.items() if claim.until <= now]:
            del there[uid]
        if not there:
            del self._open[parent]
        return list(there.values())

    def claimed(
        self, parent: str, children: Mapping[str, QuotaGroup], without: str = ""
    ) -> Iterator[tuple[str, dict[str, int]]]:
        """What children may get beyond what they are seen to have.

        Args:
            parent: whose children.
            children: as they are seen.
            without: a child that is left out.
        """
        most: defaultdict[str, dict[str, int]] = defaultdict(dict)
        for claim in self.open(parent):
            if claim.child != without:
                _raise(most[claim.child], claim.min)
        for name, amounts in most.items():
            have = children[name].min if name in children else {}
            yield name, {key: max(0, amount - have.get(key, 0)) for key, amount in amounts.items()}

    def claim(self, request: str, child: QuotaGroup) -> MinimumClaim:
        """A claim that begins now."""
        return MinimumClaim(request, child.name, dict(child.min), self._now() + LIFETIME_SECONDS)

    def _now(self) -> float:
        return self._clock.wall_seconds()


def _covers(have: Amounts, need: Amounts) -> bool:
    return all(amount <= have.get(name, 0) for name, amount in need.items())


def _raise(most: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        most[name] = max(most.get(name, 0), amount)
