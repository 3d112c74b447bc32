# SPDX-License-Identifier: Apache-2.0
"""How the claims of several owners become one value: layers, ranks, and what the kernel demands.

Pure: files are seen through the functions that a :class:`ValueResolver` gets. Rules: layers in
``claim.py``; kernel/sched/core.c (a child's quota within its parent's on v1, a burst within its
quota where the kernel wants that, quotas of at least 1 ms),
Documentation/admin-guide/cgroup-v1/cpusets.rst.
"""

from __future__ import annotations

import errno
import math
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.executor.claim import Claim, Layer
from koord.agent.executor.target import (
    BURST,
    CPUS,
    QUOTA,
    QUOTA_LEAST_US,
    Target,
    Value,
    parent_of,
    unlimited_first,
)
from koord.kernels.cgroup import Outcome
from koord.kernels.cgroup_parse import Version
from koord.kernels.cpuset import CPUSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from koord.agent.executor.writers.target_writer import WriteRequest
    from koord.kernels.cgroup import Written

RANKS = {
    "cpuburst": 5,
    "cpusuppress": 5,
    "CPUNormalization": 10,
    "BatchResource": 20,
    "CPUSetAllocator": 30,
}
"""Of several SET claims on one file the highest rank wins; owners not named here have 50.

Suppression sets what BE pods have while nobody suppresses them, which a hook knows better for the
containers it gives CPUs to; burst sets the limit of a container whose file says more.
"""

_USUAL_RANK = 50
_SAYS_SO = (Outcome.WRITTEN, Outcome.UNCHANGED)


class OwnedClaim(NamedTuple):
    """A claim, its value normalised, and whose it is."""

    owner: str
    scope: str
    claim: Claim


class ComposedValue(NamedTuple):
    """What to write, and why.

    Attributes:
        value: in v1 units.
        owners: who made it what it is, the deciding one last; empty for an original value.
        reason: of the last of them, and what the kernel's rules made of it.
    """

    value: Value
    owners: tuple[str, ...]
    reason: str


def order(owned: OwnedClaim) -> tuple[int, int, str, str]:
    """Claims in the order in which they are applied: layers, ranks, then names in byte order."""
    rank = RANKS.get(owned.owner, _USUAL_RANK)
    return (owned.claim.layer, rank, owned.owner, owned.scope)


def compose(
    resource: str,
    claims: Sequence[OwnedClaim],
    original: Value | None,
    below: Layer | None = None,
) -> ComposedValue | None:
    """What the layers make of one value.

    Args:
        resource: its key.
        claims: in any order, values normalised.
        original: what the file said before koord came; the base where no claim sets the value.
        below: only layers below this one.

    Returns:
        None where neither a claim nor an original gives a value.
    """
    value, reason = original, "as it was before"
    owners: tuple[str, ...] = ()
    for owner, _, claim in sorted(claims, key=order) if len(claims) > 1 else claims:
        if below is not None and claim.layer >= below:
            break
        made = _applied(resource, claim, value)
        if made is None or (made == value and owners):
            continue
        value, owners, reason = made, (*owners, owner), claim.reason
    return None if value is None else ComposedValue(value, owners, reason)


def _applied(resource: str, claim: Claim, value: Value | None) -> Value | None:
    if claim.layer is Layer.SET:
        return _set(resource, claim)
    if claim.layer is Layer.SCALE:
        return None if value is None else scaled_quota_us(int(value), float(claim.value))
    if resource == CPUS:
        return _mixed_cpus(claim, value)
    if value is None:
        return int(claim.value) if claim.layer is Layer.CAP else None
    choose = max if claim.layer is Layer.RAISE else min
    return choose(int(claim.value), int(value), key=lambda n: unlimited_first(resource, n))


def _set(resource: str, claim: Claim) -> Value | None:
    # No CPUs at all is what no container can run on: such a claim says nothing.
    if resource == CPUS and not claim.value:
        return None
    return claim.value if isinstance(claim.value, str) else int(claim.value)


def _mixed_cpus(claim: Claim, value: Value | None) -> Value | None:
    wanted = CPUSet.parse_wire(str(claim.value))
    if not wanted:
        return None
    if not value:
        # No CPUs of one's own (v2) are all there are: more than that cannot be.
        return value if value == "" and claim.layer is Layer.RAISE else str(wanted)
    held = CPUSet.parse_wire(str(value))
    mixed = held | wanted if claim.layer is Layer.RAISE else held & wanted
    return str(mixed or wanted)


class BurstLimit:
    """Whether this kernel takes a burst above the quota beside it.

    Mainline refuses that, on v1 and v2 alike (kernel/sched/core.c, tg_set_cfs_bandwidth), kernels
    of some vendors take it. One burst asks for all: until the kernel has answered it the others
    stay within their quotas, and then it is not asked again.

    Args:
        known: where no question is needed.

    Attributes:
        known: whether it takes that; None until it was asked.
    """

    def __init__(self, known: bool | None = None) -> None:
        self.known = known
        self._probed: Target | None = None

    def exceeds(self, target: Target) -> bool:
        """Whether a burst above its quota is to be written; the first of all asks."""
        if self.known is None and self._probed is None:
            self._probed = target
        return self.known or (self.known is None and target == self._probed)

    def learn(
        self,
        done: Iterable[tuple[WriteRequest, Written]],
        held: Callable[[Target], Value | None],
    ) -> Target | None:
        """Reads the answer off what was written; the target that asked, where it was answered.

        Args:
            done: what was written, with the kernel's results.
            held: what a file says now; None where it cannot be read.
        """
        asked, self._probed = self._probed, None
        if asked is None:
            return None
        quota = Target(QUOTA, asked.directory)
        results = {w.target: (w, r) for w, r in done if w.target in (asked, quota)}
        # A quota that is lowered below its burst is refused for the same reason.
        if any(_refused(result) for _, result in results.values()):
            self.known = False
        elif asked in results:
            request, result = results[asked]
            # A quota that did not get into its file left nothing to exceed.
            limit = held(quota)
            if result.outcome in _SAYS_SO and limit is not None:
                self.known = True if 0 <= int(limit) < int(request.value) else None
        return None if self.known is None else asked


def _refused(result: Written) -> bool:
    return result.outcome is Outcome.FAILED and result.errno == errno.EINVAL


def never_exceeds(target: Target) -> bool:
    """What a burst may be where no kernel is asked: never above its quota."""
    return False


class ValueResolver:
    """The values of a whole tree, each within what the kernel demands; remembers what it found.

    Args:
        version: on v1 a quota above its parent's is refused, on v2 it just has no effect.
        claims: of a target; empty where nobody claims it.
        original: what a target said before koord came.
        held: what an unclaimed file says now; None where it cannot be read.
        exceeds: whether a burst may be above its quota, see :class:`BurstLimit`.
    """

    def __init__(
        self,
        version: Version,
        claims: Callable[[Target], Sequence[OwnedClaim]],
        original: Callable[[Target], Value | None],
        held: Callable[[Target], Value | None],
        exceeds: Callable[[Target], bool] = never_exceeds,
    ) -> None:
        self._version, self._exceeds = version, exceeds
        self._claims, self._original, self._held = claims, original, held
        self._finals: dict[Target, ComposedValue | None] = {}
        self._unclaimed_values: dict[Target, Value | None] = {}

    def final(self, target: Target) -> ComposedValue | None:
        """What the file is to say; for one that nobody claims any more, what it said before."""
        if target not in self._finals:
            claims = self._claims(target)
            made = compose(target.resource, claims, self._original(target))
            self._finals[target] = made and self._within(target, made)
        return self._finals[target]

    def _within(self, target: Target, made: ComposedValue) -> ComposedValue:
        if target.resource == CPUS:
            return self._cpus_within(target, made)
        if target.resource == QUOTA and int(made.value) >= 0:
            return self._quota_within(target, made)
        if target.resource == BURST and int(made.value) > 0:
            quota = int(self._value(Target(QUOTA, target.directory), -1))
            if 0 <= quota < int(made.value) and not self._exceeds(target):
                return made._replace(value=quota, reason=f"{made.reason}; no more than the quota")
        return made

    def _quota_within(self, target: Target, made: ComposedValue) -> ComposedValue:
        quota = max(int(made.value), QUOTA_LEAST_US)
        if self._version is Version.V1:
            above = parent_of(target.directory)
            while above is not None:
                limit = int(self._value(Target(QUOTA, above), -1))
                if 0 < limit < quota:
                    quota = limit
                    made = made._replace(reason=f"{made.reason}; no more than {above} has")
                above = parent_of(above)
        return made._replace(value=quota)

    def _cpus_within(self, target: Target, made: ComposedValue) -> ComposedValue:
        above = parent_of(target.directory)
        while above is not None:
            held = str(self._value(Target(CPUS, above), ""))
            if held:
                return self._cut(made, held, above)
            above = parent_of(above)
        return made

    @staticmethod
    def _cut(made: ComposedValue, held: str, above: str) -> ComposedValue:
        outer, wanted = CPUSet.parse_wire(held), CPUSet.parse_wire(str(made.value))
        inner = (wanted & outer) or outer
        # No CPUs of one's own (v2) already means those of the parent.
        if not wanted or inner == wanted:
            return made
        reason = f"{made.reason}; only CPUs that {above or 'the root'} has"
        return made._replace(value=str(inner), reason=reason)

    def _value(self, target: Target, default: Value) -> Value:
        if self._claims(target) or self._original(target) is not None:
            final = self.final(target)
            return default if final is None else final.value
        if target not in self._unclaimed_values:
            self._unclaimed_values[target] = self._held(target)
        seen = self._unclaimed_values[target]
        return default if seen is None else seen


def scaled_quota_us(quota_us: int, ratio: float) -> int:
    """``ceil(quota / ratio)`` of a positive quota for a ratio above 1; else the quota as it is.

    In doubles, as in Koordinator: both must come to the same quota.
    Rule: docs/reference/hooks.md#cpunormalization.
    """
    return math.ceil(quota_us / ratio) if quota_us > 0 and ratio > 1.0 else quota_us
