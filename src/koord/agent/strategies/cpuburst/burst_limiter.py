# SPDX-License-Identifier: Apache-2.0
"""The token buckets of containers that raise their quota, by container id.

Rule: docs/reference/strategies.md#limiter. The buckets' arithmetic is in ``decision.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from koord.agent.strategies import one_node
from koord.agent.strategies.cpuburst import decision

if TYPE_CHECKING:
    from collections.abc import Sequence


class BurstUse(NamedTuple):
    """One container in one round; None is not configured.

    Attributes:
        id: of the container.
        period_seconds: below 0 or None: no limit on how long.
        percent: how far its quota may be raised.
        usage_percent: of its CPU limit.
    """

    id: str
    period_seconds: int | None
    percent: int | None
    usage_percent: int


@dataclass(slots=True)
class _TokenBucket:
    capacity: int
    tokens: int
    at_seconds: float
    expires_after_seconds: float


class BurstLimiter:
    """How long each container may go on using more than its limit."""

    def __init__(self) -> None:
        self._buckets: dict[str, _TokenBucket] = {}

    def permitted(self, uses: Sequence[BurstUse], now_seconds: float) -> list[bool]:
        """Whether each container may have more than its limit now; every use is accounted for.

        Parts of a second stay for the next round, so that time is never lost.
        """
        answers = [_without_bucket(use) for use in uses]
        limited = [use for use, answer in zip(uses, answers, strict=True) if answer is None]
        after = iter(self._step(limited, now_seconds))
        self._forget(now_seconds)
        return [next(after) > 0 if answer is None else answer for answer in answers]

    def tokens(self, container_id: str) -> int | None:
        """What a bucket holds; None where there is none."""
        bucket = self._buckets.get(container_id)
        return None if bucket is None else bucket.tokens

    def _step(self, uses: list[BurstUse], now: float) -> list[int]:
        if not uses:
            return []
        buckets = [self._bucket(use, now) for use in uses]
        seconds = one_node.column([int(now - bucket.at_seconds) for bucket in buckets])
        after = decision.tokens_after(
            one_node.column([bucket.tokens for bucket in buckets]),
            one_node.column([bucket.capacity for bucket in buckets]),
            one_node.column([use.usage_percent for use in uses]),
            seconds,
        )
        left: list[int] = after.tolist()
        for bucket, tokens, passed in zip(buckets, left, seconds.tolist(), strict=True):
            bucket.tokens = tokens
            bucket.at_seconds += passed
        return left

    def _bucket(self, use: BurstUse, now: float) -> _TokenBucket:
        assert use.period_seconds is not None, "only limited uses come here"
        assert use.percent is not None, "only limited uses come here"
        capacities = decision.capacities(
            one_node.row(use.period_seconds), one_node.row(use.percent)
        )
        capacity, bucket = one_node.amount(capacities), self._buckets.get(use.id)
        if bucket is None or bucket.capacity != capacity:
            tokens = one_node.amount(decision.first_tokens(capacities))
            bucket = _TokenBucket(capacity, tokens, now, 2.0 * use.period_seconds)
            self._buckets[use.id] = bucket
        return bucket

    def _forget(self, now: float) -> None:
        gone = [
            key
            for key, bucket in self._buckets.items()
            if now - bucket.at_seconds > max(bucket.expires_after_seconds, 1.0)
        ]
        for key in gone:
            del self._buckets[key]


def _without_bucket(use: BurstUse) -> bool | None:
    if use.period_seconds is None or use.period_seconds < 0:
        return True
    if use.percent is None or use.percent < 100:
        return False
    return None
