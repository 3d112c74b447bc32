# SPDX-License-Identifier: Apache-2.0
"""How many pods of one workload, or namespace, are evicted in a time.

Rule: docs/reference/migration.md#limiter-of-objects.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from koord.controllers.cluster.pods import controller
from koord.controllers.descheduler.migration.arbitration.workload_limits import workload_limit
from koord.controllers.descheduler.migration.migration_args import WORKLOAD

if TYPE_CHECKING:
    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.migration.arbitration.workloads import Workloads
    from koord.controllers.descheduler.migration.migration_args import (
        MigrationControllerArgs,
        ObjectLimiterArgs,
    )


@dataclass
class EvictionBucket:
    """Tokens that come back evenly.

    Args:
        rate: tokens a second.
        size: of the bucket.
        tokens: at ``since``.
        since: monotonic seconds.
    """

    rate: float
    size: float
    tokens: float
    since: float

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

    def held_back(self, pod: Pod, now: float) -> HeldBack | None:
        """Which limit an eviction of the pod now would exceed; None where it would not.

        Args:
            now: monotonic seconds.
        """
        for kind, _ in self._limiters():
            bucket = self._buckets.get((kind, _key(kind, pod)))
            if bucket is not None and bucket.fill(now) < 1:
                text = f"objectLimiters.{kind}: one eviction of {_title(kind, pod)} "
                text += f"each {1 / bucket.rate:.0f} s"
                return HeldBack(text, (1 - bucket.tokens) / bucket.rate)
        return None

    def evicted(self, pod: Pod, now: float) -> None:
        """Charges an eviction."""
        self._forget(now)
        for kind, limiter in self._limiters():
            key, number = _key(kind, pod), self._number(kind, limiter, pod)
            if not key or not number:
                continue
            rate = number * 1e9 / limiter.duration.nanoseconds
            size = limiter.burst or 1
            bucket = self._buckets.setdefault((kind, key), EvictionBucket(rate, size, size, now))
            bucket.fill(now)
            bucket.rate = rate
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
            old = [k for k, b in self._buckets.items() if k[0] == kind and now - b.since > longest]
            for key in old:
                del self._buckets[key]


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
