# SPDX-License-Identifier: Apache-2.0
"""What a job is to the planner, and what comes of planning it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decision.decider import Decider, Decision
    from koord.controllers.scheduler.framework.diagnosis import Diagnosis
    from koord.controllers.scheduler.framework.rejection import Wait
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod


class PlacedPod(NamedTuple):
    """A pod that holds its node.

    Attributes:
        queued: the pod.
        decision: where.
        wait: until when it must not be bound; None if it may be.
    """

    queued: QueuedPod
    decision: Decision
    wait: Wait | None = None


class FailedPod(NamedTuple):
    """A pod that gets no node now.

    Attributes:
        queued: the pod.
        message: for its condition and event.
        plugins: whose events may help it.
        error: a failure rather than a verdict.
        nominated: the node that was, or is being, made free for it; ``""`` takes a promise back,
            None leaves it.
        decision: what its own attempt found; None if there was none.
        unreported: it was not tried itself, and nothing is to be written about it.
    """

    queued: QueuedPod
    message: str
    plugins: frozenset[str]
    error: bool = False
    nominated: str | None = None
    decision: Decision | None = None
    unreported: bool = False


class JobPlan(NamedTuple):
    """What came of one pass over a job: which pods are placed, which are not.

    Attributes:
        placed: pods that are assumed on their nodes, in order.
        failed: all others that were tried.
        together: once one of them cannot be bound, those not bound yet are to be released.
        victims: how many pods are preempted for it; None where nobody was asked to make room.
    """

    placed: Sequence[PlacedPod]
    failed: Sequence[FailedPod]
    together: bool = True
    victims: int | None = None


class GangCounts(NamedTuple):
    """How many pods one gang of a job has, and where they are.

    Attributes:
        gang: its id.
        minimum: how many pods it needs; 0 while nobody has said so.
        pods: how many there are.
        bound: how many of them are bound.
        held: how many hold a node that they are not bound to yet.
        shortfall: how many more pods there must be before any is tried.
        problem: why nothing is known of what it needs.
    """

    gang: str
    minimum: int = 0
    pods: int = 0
    bound: int = 0
    held: int = 0
    shortfall: int = 0
    problem: str = ""


class JobForecast(NamedTuple):
    """What would become of a job now.

    Attributes:
        rejection: why it cannot be tried at all.
        attempted: how many of its pods can be tried.
        placed: by uid, the nodes that those get that get one.
        missing: how many more must get one before any may be bound.
        first_failed: the first pod that gets none.
        reason: why it gets none; or why pods are missing though each that was tried got one.
    """

    rejection: str = ""
    attempted: int = 0
    placed: Mapping[str, str] = MappingProxyType({})
    missing: int = 0
    first_failed: str = ""
    reason: str = ""

    @property
    def is_schedulable(self) -> bool:
        """Whether pods may be bound."""
        return not self.rejection and not self.missing and bool(self.placed)


class PlannedJob(Protocol):
    """One job during one pass."""

    strict: bool
    is_satisfied: bool
    """Whether its pods do not need each other any more."""
    is_single: bool
    """Whether they need not even be placed together."""

    def waiting_uids(self) -> Iterable[str]:
        """The uids of all pods of the job that wait for a node, in the job's order."""
        ...

    def in_order(self, pods: Sequence[QueuedPod]) -> list[QueuedPod]:
        """Pods in the order in which they are to be tried: what is needed goes first."""
        ...

    def missing(self) -> int:
        """How many more pods must be placed before any may be bound."""
        ...

    def gather(
        self, decider: Decider, pods: Sequence[PodInfo]
    ) -> list[Decision] | Diagnosis | None:
        """Places the pods near each other, all or none; None if they do not care."""
        ...

    def placed(self, pod: PodInfo) -> None:
        """A pod holds a node."""
        ...

    def dropped(self, pod: PodInfo) -> None:
        """A pod lost the node it held."""
        ...

    def release(self) -> None:
        """All that must hold a node do: those that wait may go."""
        ...

    def rejection_message(self, cause: PodInfo, why: str, waiting: int) -> str:
        """What the others are told when one fits nowhere.

        Args:
            cause: the one.
            why: its own message.
            waiting: how many pods were placed.
        """
        ...

    def incomplete_message(self, missing: int) -> str:
        """What all are told where each found a node, but others that are needed cannot be tried.

        Args:
            missing: how many.
        """
        ...
