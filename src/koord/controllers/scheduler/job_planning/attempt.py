# SPDX-License-Identifier: Apache-2.0
"""One job, tried once: pods placed one after the other, then kept, or given back."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.controllers.scheduler.decision.decider import Decision
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.diagnosis import Diagnosis, joined
from koord.controllers.scheduler.framework.rejection import Rejection, Wait
from koord.controllers.scheduler.job_planning.plan import FailedPod, JobForecast, JobPlan, PlacedPod
from koord.controllers.scheduler.queue.events import OWN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decision.decider import Decider
    from koord.controllers.scheduler.job_planning.plan import PlannedJob
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod

_NOBODY: frozenset[str] = frozenset()


class PodAttempt(NamedTuple):
    """Why one pod has no node.

    Attributes:
        diagnosis: it fits nowhere.
        refused: or a plugin refused it on the node chosen for it.
        decision: what its own attempt came to; None where another pod of its shape was tried.
    """

    diagnosis: Diagnosis | None = None
    refused: Rejection | None = None
    decision: Decision | None = None

    def message(self, nodes: int, post_filter: str = "") -> str:
        """For the pod's condition, with what PostFilter plugins said."""
        if self.diagnosis is not None:
            return self.diagnosis.message(post_filter)
        assert self.refused is not None
        if self.refused.error:
            return self.refused.text
        return f"0/{nodes} nodes are available: 1 {self.refused.text}."

    def copied(self) -> PodAttempt:
        """The same for another pod, which made no attempt of its own."""
        return self._replace(decision=None)

    @property
    def error(self) -> bool:
        """Whether it is a failure rather than a verdict."""
        if self.diagnosis is not None:
            return self.diagnosis.error
        return self.refused is not None and self.refused.error

    @property
    def plugins(self) -> frozenset[str]:
        """Whose events may help."""
        own = (OWN,) if self.error else ()
        if self.diagnosis is not None:
            return frozenset((*own, *self.diagnosis.plugins))
        return frozenset((*own, self.refused.plugin)) if self.refused is not None else _NOBODY


class PreemptionOutcome(NamedTuple):
    """What came of making room.

    Attributes:
        message: for the pod for which it was tried.
        nodes: by uid, promised nodes.
        clear: promises made before are taken back.
        victims: how many pods go for it; None where nobody was asked.
    """

    message: str = ""
    nodes: Mapping[str, str] = MappingProxyType({})
    clear: bool = False
    victims: int | None = None


class JobAttempt:
    """One job, tried once.

    Args:
        job: what is needed.
        name: of the plugin that speaks for it.
        decider: of its profile.
        queued: its pods that may be tried, in order.
        quota: see :class:`koord.controllers.scheduler.job_planning.planner.JobPlanner`.
    """

    def __init__(
        self,
        job: PlannedJob,
        name: str,
        decider: Decider,
        queued: list[QueuedPod],
        quota: Any,
        *,
        report_others: bool = True,
    ) -> None:
        self._report_others = report_others
        self._job = job
        self._name = name
        self._decider = decider
        self._nodes = len(decider.table)
        self._queued = queued
        self._quota = quota
        self._members = tuple(each.info for each in queued)
        self._placed: dict[str, Decision] = {}
        self._attempts: dict[str, PodAttempt] = {}
        # By shape, what its last failure was and at which version of the table.
        self._refused: dict[int, tuple[int, PodAttempt]] = {}

    def run(self) -> JobPlan:
        """Places what can be placed, and settles the rest."""
        self._try()
        waits = self._permits() if not self._job.missing() else None
        if waits is not None and not self._job.missing():
            self._job.release()
            cause = self._cause() if self._job.is_satisfied else None
            return self._plan(waits, cause, self._preempt(cause))
        cause = self._cause()
        room = self._preempt(cause)
        if not self._job.strict:
            return self._plan(self._permits(), cause, room)
        waiting, missing = len(self._placed), self._job.missing()
        self.give_up()
        if cause is None:
            return JobPlan([], self._all_failed(self._job.incomplete_message(missing)))
        return JobPlan([], self._failures(cause, room, waiting), victims=room.victims)

    def forecast(self) -> JobForecast:
        """What would be placed now, nobody asked to make room; all is taken back."""
        try:
            self._try()
            return self._forecast()
        finally:
            self.give_up()

    def give_up(self) -> None:
        """Takes back whatever was placed, the last first."""
        for pod in reversed(self._members):
            self._take_back(pod)

    def _forecast(self) -> JobForecast:
        name, missing, cause = self._decider.table.name, self._job.missing(), self._cause()
        placed = {uid: name(decision.row) for uid, decision in self._placed.items()}
        if cause is None:
            why = self._job.incomplete_message(missing) if missing else ""
            return JobForecast("", len(self._queued), placed, missing, reason=why)
        why = self._attempts[cause.info.uid].message(self._nodes)
        return JobForecast("", len(self._queued), placed, missing, cause.info.key, why)

    # Placing.

    def _try(self) -> None:
        """Places what can be placed."""
        if self._within_quota() and not self._gather():
            self._place_all()

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
            (pod.uid for pod in self._members), PodAttempt(decision.diagnosis)
        )
        self._attempts[needed[0].uid] = PodAttempt(decision.diagnosis, None, decision)
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
            attempt = PodAttempt(found, None, decision)
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
        attempt = PodAttempt(decision.diagnosis, None, decision)
        if decision.row >= 0:
            refused = self._decider.assume(decision)
            if refused is None:
                self._hold(decision)
                return True
            attempt = PodAttempt(None, refused, decision)
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
            if decision is None:
                continue
            for plugin in self._decider.participants(pod.shape).permit:
                answer = plugin.permit(decision.cycle, decision.row)
                if isinstance(answer, Rejection):
                    self._take_back(pod)
                    self._attempts[pod.uid] = PodAttempt(None, answer, decision)
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

    def _preempt(self, cause: QueuedPod | None) -> PreemptionOutcome:
        """Lets PostFilter plugins try, while the others hold what they found."""
        attempt = self._attempts[cause.info.uid] if cause is not None else PodAttempt()
        diagnosis, decision = attempt.diagnosis, attempt.decision
        if cause is not None and diagnosis is not None and decision is None:
            # Another pod of its shape failed in its place; what that found is true of it too.
            decision = Decision(self._cycle(cause.info), -1, diagnosis)
        if cause is None or diagnosis is None or decision is None or diagnosis.error:
            return PreemptionOutcome()
        said, clear, victims = list[str](), False, 0
        for plugin in self._decider.plugins.post_filter:
            result = plugin.post_filter(decision.cycle, diagnosis)
            clear = clear or result.clear
            victims += len(result.victims)
            if result.message:
                said.append(result.message)
            if result.success:
                nodes = getattr(result, "nodes", None) or {cause.info.uid: result.node}
                return PreemptionOutcome(joined(said), nodes, victims=victims)
        asked = victims if self._decider.plugins.post_filter else None
        return PreemptionOutcome(joined(said), clear=clear, victims=asked)

    def _plan(
        self, waits: dict[str, Wait], cause: QueuedPod | None, preemption: PreemptionOutcome
    ) -> JobPlan:
        """Placed pods go or wait; the others are told each its own reason."""
        placed, failed = list[PlacedPod](), list[FailedPod]()
        for each in self._queued:
            uid = each.info.uid
            if uid in self._placed:
                placed.append(PlacedPod(each, self._placed[uid], waits.get(uid)))
            else:
                own = preemption if each is cause else preemption._replace(message="")
                failed.append(failed_pod(each, self._attempts[uid], self._nodes, own))
        return JobPlan(
            placed, failed, self._job.strict and not self._job.is_satisfied, preemption.victims
        )

    def _failures(
        self, cause: QueuedPod, preemption: PreemptionOutcome, waiting: int
    ) -> list[FailedPod]:
        """The cause is told why, the others that it was the cause."""
        attempt = self._attempts[cause.info.uid]
        why = attempt.message(self._nodes)
        others = self._all_failed(self._job.rejection_message(cause.info, why, waiting), preemption)
        own = failed_pod(cause, attempt, self._nodes, preemption)
        quiet = not self._report_others
        return [
            own if failed.queued is cause else failed._replace(unreported=quiet)
            for failed in others
        ]

    def _all_failed(
        self, text: str, preemption: PreemptionOutcome | None = None
    ) -> list[FailedPod]:
        """All pods get one message."""
        refused = Rejection(self._name, (text,), unresolvable=True)
        attempt = PodAttempt(Diagnosis(self._nodes, refused, {}))
        silent = (preemption or PreemptionOutcome())._replace(message="")
        return [failed_pod(each, attempt, self._nodes, silent) for each in self._queued]


def failed_pod(
    queued: QueuedPod, attempt: PodAttempt, nodes: int, preemption: PreemptionOutcome
) -> FailedPod:
    """What a pod without a node is told.

    Args:
        queued: the pod.
        attempt: why.
        nodes: how many nodes there are.
        preemption: what was done about it.
    """
    return FailedPod(
        queued,
        attempt.message(nodes, preemption.message),
        attempt.plugins,
        attempt.error,
        preemption.nodes.get(queued.info.uid, "" if preemption.clear else None),
        attempt.decision,
    )
