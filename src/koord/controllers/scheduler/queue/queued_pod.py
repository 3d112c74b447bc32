# SPDX-License-Identifier: Apache-2.0
"""A pod in the scheduling queue, and the places where it can be."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, Protocol, TypeAlias

NO_PLUGINS: frozenset[str] = frozenset()

# How a pod waited: place, attempts, unschedulable and pending plugins, gating plugin, its reason.
SavedState: TypeAlias = "tuple[QueueState, int, frozenset[str], frozenset[str], str, object]"


class Rejector(NamedTuple):
    """A plugin of a profile that has rejected a pod."""

    profile: str
    plugin: str


class SlowAttempts(NamedTuple):
    """Attempts of a pod, one after the other, that took too long.

    Attributes:
        in_a_row: how many.
        seconds: how long the last one took.
        where: where its time went, for people.
        until: monotonic seconds before which the pod is not tried again.
    """

    in_a_row: int
    seconds: float
    where: str
    until: float


class PodLike(Protocol):
    """What the queue reads of a pod; everything else about it is the caller's."""

    @property
    def uid(self) -> str:
        """The pod's identity: the key of the queue."""
        ...

    @property
    def key(self) -> str:
        """``namespace/name``."""
        ...

    @property
    def priority(self) -> int:
        """``spec.priority``."""
        ...


class QueueState(IntEnum):
    """Where a pod is. It is in one place at a time."""

    ACTIVE = 0
    BACKOFF = 1
    ERROR_BACKOFF = 2  # failed for no reason of its own, or costs much; is never popped early
    UNSCHEDULABLE = 3
    GATED = 4  # among the unschedulable, but woken by its gating plugin alone
    IN_FLIGHT = 5
    GONE = 6


# For every pod several are set: to look a member up in its class takes longer than that.
ACTIVE, GATED, UNSCHEDULABLE = QueueState.ACTIVE, QueueState.GATED, QueueState.UNSCHEDULABLE
IN_FLIGHT, GONE = QueueState.IN_FLIGHT, QueueState.GONE


class QueuedPod:
    """A pod with what the queue knows about it. Read only, but for the queue itself.

    Attributes:
        info: the pod as the caller gave it last.
        profile: the scheduler name whose plugins decide about it.
        arrival: counts pods as they were added; the last tie-breaker of every order.
        timestamp: monotonic seconds of the last time it was added or put back.
        first_seconds: monotonic seconds when it first became ready to be scheduled; None before.
        attempts: how often it was popped.
        unschedulable_plugins: who rejected it in its last attempt.
        pending_plugins: who of them waits for something that will come (Permit, Reserve).
        gated_by: the plugin whose PreEnqueue holds it back, ``""`` if none does.
        gate_reason: what that plugin said.
        place: where it is.
        backoff_until: monotonic seconds before which it is not to be tried again.
        oversized: whether it is tried after the others; as of when it last became active.
        slow: its attempts that took too long, None if its last one did not.
    """

    __slots__ = (
        "arrival",
        "attempts",
        "backoff_until",
        "before",
        "first_seconds",
        "gate_reason",
        "gated_by",
        "heap_entry",
        "indexed",
        "info",
        "latest",
        "oversized",
        "pending_plugins",
        "place",
        "profile",
        "shape",
        "since",
        "slow",
        "timestamp",
        "unschedulable_plugins",
    )

    def __init__(self, info: Any, profile: str, arrival: int, timestamp: float) -> None:
        self.info = info
        self.profile = profile
        self.arrival = arrival
        self.timestamp = timestamp
        self.attempts = 0
        self.place = GONE
        self.unschedulable_plugins = NO_PLUGINS
        self.pending_plugins = NO_PLUGINS
        self.gated_by = ""
        self.gate_reason: object = None
        self.backoff_until = 0.0
        self.oversized = False
        self.slow: SlowAttempts | None = None
        self.first_seconds: float | None = None
        # The queue's own: the entry of a heap that counts, where the index has it, how it waited
        # before it was taken, where the log of events ended then, and news of it since.
        self.heap_entry = 0
        self.indexed: tuple[Rejector, ...] = ()
        self.shape: object = None
        self.since = 0
        self.before: SavedState | None = None
        self.latest: Any = None

    def __repr__(self) -> str:
        return f"QueuedPod({self.info.key}, {self.place.name}, attempts={self.attempts})"

    @property
    def rejectors(self) -> frozenset[str]:
        """Whose events may help it."""
        return self.unschedulable_plugins | self.pending_plugins
