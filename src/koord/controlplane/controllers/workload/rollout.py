# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of a Deployment's rollout: how large each of its ReplicaSets should be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.controlplane.controllers.base.objects import scaled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.base.documents import Document


@dataclass(frozen=True)
class ReplicaSetSize:
    """A ReplicaSet of a Deployment, as rollouts see it.

    Attributes:
        replicas: asked for.
        available: pods that are ready long enough.
        known_maximum: most pods that the Deployment allowed when it last sized this one; 0 if
            unknown.
    """

    replicas: int
    available: int
    known_maximum: int = 0


@dataclass(frozen=True)
class RolloutBounds:
    """How far a Deployment may stray from its size.

    Attributes:
        replicas: its size.
        surge: pods above it.
        unavailable: available pods that may be missing.
    """

    replicas: int
    surge: int
    unavailable: int

    @classmethod
    def of(cls, spec: Document) -> RolloutBounds:
        """The bounds of a Deployment's spec; Recreate has none.

        Surge rounds up, unavailability down; where both come to nothing one pod may be missing,
        since nothing could move otherwise.
        """
        replicas = spec.get("replicas", 1)
        strategy = spec.get("strategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return cls(replicas, 0, 0)
        rolling = strategy.get("rollingUpdate") or {}
        surge = scaled(rolling.get("maxSurge"), replicas, True, "25%")
        unavailable = scaled(rolling.get("maxUnavailable"), replicas, False, "25%")
        if surge == 0 and unavailable == 0:
            unavailable = 1
        return cls(replicas, surge, min(unavailable, replicas))

    @property
    def most(self) -> int:
        """Pods at any time."""
        return self.replicas + self.surge

    @property
    def least_available(self) -> int:
        """Available pods that must stay."""
        return self.replicas - self.unavailable


def grown(new: int, total: int, bounds: RolloutBounds) -> int:
    """The new ReplicaSet's next size: towards the Deployment's, within the surge.

    Args:
        new: its size now.
        total: sizes of all ReplicaSets, the new one included.
        bounds: of the Deployment.
    """
    if new >= bounds.replicas:
        return bounds.replicas
    return new + max(0, min(bounds.most - total, bounds.replicas - new))


def shrunk(old: Sequence[ReplicaSetSize], new: ReplicaSetSize, bounds: RolloutBounds) -> list[int]:
    """The old ReplicaSets' next sizes, oldest first: broken pods go first, then healthy ones.

    Never are fewer pods left available than the bounds want, even if every pod of the new
    ReplicaSet that is not available yet never becomes so.
    """
    sizes = [size.replicas for size in old]
    pending = new.replicas - new.available
    spare = sum(sizes) + new.replicas - bounds.least_available - pending
    if spare <= 0:
        return sizes
    for index, size in enumerate(old):
        broken = min(spare, max(0, size.replicas - size.available))
        sizes[index] -= broken
        spare -= broken
    spare = sum(size.available for size in old) + new.available - bounds.least_available
    for index in range(len(old)):
        healthy = min(max(0, spare), sizes[index])
        sizes[index] -= healthy
        spare -= healthy
    return sizes


def proportional(sizes: Sequence[ReplicaSetSize], before: int, bounds: RolloutBounds) -> list[int]:
    """The sizes after the Deployment was scaled in the middle of a rollout.

    What is to be added or taken goes to the ReplicaSets by their share, the rest to the first.

    Args:
        sizes: active ReplicaSets, largest first; of equal ones the newest first when growing, the
            oldest first when shrinking.
        before: the Deployment's ``status.replicas``, for those of unknown maximum.
        bounds: of the Deployment, its new size included.
    """
    target = bounds.most if bounds.replicas > 0 else 0
    to_add = target - sum(size.replicas for size in sizes)
    left = to_add
    result = []
    for size in sizes:
        part = _share(size, before, bounds)
        part = max(0, min(part, left)) if to_add > 0 else min(0, max(part, left))
        result.append(size.replicas + part)
        left -= part
    if result:
        result[0] = max(0, result[0] + left)
    return result


def _share(size: ReplicaSetSize, before: int, bounds: RolloutBounds) -> int:
    if bounds.replicas == 0:
        return -size.replicas
    base = size.known_maximum or before
    if base <= 0:
        return 0
    # Halves round up, as Go's math.Round does for what is not negative.
    return int(size.replicas * bounds.most / base + 0.5) - size.replicas
