# SPDX-License-Identifier: Apache-2.0
"""Minimums of children that were admitted and are not stored yet, written on their parent.

Rule: docs/reference/admission.md#a-parents-minimum. All replicas see the same claims, since they
stand in one object that each writes only where it has seen its last version; a claim ends as the
child is seen as it was claimed, or when its request cannot be stored any more.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from typing import TYPE_CHECKING, Any

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
"""Of a parent, those that stand and those that were met alike."""
# What no claim that koord made exceeds: an admission request's UID, a name, a quota's resources.
_LONGEST_REQUEST, _LONGEST_NAME, _MOST_RESOURCES = 64, 253, 64


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
    return [each for each in found[:MOST_CLAIMS] if _is_plausible(each)]


def _is_plausible(claim: MinimumClaim) -> bool:
    """Who may write a quota may write claims too, of any size."""
    short = len(claim.request) <= _LONGEST_REQUEST and len(claim.child) <= _LONGEST_NAME
    return short and len(claim.min) <= _MOST_RESOURCES


class _ParentClaims:
    """The claims on one parent.

    Attributes:
        open: those that stand, by request.
        done: until when a request's claim that was met may still be read.
        until: wall time in seconds at which all of them are void.
    """

    __slots__ = ("done", "open", "until")

    def __init__(self) -> None:
        self.open: OrderedDict[str, MinimumClaim] = OrderedDict()
        self.done: OrderedDict[str, float] = OrderedDict()
        self.until = 0.0

    def expire(self, now: float) -> None:
        """Forgets what is void."""
        for request in [key for key, each in self.open.items() if each.until <= now]:
            del self.open[request]
        for request in [key for key, until in self.done.items() if until <= now]:
            del self.done[request]

    def read(self, claim: MinimumClaim, now: float) -> None:
        """A claim is written, which holds for no longer than one that was made now."""
        if claim.request in self.open or claim.request in self.done or claim.until <= now:
            return
        claim.until = min(claim.until, now + LIFETIME_SECONDS)
        self.open[claim.request] = claim
        _bound(self.open)

    def meet(self, child: str, minimum: Amounts) -> None:
        """A child has so much now."""
        for claim in list(self.open.values()):
            if claim.child == child and _covers(minimum, claim.min):
                del self.open[claim.request]
                self.done[claim.request] = claim.until
                _bound(self.done)


def _bound(table: OrderedDict[str, Any]) -> None:
    if len(table) > MOST_CLAIMS:
        table.popitem(last=False)


class ClaimBook:
    """All claims that this replica has seen and that may still become true.

    What parents say of claims is bounded, whoever wrote it (docs/limits.md).

    Args:
        clock: the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # The one that nothing was read of for longest first.
        self._by_parent: OrderedDict[str, _ParentClaims] = OrderedDict()

    def see(self, item: ElasticQuota, group: QuotaGroup) -> None:
        """Learns from a quota that is stored: of its own claims, and that its parent's are met."""
        claims = read_claims(item)
        if claims:
            now = self._now()
            there = self._by_parent.pop(group.name, None) or _ParentClaims()
            self._by_parent[group.name] = there
            there.until = now + LIFETIME_SECONDS
            there.expire(now)
            for claim in claims:
                there.read(claim, now)
            self._drop_void(now)
        of_parent = self._by_parent.get(group.parent)
        if of_parent is not None:
            of_parent.meet(group.name, group.min)

    def forget(self, name: str) -> None:
        """A parent is gone, and with it what was claimed of it."""
        self._by_parent.pop(name, None)

    def has(self, parent: str, request: str) -> bool:
        """Whether a request's claim on a parent stands."""
        there = self._by_parent.get(parent)
        return there is not None and (request in there.open or request in there.done)

    def open(self, parent: str) -> list[MinimumClaim]:
        """The claims on a parent that stand."""
        now = self._now()
        self._drop_void(now)
        there = self._by_parent.get(parent)
        if there is None:
            return []
        there.expire(now)
        return list(there.open.values())

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

    def _drop_void(self, now: float) -> None:
        """Forgets parents all of whose claims are void."""
        while self._by_parent and next(iter(self._by_parent.values())).until <= now:
            self._by_parent.popitem(last=False)

    def _now(self) -> float:
        return self._clock.wall_seconds()


def _covers(have: Amounts, need: Amounts) -> bool:
    return all(amount <= have.get(name, 0) for name, amount in need.items())


def _raise(most: dict[str, int], amounts: Amounts) -> None:
    for name, amount in amounts.items():
        most[name] = max(most.get(name, 0), amount)
