# SPDX-License-Identifier: Apache-2.0
"""How many pods of one workload, or namespace, are evicted in a time.

Rule: docs/reference/migration.md#limiter-of-objects.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.cluster.pods import controller
from koord.controllers.descheduler.migration.arbitration.workload_limits import workload_limit
from koord.controllers.descheduler.migration.migration_args import WORKLOAD

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.migration.arbitration.workloads import Workloads
    from koord.controllers.descheduler.migration.migration_args import (
        MigrationControllerArgs,
        ObjectLimiterArgs,
    )

_GANG_SECONDS = 3600.0
"""For so long at most a gang is on its way that was charged."""


@dataclass
class EvictionBucket:
    """Tokens that come back evenly.

    Args:
        rate: tokens a second.
        size: of the bucket.
        tokens: at ``since``; below 0 after a gang that is larger than the bucket.
        since: monotonic seconds.
    """

    rate: float
    size: float
    tokens: float
    since: float

    @property
    def debt_seconds(self) -> float:
        """How long it takes until what was taken beyond the bucket has come back."""
        return max(0.0, -self.tokens / self.rate)

    def fill(self, now: float) -> float:
        """The tokens now."""
        self.tokens = min(self.size, self.tokens + (now - self.since) * self.rate)
        self.since = now
        return self.tokens

    def take(self, now: float) -> bool:
        """Takes a token where there is one."""
        if self.fill(now) < 1:
            return False
        self.tokens -= 1
        return True


class HeldBack(NamedTuple):
    """What of the limiter keeps a pod.

    Attributes:
        message: which limit, one line; the same for as long as it does.
        seconds: until the next may go.
    """

    message: str
    seconds: float


class ObjectLimiter:
    """Buckets by workload and by namespace.

    Args:
        args: of the plugin.
        workloads: of pods.
    """

    def __init__(self, args: MigrationControllerArgs, workloads: Workloads) -> None:
        self._args = args
        self._workloads = workloads
        self._buckets: dict[tuple[str, str], EvictionBucket] = {}
        # When gangs that go were charged, by their groups.
        self._charged: dict[str, float] = {}

    def held_back(self, pods: Collection[Pod], now: float, group: str = "") -> HeldBack | None:
        """Which limit evictions now would exceed; None where they would not.

        A gang goes as a whole: once there are tokens for all of it, or the bucket is full.

        Args:
            pods: one, or those of a gang.
            now: monotonic seconds.
            group: of the jobs that move a gang; one whose first pod went is not held.
        """
        if group in self._charged:
            return None
        for kind, _ in self._limiters():
            for key, number in _numbers(kind, pods).items():
                bucket = self._buckets.get((kind, key))
                needed = min(number, bucket.size) if bucket is not None else 0
                if bucket is not None and bucket.fill(now) < needed:
                    one = next(each for each in pods if _key(kind, each) == key)
                    text = f"objectLimiters.{kind}: one eviction of {_title(kind, one)} "
                    text += f"each {1 / bucket.rate:.0f} s"
                    text += f"; {number} go at once, as one gang" if number > 1 else ""
                    return HeldBack(text, (needed - bucket.tokens) / bucket.rate)
        return None

    def evicted(self, pods: Collection[Pod], now: float, group: str = "") -> None:
        """Charges evictions: of one pod, or with the first of a gang those of all.

        Args:
            pods: see :meth:`held_back`; likewise the rest.
            now: monotonic seconds.
            group: charged once.
        """
        self._forget(now)
        if group in self._charged:
            return
        if group:
            self._charged[group] = now
        for kind, limiter in self._limiters():
            for key, count in _numbers(kind, pods).items():
                one = next(each for each in pods if _key(kind, each) == key)
                if number := self._number(kind, limiter, one):
                    self._take((kind, key), limiter, number, count, now)

    def _take(
        self, key: tuple[str, str], limiter: ObjectLimiterArgs, number: int, count: int, now: float
    ) -> None:
        """Takes ``count`` tokens from a bucket that gets ``number`` in the limiter's duration."""
        rate = number * 1e9 / limiter.duration.nanoseconds
        size = limiter.burst or 1
        bucket = self._buckets.setdefault(key, EvictionBucket(rate, size, size, now))
        bucket.fill(now)
        bucket.rate = rate
        if count > 1:
            bucket.tokens -= count
        else:
            bucket.take(now)

    def _limiters(self) -> list[tuple[str, ObjectLimiterArgs]]:
        found = sorted(self._args.object_limiters.items())
        return [(kind, limiter) for kind, limiter in found if limiter.duration.nanoseconds]

    def _number(self, kind: str, limiter: ObjectLimiterArgs, pod: Pod) -> int:
        if kind != WORKLOAD:
            return limiter.max_migrating if isinstance(limiter.max_migrating, int) else 0
        workload = self._workloads.of(pod)
        amount = limiter.max_migrating
        if amount is None:
            amount = self._args.max_migrating_per_workload
        return workload_limit(workload.replicas, amount) if workload is not None else 0

    def _forget(self, now: float) -> None:
        """Drops buckets that nobody took from for one and a half of their durations."""
        for kind, limiter in self._limiters():
            longest = 1.5 * limiter.duration.nanoseconds / 1e9
            old = [
                key
                for key, bucket in self._buckets.items()
                if key[0] == kind and now - bucket.since > longest + bucket.debt_seconds
            ]
            for key in old:
                del self._buckets[key]
        for group, at in list(self._charged.items()):
            if now - at > _GANG_SECONDS:
                del self._charged[group]


def _numbers(kind: str, pods: Collection[Pod]) -> Counter[str]:
    """How many of the pods take from each bucket, in the order of the pods."""
    return Counter(key for each in pods if (key := _key(kind, each)))


def _key(kind: str, pod: Pod) -> str:
    """Whose bucket a pod takes from; empty for none."""
    if kind != WORKLOAD:
        return pod.metadata.namespace
    owner = controller(pod)
    return owner.uid if owner is not None else ""


def _title(kind: str, pod: Pod) -> str:
    """Whose bucket it is, for people."""
    namespace, owner = pod.metadata.namespace, controller(pod)
    if kind != WORKLOAD or owner is None:
        return f"namespace {namespace}"
    return f"{owner.kind} {namespace}/{owner.name}"
