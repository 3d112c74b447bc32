# SPDX-License-Identifier: Apache-2.0
"""Who claims what: the claims of all owners by scope, and by target; remembers what changed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.agent.executor.composition.value_resolver import OwnedClaim
from koord.agent.executor.target import BURST, CPUS, QUOTA, Target, parent_of

if TYPE_CHECKING:
    from collections.abc import Iterable, KeysView, Sequence
    from collections.abc import Set as AbstractSet

    from koord.agent.executor.claim import Claim

_NONE: tuple[OwnedClaim, ...] = ()
_REACHES_DOWN = (CPUS, QUOTA)


class ClaimIndex:
    """Claims as they stand, indexed both ways; a scope that says the same again costs a compare.

    Attributes:
        dirty: targets whose claims changed since they were taken.
        generation: another number whenever any claims are others.
    """

    def __init__(self) -> None:
        self._scopes: dict[tuple[str, str], dict[Target, tuple[OwnedClaim, ...]]] = {}
        # None where one of them was forgotten: whatever comes next is new.
        self._stated: dict[tuple[str, str], list[Claim] | None] = {}
        self._claims: dict[Target, tuple[OwnedClaim, ...]] = {}
        self.dirty: set[Target] = set()
        self.generation = 0
        # Whose targets were asked for last, when, and what they were.
        self._query: tuple[Sequence[str], int, set[Target]] = ((), -1, set())

    def is_unchanged(self, owner: str, scope: str, claims: Sequence[Claim]) -> bool:
        """Whether a scope was stated with these very claims, and none was forgotten since."""
        return self._stated.get((owner, scope), []) == claims

    def state(
        self,
        owner: str,
        scope: str,
        claims: Iterable[tuple[Target, OwnedClaim]],
        stated: Sequence[Claim] = (),
    ) -> None:
        """Replaces the claims of a scope; several of them may be about one target.

        Args:
            owner, scope: whose.
            claims: those that can be written.
            stated: all of them, as the owner said them.
        """
        new: dict[Target, tuple[OwnedClaim, ...]] = {}
        for target, owned in claims:
            new[target] = (*new.get(target, _NONE), owned)
        old = self._scopes.get((owner, scope), {})
        for target in old.keys() | new.keys():
            if old.get(target) != new.get(target):
                self._replace(target, (owner, scope), new.get(target, _NONE))
        if new:
            self._scopes[owner, scope] = new
        else:
            self._scopes.pop((owner, scope), None)
        if stated:
            self._stated[owner, scope] = list(stated)
        else:
            self._stated.pop((owner, scope), None)

    def _replace(self, target: Target, whose: tuple[str, str], own: tuple[OwnedClaim, ...]) -> None:
        others = [o for o in self._claims.get(target, _NONE) if (o.owner, o.scope) != whose]
        claims = (*others, *own)
        if claims:
            self._claims[target] = claims
        else:
            self._claims.pop(target, None)
        self.dirty.add(target)
        self.generation += 1

    def forget(self, target: Target) -> None:
        """Drops all claims on a target, until somebody makes one anew."""
        self.generation += 1
        for owned in self._claims.pop(target, _NONE):
            self._scopes.get((owned.owner, owned.scope), {}).pop(target, None)
            self._stated[owned.owner, owned.scope] = None

    def scopes(self, owner: str) -> list[str]:
        """Scopes in which an owner claims anything, sorted."""
        return sorted(scope for name, scope in self._scopes if name == owner)

    def of(self, target: Target) -> tuple[OwnedClaim, ...]:
        """The claims on a target."""
        return self._claims.get(target, _NONE)

    def targets(self) -> list[Target]:
        """Every claimed target, sorted."""
        return sorted(self._claims)

    def claimed(self) -> KeysView[Target]:
        """Every claimed target, in no order."""
        return self._claims.keys()

    def claimed_by(self, owners: Sequence[str]) -> AbstractSet[Target]:
        """What some owners claim; no owner is any."""
        if self._query[:2] != (owners, self.generation):
            found = {
                target
                for target, claims in self._claims.items()
                if not owners or any(owned.owner in owners for owned in claims)
            }
            self._query = (owners, self.generation, found)
        return self._query[2]

    def affected(self, changed: Iterable[Target], known: Iterable[Target]) -> set[Target]:
        """What a change may also change: quotas and CPUs beneath, bursts beside their quota.

        Args:
            changed: targets whose value may be another now.
            known: all targets that are claimed or being given back.
        """
        found = set(changed)
        tops = {(t.resource, t.directory) for t in found if t.resource in _REACHES_DOWN}
        if not tops:
            return found
        everything = set(known)
        for target in everything:
            if target.resource in _REACHES_DOWN and _beneath_any(target, tops):
                found.add(target)
        quotas = [t.directory for t in found if t.resource == QUOTA]
        return found | ({Target(BURST, directory) for directory in quotas} & everything)


def _beneath_any(target: Target, tops: set[tuple[str, str]]) -> bool:
    above = parent_of(target.directory)
    while above is not None:
        if (target.resource, above) in tops:
            return True
        above = parent_of(above)
    return False
