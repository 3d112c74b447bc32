# SPDX-License-Identifier: Apache-2.0
"""Plans a job's pods in one pass: all that must have a node get one before any is bound.

The first pod of a gang that comes up brings all others that wait. They are decided one after the
other, each seeing those before it as placed, through the same filters, reservations, devices and
quotas as any pod. Then the job goes, or what was held is given back (Strict), or kept until the
rest is found (NonStrict).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol

from koord.controllers.scheduler.decider import Decision
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.diagnosis import Diagnosis
from koord.controllers.scheduler.framework.rejection import Rejection, Wait

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decider import Decider
    from koord.controllers.scheduler.queue.queued import QueuedPod

_NOBODY: frozenset[str] = frozenset()


class Placed(NamedTuple):
    """A pod that holds its node.

    Attributes:
        queued: the pod.
        decision: where.
        wait: until when it must not be bound; None if it may be.
    """

    queued: QueuedPod
    decision: Decision
    wait: Wait | None = None


class Failed(NamedTuple):
    """A pod that gets no node now.

    Attributes:
        queued: the pod.
        message: for its condition and event.
        plugins: whose events may help it.
        error: a failure rather than a verdict.
        nominated: the node that was, or is being, made free for it; ``""`` takes a promise back,
            None leaves it.
        decision: what its own attempt found; None if there was none.
    """

    queued: QueuedPod
    message: str
    plugins: frozenset[str]
    error: bool = False
    nominated: str | None = None
    decision: Decision | None = None


class Plan(NamedTuple):
    """What came of a job.

    Attributes:
        placed: pods that are assumed on their nodes, in order.
        failed: all others that were tried.
        together: once one of them cannot be bound, those not bound yet are to be released.
    """

    placed: Sequence[Placed]
    failed: Sequence[Failed]
    together: bool = True


class Queue(Protocol):
    """What is asked of the scheduling queue."""

    def get(self, uid: str) -> QueuedPod | None:
        """A pod that waits or is in flight."""
        ...

    def pop_many(self, uids: Iterable[str]) -> list[QueuedPod]:
        """Takes waiting pods out for an attempt."""
        ...

    def put_back(self, pod: QueuedPod) -> None:
        """Puts back a pod whose attempt ended in an error."""
        ...


class Jobs(Protocol):
    """Who knows which pods are one job; the Coscheduling plugin does.

    Attributes:
        name: the plugin's.
        planning: set while a pass is under way.
    """

    name: ClassVar[str]
    planning: bool

    def concerns(self, pod: PodInfo) -> bool:
        """Whether a pod belongs to a job."""
        ...

    def job_of(self, pod: PodInfo) -> Job | Rejection:
        """The pod's job, or why it cannot be tried."""
        ...


class Job(Protocol):
    """One job during one pass."""

    strict: bool
    free: bool
    """Whether its pods do not need each other any more."""
    alone: bool
    """Whether they need not even be placed together."""

    def others(self) -> Iterable[str]:
        """The uids of all pods of the job that wait for a node, in the job's order."""
        ...

    def ordered(self, pods: Sequence[QueuedPod]) -> list[QueuedPod]:
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

    def goes(self) -> None:
        """All that must hold a node do: those that wait may go."""
        ...

    def rejection(self, cause: PodInfo, why: str, waiting: int) -> str:
        """What the others are told when one fits nowhere.

        Args:
            cause: the one.
            why: its own message.
            waiting: how many pods were placed.
        """
        ...

    def shortage(self, missing: int) -> str:
        """What all are told where each found a node, but others that are needed cannot be tried.

        Args:
            missing: how many.
        """
        ...


class JobPlanner:
    """Plans jobs of one profile.

    Args:
        jobs: who knows them.
        queue: where the pods wait.
        quota: has ``admit(pods)``, which says what of quotas stands in the way; None for none.
    """

    def __init__(self, jobs: Jobs, queue: Queue, quota: Any = None) -> None:
        self._jobs = jobs
        self._queue = queue
        self._quota = quota

    def concerns(self, pod: PodInfo) -> bool:
        """Whether a pod belongs to a job."""
        return self._jobs.concerns(pod)

    def plan(self, queued: QueuedPod, decider: Decider) -> Plan:
        """Tries all waiting pods of a popped pod's job; those placed are assumed."""
        job = self._jobs.job_of(queued.info)
        if isinstance(job, Rejection):
            nodes = len(decider.table)
            refused = _Attempt(diagnosis=Diagnosis(nodes, job, {}))
            return Plan([], [_failed(queued, refused, nodes, _Room())])
        taken = self._gathered(job, queued)
        attempt = _Pass(job, self._jobs.name, decider, taken, self._quota)
        self._jobs.planning = True
        try:
            return attempt.run()
        except Exception:
            # A plugin has a fault: nothing may stay held, and nobody lost.
            attempt.give_up()
            for each in taken:
                if each is not queued:
                    self._queue.put_back(each)
            raise
        finally:
            self._jobs.planning = False

    def _gathered(self, job: Job, queued: QueuedPod) -> list[QueuedPod]:
        """The popped pod with the others of its job that may be tried, in the job's order."""
        if job.alone:
            return [queued]
        fit = [uid for uid in job.others() if uid != queued.info.uid and self._ripe(uid, queued)]
        return job.ordered([queued, *self._queue.pop_many(fit)])

    def _ripe(self, uid: str, by: QueuedPod) -> bool:
        """Whether a pod waits, for this profile, and nobody but the gang itself gates it."""
        other = self._queue.get(uid)
        if other is None or other.profile != by.profile:
            return False
        pod = other.info.pod
        if pod.spec.scheduling_gates or pod.metadata.deletion_timestamp is not None:
            return False
        return other.gated_by in ("", self._jobs.name)


class _Attempt(NamedTuple):
    """Why one pod has no node."""

    diagnosis: Diagnosis | None = None
    refused: Rejection | None = None
    decision: Decision | None = None

    def message(self, nodes: int, said: str = "") -> str:
        if self.diagnosis is not None:
            return self.diagnosis.message(said)
        assert self.refused is not None
        if self.refused.error:
            return self.refused.text
        return f"0/{nodes} nodes are available: 1 {self.refused.text}."

    def copied(self) -> _Attempt:
        """The same for another pod, which made no attempt of its own."""
        return self._replace(decision=None)

    @property
    def error(self) -> bool:
        if self.diagnosis is not None:
            return self.diagnosis.error
        return self.refused is not None and self.refused.error

    @property
    def plugins(self) -> frozenset[str]:
        if self.error:
            return _NOBODY
        if self.diagnosis is not None:
            return frozenset(self.diagnosis.plugins)
        return frozenset({self.refused.plugin}) if self.refused is not None else _NOBODY


class _Room(NamedTuple):
    """What came of making room.

    Attributes:
        message: for the pod for which it was tried.
        nodes: by uid, promised nodes.
        clear: promises made before are taken back.
    """

    message: str = ""
    nodes: Mapping[str, str] = MappingProxyType({})
    clear: bool = False


class _Pass:
    """One job, tried once."""

    def __init__(
        self, job: Job, name: str, decider: Decider, queued: list[QueuedPod], quota: Any
    ) -> None:
        self._job = job
        self._name = name
        self._decider = decider
        self._nodes = len(decider.table)
        self._queued = queued
        self._quota = quota
        self._members = tuple(each.info for each in queued)
        self._placed: dict[str, Decision] = {}
        self._attempts: dict[str, _Attempt] = {}
        # By shape, what its last failure was and at which version of the table.
        self._refused: dict[int, tuple[int, _Attempt]] = {}

    def run(self) -> Plan:
        """Places what can be placed, and settles the rest."""
        if self._within_quota() and not self._gather():
            self._place_all()
        waits = self._permits() if not self._job.missing() else None
        if waits is not None and not self._job.missing():
            self._job.goes()
            cause = self._cause() if self._job.free else None
            return self._plan(waits, cause, self._make_room(cause))
        cause = self._cause()
        room = self._make_room(cause)
        if not self._job.strict:
            return self._plan(self._permits(), cause, room)
        waiting, missing = len(self._placed), self._job.missing()
        self.give_up()
        if cause is None:
            return Plan([], self._all_told(self._job.shortage(missing)))
        return Plan([], self._failures(cause, room, waiting))

    def give_up(self) -> None:
        """Takes back whatever was placed, the last first."""
        for pod in reversed(self._members):
            self._take_back(pod)

    # Placing.

    def _within_quota(self) -> bool:
        """Whether no quota object stands in the way of the pods that need each other.

        What quotas have too little of is found pod by pod: then it is known whose turn it was, and
        what the others hold, to those who could make room.
        """
        needed = self._members[: self._job.missing()]
        why = self._quota.admit(needed) if self._quota is not None and needed else None
        if why is None or not why.unresolvable:
            return True
        decision = Decision(self._cycle(needed[0]), -1, Diagnosis(self._nodes, why, {}))
        self._attempts = dict.fromkeys(
            (pod.uid for pod in self._members), _Attempt(decision.diagnosis)
        )
        self._attempts[needed[0].uid] = _Attempt(decision.diagnosis, None, decision)
        return False

    def _gather(self) -> bool:
        """Has the pods placed near each other; whether that is what the job wants.

        Where there is no room for all, those that are needed at once are tried alone.
        """
        pods = self._members
        found = self._job.gather(self._decider, pods)
        if found is None:
            return False
        needed = max(self._job.missing(), 1)
        if isinstance(found, Diagnosis):
            decision = Decision(self._cycle(pods[0]), -1, found)
            attempt = _Attempt(found, None, decision)
            self._attempts = dict.fromkeys((pod.uid for pod in pods), attempt.copied())
            self._attempts[pods[0].uid] = attempt
            if needed < len(pods) and not found.error:
                found = self._job.gather(self._decider, pods[:needed])
        if found is not None and not isinstance(found, Diagnosis):
            for decision in found:
                self._hold(decision)
        return True

    def _place_all(self) -> None:
        """One after the other; those that fail again once others are placed: some want company."""
        left = [each.info for each in self._queued]
        while left:
            failed = [pod for pod in left if not self._place(pod)]
            if len(failed) == len(left):
                return
            left = failed

    def _place(self, pod: PodInfo) -> bool:
        version = self._decider.table.version
        known = self._refused.get(pod.shape.id)
        if known is not None and known[0] == version:
            found = known[1]
            own = found.decision is not None and found.decision.cycle.pod is pod
            self._attempts[pod.uid] = found if own else found.copied()
            return False
        decision = self._decider.attempt(self._cycle(pod))
        attempt = _Attempt(decision.diagnosis, None, decision)
        if decision.row >= 0:
            refused = self._decider.assume(decision)
            if refused is None:
                self._hold(decision)
                return True
            attempt = _Attempt(None, refused, decision)
        self._attempts[pod.uid] = attempt
        self._refused[pod.shape.id] = (self._decider.table.version, attempt)
        return False

    def _cycle(self, pod: PodInfo) -> Cycle:
        cycle = Cycle(pod, self._decider.table)
        cycle.members, cycle.decider = self._members, self._decider
        return cycle

    def _hold(self, decision: Decision) -> None:
        pod = decision.cycle.pod
        self._placed[pod.uid] = decision
        self._attempts.pop(pod.uid, None)
        self._job.placed(pod)

    def _take_back(self, pod: PodInfo) -> None:
        decision = self._placed.pop(pod.uid, None)
        if decision is not None:
            self._decider.retract(decision)
            self._job.dropped(pod)

    def _permits(self) -> dict[str, Wait]:
        """Asks all Permit plugins about all placed pods; takes back those that one refuses."""
        waits: dict[str, Wait] = {}
        for pod in self._members:
            decision = self._placed.get(pod.uid)
            for plugin in self._decider.plugins.permit if decision is not None else ():
                assert decision is not None
                answer = plugin.permit(decision.cycle, decision.row)
                if isinstance(answer, Rejection):
                    self._take_back(pod)
                    self._attempts[pod.uid] = _Attempt(None, answer, decision)
                    waits.pop(pod.uid, None)
                    break
                if answer is not None:
                    known = waits.get(pod.uid)
                    if known is None or answer.seconds < known.seconds:
                        waits[pod.uid] = answer
        return waits

    # Failing.

    def _cause(self) -> QueuedPod | None:
        """The first pod that fits nowhere."""
        return next((q for q in self._queued if q.info.uid in self._attempts), None)

    def _make_room(self, cause: QueuedPod | None) -> _Room:
        """Lets PostFilter plugins try, while the others hold what they found."""
        attempt = self._attempts[cause.info.uid] if cause is not None else _Attempt()
        diagnosis, decision = attempt.diagnosis, attempt.decision
        if cause is not None and diagnosis is not None and decision is None:
            # Another pod of its shape failed in its place; what that found is true of it too.
            decision = Decision(self._cycle(cause.info), -1, diagnosis)
        if cause is None or diagnosis is None or decision is None or diagnosis.error:
            return _Room()
        said, clear = list[str](), False
        for plugin in self._decider.plugins.post_filter:
            result = plugin.post_filter(decision.cycle, diagnosis)
            clear = clear or result.clear
            if result.message:
                said.append(result.message)
            if result.success:
                nodes = getattr(result, "nodes", None) or {cause.info.uid: result.node}
                return _Room(" ".join(said), nodes)
        return _Room(" ".join(said), clear=clear)

    def _plan(self, waits: dict[str, Wait], cause: QueuedPod | None, room: _Room) -> Plan:
        """Placed pods go or wait; the others are told each its own reason."""
        placed, failed = list[Placed](), list[Failed]()
        for each in self._queued:
            uid = each.info.uid
            if uid in self._placed:
                placed.append(Placed(each, self._placed[uid], waits.get(uid)))
            else:
                own = room if each is cause else _Room()
                failed.append(_failed(each, self._attempts[uid], self._nodes, own))
        return Plan(placed, failed, self._job.strict and not self._job.free)

    def _failures(self, cause: QueuedPod, room: _Room, waiting: int) -> list[Failed]:
        """The cause is told why, the others that it was the cause."""
        attempt = self._attempts[cause.info.uid]
        why = attempt.message(self._nodes)
        told = self._all_told(self._job.rejection(cause.info, why, waiting), room)
        own = _failed(cause, attempt, self._nodes, room)
        return [own if failed.queued is cause else failed for failed in told]

    def _all_told(self, text: str, room: _Room | None = None) -> list[Failed]:
        """All pods get one message."""
        refused = Rejection(self._name, (text,), unresolvable=True)
        attempt = _Attempt(Diagnosis(self._nodes, refused, {}))
        silent = (room or _Room())._replace(message="")
        return [_failed(each, attempt, self._nodes, silent) for each in self._queued]


def _failed(queued: QueuedPod, attempt: _Attempt, nodes: int, room: _Room) -> Failed:
    return Failed(
        queued,
        attempt.message(nodes, room.message),
        attempt.plugins,
        attempt.error,
        room.nodes.get(queued.info.uid, "" if room.clear else None),
        attempt.decision,
    )
