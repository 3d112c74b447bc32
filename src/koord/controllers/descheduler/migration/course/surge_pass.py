# SPDX-License-Identifier: Apache-2.0
"""The part of a pass that moves a workload's only pod: a second one first, then the old one goes.

Rule: docs/reference/migration.md#surge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.protocol import keys
from koord.controllers.descheduler.migration.arbitration.job_index import job_pod_key
from koord.controllers.descheduler.migration.arbitration.pod_index import is_ready
from koord.controllers.descheduler.migration.course import job_status
from koord.controllers.descheduler.migration.course.job_pass import (
    AGAIN_SECONDS,
    NORMAL,
    SCALE_DOWN,
    SCALE_UP,
    JobPass,
)
from koord.controllers.descheduler.migration.course.surge_state import SURGED

if TYPE_CHECKING:
    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.reservation import Reservation
    from koord.controllers.descheduler.migration.course.job_pass import JobStep

REFUSED, INTERRUPTED = "SurgeRefused", "SurgeInterrupted"
SCALING_UP, SCALED_UP = "ScalingUp", "ScaledUp"


class SurgePass(JobPass):
    """A pass over a job whose pod's Deployment asks for a surge."""

    def _is_surge(self) -> bool:
        known = self._draft.condition(job_status.SURGE) is not None
        began = job_status.eviction_began(self._job.status)
        return known or (self._surroundings.surge is not None and not began)

    def _surge_refused(self) -> JobStep | None:
        state = self._surroundings.surge
        if state is None or state.is_begun or not state.refusal:
            return None
        return self._fail(REFUSED, state.refusal)

    def _refuse_direct(self) -> JobStep:
        text = "its Deployment asks for a surge, for which the mode must be ReservationFirst"
        return self._fail(REFUSED, text)

    def _surge(self, held: Reservation) -> JobStep:
        """From a reservation with a node to one pod, in it."""
        if self._draft.is_true(job_status.EVICTION):
            return self._settled(held) if held.status.current_owners else self._taken()
        pod = self._surroundings.pod
        gone = pod is None or self._is_other(pod)
        if self._draft.condition(job_status.EVICTION) is None:
            if pod is None or gone:
                return self._missing_pod()
            return self._scale_up() or self._await_bound(held) or self._scale_down(pod)
        if gone:
            self._evicted()
            return self._settled(held) if held.status.current_owners else self._taken()
        return self._await_old_pod()

    def _scale_up(self) -> JobStep | None:
        """Until two pods are wanted."""
        state, draft = self._surroundings.surge, self._draft
        if state is not None and state.is_begun:
            if state.replicas != SURGED:
                return self._interrupted(f"{state.title} wants {state.replicas} replicas now")
            text = f"{state.title} has 2 replicas while its pod is moved"
            if draft.report(job_status.SURGE, job_status.TRUE, SCALED_UP, text):
                self._say(NORMAL, SCALED_UP, text)
            return None
        if draft.is_true(job_status.SURGE) or state is None:
            return self._interrupted("the Deployment is surged for this job no longer")
        if state.refusal:
            return self._fail(REFUSED, state.refusal)
        text = f"{state.title} goes to 2 replicas"
        draft.report(job_status.SURGE, job_status.FALSE, SCALING_UP, text)
        return self._end(SCALE_UP, again=AGAIN_SECONDS)

    def _scale_down(self, pod: Pod) -> JobStep:
        """Both are there: the old one is told to go first."""
        state, bound = self._surroundings.surge, self._surroundings.bound_pod
        if bound is None or not is_ready(bound):
            return self._end(again=AGAIN_SECONDS)
        if state is None or state.refusal:
            return self._interrupted(state.refusal if state is not None else "it is gone")
        text = eviction_message(self._job, pod)
        self._draft.report(job_status.EVICTION, job_status.FALSE, job_status.EVICTING, text)
        self._say(NORMAL, job_status.EVICTING, text)
        return self._end(SCALE_DOWN, again=AGAIN_SECONDS)

    def _await_old_pod(self) -> JobStep:
        state, bound = self._surroundings.surge, self._surroundings.bound_pod
        if state is None or not state.is_begun:
            return self._end()
        if state.replicas != SURGED or state.refusal:
            why = state.refusal or f"{state.title} wants {state.replicas} replicas now"
            return self._interrupted(why)
        if bound is None or not is_ready(bound):
            return self._end(again=AGAIN_SECONDS)
        # This process, or the one before, ended before it wrote: it is written anew.
        return self._end(SCALE_DOWN, again=AGAIN_SECONDS)

    def _interrupted(self, why: str) -> JobStep:
        return self._fail(INTERRUPTED, f"Abort job caused by another's change: {why}")


def eviction_reason(job: PodMigrationJob) -> str:
    """Why the pod goes, for people."""
    annotations = job.metadata.annotations
    reason = annotations.get(keys.EVICT_REASON) or annotations.get(keys.EVICT_TRIGGER)
    return reason or "NotSet"


def eviction_message(job: PodMigrationJob, pod: Pod) -> str:
    """What is said of an eviction."""
    node, reason = pod.spec.node_name, eviction_reason(job)
    return f'Pod "{job_pod_key(job)}" evicted from node "{node}" by the reason "{reason}"'
