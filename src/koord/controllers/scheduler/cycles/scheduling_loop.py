# SPDX-License-Identifier: Apache-2.0
"""The scheduling loop: takes pods from the queue, has them decided, starts their bindings.

Decisions are synchronous and come in slices of a few milliseconds, between which watches, bindings
and timers get their turn.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.base import log
from koord.base.supervision import Supervisor
from koord.controllers.scheduler.cycles import failure_writer, slow_attempts
from koord.controllers.scheduler.cycles.binder import (
    Binder,
    BindError,
    BindingCycle,
    BindingGroup,
    is_conflict,
    is_gone,
    reason_of,
)
from koord.controllers.scheduler.cycles.failure_writer import FailureWriter, SchedulingFailure
from koord.controllers.scheduler.cycles.oversized_permits import OversizedPermits
from koord.controllers.scheduler.cycles.slow_attempts import SlowAttemptMonitor
from koord.controllers.scheduler.cycles.surrogate_pods import SurrogatePods, title
from koord.controllers.scheduler.decision.decider import Decider, Decision, rejectors_of
from koord.controllers.scheduler.decision.plugin_times import PluginTimes
from koord.controllers.scheduler.decision.timed_plugins import TimingSampler
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.diagnosis import joined
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.framework.rejection import Rejection, Wait
from koord.controllers.scheduler.queue import events as ev

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from koord.api.kinds.pod import Pod
    from koord.base.clock import Clock
    from koord.controllers.cluster.node_table import NodeTable
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.cache.event_handlers import EventHandlers
    from koord.controllers.scheduler.framework.accounts import Accounts
    from koord.controllers.scheduler.job_planning.plan import FailedPod
    from koord.controllers.scheduler.job_planning.planner import JobPlanner
    from koord.controllers.scheduler.metrics import SchedulerMetrics
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod
    from koord.controllers.scheduler.queue.scheduling_queue import SchedulingQueue
    from koord.kube.client import Client

_LOG = log.get("scheduler")
# How long the loop decides before others get a turn, and how many decisions it makes at least.
SLICE_SECONDS = 0.0005
# And at most: where time is virtual a slice takes none.
SLICE_DECISIONS = 256
# Bindings that may wait for the API server before decisions wait for some to end. Pods that wait on
# Permit do not count: they are as many as a tenant's gangs have, and would stop everybody.
MOST_WRITING = 4096


class LoopDependencies(NamedTuple):
    """What the loop works with."""

    table: NodeTable
    accounts: Accounts
    queue: SchedulingQueue
    feed: EventHandlers
    deciders: Mapping[str, Decider]
    clock: Clock
    metrics: SchedulerMetrics
    event: Callable[[Any, str, str, str], None]
    stand_ins: SurrogatePods = SurrogatePods()
    supervisor: Supervisor | None = None


class SchedulingLoop:
    """Takes pods from the queue, decides where they go, and starts their binding cycles.

    Args:
        parts: see :class:`LoopDependencies`.
        client: writes; None where there is no cluster: then a decision is as good as bound.
        planners: plan pods of a job together; see
        :meth:`koord.controllers.scheduler.job_planning.planner`.
        observers: told of each decision; for explanations. Must not fail.
    """

    def __init__(
        self,
        parts: LoopDependencies,
        client: Client | None,
        planners: Mapping[str, JobPlanner] | None = None,
        observers: tuple[Callable[[Decision, str], None], ...] = (),
    ) -> None:
        self.parts = parts
        self._planners = dict(planners or {})
        self._observers = observers
        self._times = PluginTimes(parts.clock.monotonic_seconds)
        self._sampler = TimingSampler(parts.deciders, parts.metrics, self._times)
        # Pods that the attempt under way has put back, with what was told of each.
        self._put_back: list[tuple[QueuedPod, SchedulingFailure | None]] = []
        # The pod that is being decided; other threads may read it.
        self.deciding: QueuedPod | None = None
        self.monitor = SlowAttemptMonitor(parts.metrics)
        stand_ins = parts.stand_ins
        supervisor = parts.supervisor or Supervisor("scheduler", clock=parts.clock)
        self.binder = Binder(
            client, parts.table.name, self._succeeded, self._failed, stand_ins=stand_ins,
            supervisor=supervisor, fair=parts.queue.fair,
        )  # fmt: skip
        self.failures = FailureWriter(
            client, parts.clock, stand_ins=stand_ins, supervisor=supervisor,
            fair=parts.queue.fair,
        )  # fmt: skip
        self._wake = asyncio.Event()
        # Attempts so far, and the CPU seconds that they took.
        self.decided, self.deciding_seconds = 0, 0.0
        self._permits, self._oversized = OversizedPermits(self.woken), 0

    def observe(self, observer: Callable[[Decision, str], None]) -> None:
        """Tells one more of each decision from now on."""
        self._observers += (observer,)

    def occupied_by(self) -> str:
        """What is being decided; threads may ask."""
        queued = self.deciding
        return f"deciding pod {queued.info.key}" if queued is not None else ""

    def woken(self) -> None:
        """Some pod may be active."""
        self._wake.set()

    async def run(self) -> None:
        """Schedules until cancelled; one that failed may be called again.

        Bindings under way go on while it pauses after a failure.
        """
        queue = self.parts.queue
        try:
            while True:
                queue.tick()
                self._wake.clear()
                if self._slice():
                    await asyncio.sleep(0)
                else:
                    await self._rest(queue.next_due_seconds())
        except asyncio.CancelledError:
            await self.close()
            raise

    async def close(self) -> None:
        """Cancels bindings and writes that are not done; may be called more than once."""
        await self._permits.close()
        await self.binder.close()
        await self.failures.close()

    def _slice(self) -> int:
        if self.binder.writing >= MOST_WRITING:
            return 0
        if not self.parts.queue.oversized:
            return self.schedule(SLICE_SECONDS, SLICE_DECISIONS)
        clock = asyncio.get_running_loop().time
        tried, began = self._oversized, clock()
        taken = self.schedule(SLICE_SECONDS, SLICE_DECISIONS, self._permits.granted())
        if self._oversized != tried:
            self._permits.used(clock() - began)
        return taken

    async def _rest(self, due_seconds: float | None) -> None:
        if self.binder.writing >= MOST_WRITING:
            due_seconds = 0.01
        loop, timer = asyncio.get_running_loop(), None
        if due_seconds is not None:
            # Not a timeout around it: the loop rests once for each pod that comes alone.
            timer = loop.call_later(max(due_seconds, 0.0), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def schedule(self, seconds: float, most: int = 1 << 30, oversized: bool = True) -> int:
        """Decides pods for so long, or so many of them.

        Args:
            oversized: whether oversized ones are among them.

        Returns:
            How many pods were taken from the queue.
        """
        # The clock's time, so that a run in virtual time replays on any machine.
        clock = self.parts.clock.monotonic_seconds
        end = clock() + seconds
        began = time.thread_time()
        taken = 0
        while taken < most:
            queued = self.parts.queue.pop(oversized)
            if queued is None:
                break
            taken += 1
            try:
                self.schedule_one(queued)
            except Exception:
                # It raises nothing by itself, whatever a plugin does.
                if self.parts.accounts.get(queued.info.uid) is None:
                    self.parts.queue.put_back(queued)
                raise
            self._oversized += queued.oversized
            if queued.oversized or clock() >= end:
                # After a large one others get their turn, where time is virtual too.
                break
        if taken:
            self.decided += taken
            seconds = time.thread_time() - began
            self.deciding_seconds += seconds
            self.parts.metrics.decided(seconds)
        return taken

    def schedule_one(self, queued: QueuedPod) -> None:
        """One attempt of one pod, or of the whole job it belongs to; never raises."""
        info: PodInfo = queued.info
        if self._skip(info):
            self.parts.queue.done(info.uid)
            return
        decider = self.parts.deciders[queued.profile]
        self.deciding = queued
        if self._put_back:
            self._put_back.clear()
        started = self.parts.clock.monotonic_seconds()
        try:
            planner = self._planners.get(queued.profile)
            if planner is not None and planner.concerns(info):
                self._times.begin(complete=False)
                self._schedule_job(planner, queued, decider, started)
            else:
                self._schedule_pod(queued, self._decider(queued, decider, started), started)
        except Exception as error:
            _LOG.exception("a scheduling cycle failed", extra=log.fields(pod=info.key))
            self._broke(queued, error)
        finally:
            self.deciding = None
        seconds = self._since(started)
        if self._times.complete:
            self._sampler.took(started, seconds)
        self.monitor.ended(queued.profile, info.key, seconds)
        if seconds > slow_attempts.SLOW_SECONDS:
            self._was_slow(queued, seconds)
        elif queued.slow is not None:
            queued.slow = None

    def _decider(self, queued: QueuedPod, decider: Decider, now_seconds: float) -> Decider:
        """Who makes an attempt: one whose plugins are timed where it may be slow."""
        if queued.oversized or queued.slow is not None:
            chosen = self._sampler.timed(queued.profile)
        else:
            chosen = self._sampler.choose(queued.profile, decider, now_seconds)
        self._times.begin(complete=chosen is not decider)
        return chosen

    def _was_slow(self, queued: QueuedPod, seconds: float) -> None:
        """The pod, and those of its job, are told where the time went, and wait longer."""
        now = self.parts.clock.monotonic_seconds()
        where = slow_attempts.where_time_went(self._times, seconds)
        slow = slow_attempts.slower(queued, seconds, now, where)
        self.parts.queue.hold_back(queued, slow)
        tried = {queued.info.uid: False}
        for member, failure in self._put_back:
            self.parts.queue.hold_back(member, slow)
            tried[member.info.uid] = True
            if failure is not None:
                message = f"{failure.message} {slow_attempts.message_with_wait(slow)}"
                self.failures.report(failure._replace(message=message))
        waits = tried[queued.info.uid]
        text = slow_attempts.message_with_wait(slow) if waits else slow_attempts.message(slow)
        about = self.parts.stand_ins.subject(queued.info.pod)
        self.parts.event(about, "Warning", slow_attempts.REASON, failure_writer.cut(text))

    def _broke(self, queued: QueuedPod, error: Exception) -> None:
        """A plugin has a fault: the pod's account is settled, and the pod waits its backoff."""
        info = queued.info
        if not info.pod.spec.node_name:
            if self.parts.accounts.get(info.uid) is not None:
                self.parts.accounts.drop(info)
                self.parts.feed.assumed.pop(info.uid, None)
            # Nobody has taken back what it chose, and it may not be asked next time.
            info.allocations.clear()
        refused = Rejection("", (f"{type(error).__name__}: {reason_of(error)}",), error=True)
        self._give_up(queued, refused.text, frozenset(), error=True)

    def _skip(self, info: PodInfo) -> bool:
        """Whether a pod is being deleted, or has a place already."""
        deleted = info.pod.metadata.deletion_timestamp is not None
        return deleted or self.parts.feed.holds(info.uid)

    # One pod.

    def _schedule_pod(self, queued: QueuedPod, decider: Decider, started: float) -> None:
        decision = decider.decide(queued.info)
        if decision.row < 0:
            self._nowhere(queued, decider, decision, started)
            return
        refused = decider.assume(decision)
        if refused is not None:
            self._refused(queued, decision, refused, started)
            return
        self.parts.feed.assumed[queued.info.uid] = queued.info
        plugins = decision.cycle.participants
        assert plugins is not None, "a pod that was not reserved"
        answer = self._permit(plugins, decision) if plugins.permit else None
        if isinstance(answer, Rejection):
            self._retract(decider, decision)
            self._refused(queued, decision, answer, started)
            return
        for observer in self._observers:
            observer(decision, "")
        self.binder.start(BindingCycle(decision, plugins, queued, started), answer)

    def _permit(self, plugins: ProfilePlugins, decision: Decision) -> Rejection | Wait | None:
        wait: Wait | None = None
        for plugin in plugins.permit:
            answer = plugin.permit(decision.cycle, decision.row)
            if isinstance(answer, Rejection):
                return answer
            if answer is not None and (wait is None or answer.seconds < wait.seconds):
                wait = answer
        return wait

    def _retract(self, decider: Decider, decision: Decision) -> None:
        self.parts.feed.give_up(decision.cycle.pod)
        decider.retract(decision)

    def _nowhere(
        self, queued: QueuedPod, decider: Decider, decision: Decision, started: float
    ) -> None:
        """No node: whoever can make room tries to, and the pod is told why."""
        diagnosis = decision.diagnosis
        assert diagnosis is not None
        nominated, said, clear, victims = "", [], False, 0
        if not diagnosis.error:
            for plugin in decider.plugins.post_filter:
                with self._times.measured(plugin.name, "PostFilter"):
                    result = plugin.post_filter(decision.cycle, diagnosis)
                if result.message:
                    said.append(result.message)
                clear = clear or result.clear
                victims += len(result.victims)
                if result.success:
                    nominated, clear = result.node, False
                    break
            if decider.plugins.post_filter:
                self.parts.metrics.preempted(victims)
        message = diagnosis.message(joined(said))
        self._observe(decision, message)
        if nominated:
            self.parts.queue.nominator.nominate(queued.info, nominated)
        elif clear:
            self.parts.queue.nominator.forget(queued.info.uid)
        result_label = "error" if diagnosis.error else "unschedulable"
        self.parts.metrics.attempt(result_label, queued.profile, self._since(started))
        self._give_up(
            queued,
            message,
            rejectors_of(decider, diagnosis),
            error=diagnosis.error,
            nominated=nominated or None,
        )

    def _refused(
        self, queued: QueuedPod, decision: Decision, refused: Rejection, started: float
    ) -> None:
        """Reserve or Permit refused on the chosen node."""
        head = f"0/{len(self.parts.table)} nodes are available: 1 "
        message = refused.text if refused.error else f"{head}{refused.text}."
        self._observe(decision, message)
        label = "error" if refused.error else "unschedulable"
        self.parts.metrics.attempt(label, queued.profile, self._since(started))
        plugins = {refused.plugin, ev.OWN} if refused.error else {refused.plugin}
        self._give_up(queued, message, frozenset(plugins), error=refused.error)

    def _give_up(
        self,
        queued: QueuedPod,
        message: str,
        plugins: frozenset[str],
        *,
        error: bool = False,
        nominated: str | None = None,
        quiet: bool = False,
    ) -> None:
        """Back into the queue, with a condition and an event that say why, unless quiet."""
        pod = queued.info.pod
        self.parts.queue.put_back(queued, plugins)
        if quiet and not (nominated or pod.status.nominated_node_name):
            self._put_back.append((queued, None))
            return
        reason = failure_writer.SCHEDULER_ERROR if error else failure_writer.UNSCHEDULABLE
        failure = SchedulingFailure(pod, reason, message, nominated)
        self._put_back.append((queued, failure))
        self._report(failure)

    def refuse(self, pod: Pod, message: str) -> None:
        """Says why a pod that is not being tried gets no node."""
        self._report(SchedulingFailure(pod, failure_writer.UNSCHEDULABLE, message))

    def _report(self, failure: SchedulingFailure) -> None:
        self.failures.report(failure)
        about = self.parts.stand_ins.subject(failure.pod)
        self.parts.event(about, "Warning", "FailedScheduling", failure_writer.cut(failure.message))

    # Jobs.

    def _schedule_job(
        self, planner: JobPlanner, queued: QueuedPod, decider: Decider, started: float
    ) -> None:
        """All pods of a job in one pass: reserved together, then bound side by side."""
        plan = planner.plan(queued, decider)
        if plan.victims is not None:
            self.parts.metrics.preempted(plan.victims)
        for failed in plan.failed:
            self._job_failed(failed, started)
        group = BindingGroup() if plan.together else None
        for placed in plan.placed:
            member, decision = placed.queued, placed.decision
            self.parts.feed.assumed[member.info.uid] = member.info
            self._observe(decision, "")
            plugins = decider.participants(member.info.shape)
            binding = BindingCycle(decision, plugins, member, started, group=group)
            self.binder.start(binding, placed.wait)

    def _job_failed(self, failed: FailedPod, started: float) -> None:
        """One pod of a job gets no node now."""
        queued = failed.queued
        # Those that another member's failure took along have been tried as well.
        tried = failed.decision or Decision(Cycle(queued.info, self.parts.table), -1)
        self._observe(tried, failed.message)
        if failed.nominated is not None:
            self.parts.queue.nominator.nominate(queued.info, failed.nominated)
        label = "error" if failed.error else "unschedulable"
        self.parts.metrics.attempt(label, queued.profile, self._since(started))
        self._give_up(
            queued,
            failed.message,
            failed.plugins,
            error=failed.error,
            nominated=failed.nominated,
            quiet=failed.unreported,
        )

    # Bindings.

    def _succeeded(self, binding: BindingCycle) -> None:
        info, cycle = binding.queued.info, binding.decision.cycle
        queued = binding.queued
        for plugin in binding.plugins.post_bind:
            plugin.post_bind(cycle, binding.decision.row)
        self.parts.queue.done(info.uid)
        self.failures.forget(info.uid)
        now, first = self.parts.clock.monotonic_seconds(), queued.first_seconds
        since_ready = now - first if first is not None else 0.0
        self.parts.metrics.bound(queued.profile, now - binding.started, since_ready)
        about = self.parts.stand_ins.subject(info.pod)
        message = f"Successfully assigned {title(about)} to {binding.node}"
        self.parts.event(about, "Normal", "Scheduled", message)

    def _failed(self, binding: BindingCycle, error: Exception) -> None:
        queued, decision = binding.queued, binding.decision
        info = queued.info
        decider = self.parts.deciders[queued.profile]
        # The loop may rest without an end in sight: a pod is coming back to the queue.
        self.woken()
        confirmed = info.uid not in self.parts.feed.assumed
        if is_gone(error):
            self.binder.forget(info.uid)
        if not confirmed:
            self._retract(decider, decision)
            # What it held is free again, as if it had been deleted.
            self.parts.queue.move_on_event(ev.ASSIGNED_POD_DELETE, info, None)
        elif not self.parts.feed.holds(info.uid):
            # Deleted on its way: what it was promised beside its place is free again too.
            decider.retract(decision)
        if confirmed or is_gone(error) or is_conflict(error):
            # Bound after all (an answer was lost), deleted, or somebody else's by now; the
            # informer tells which, and brings back what is still to be scheduled.
            self._settle(queued, confirmed)
            return
        waited = isinstance(error, BindError)
        plugins = error.plugins if isinstance(error, BindError) else frozenset()
        label = "unschedulable" if waited and plugins else "error"
        self.parts.metrics.attempt(label, queued.profile, self._since(binding.started))
        if not waited:
            where = log.fields(pod=info.key, error=reason_of(error))
            _LOG.warning("a binding failed", extra=where)
        self._give_up(queued, reason_of(error), plugins, error=not plugins)

    def _settle(self, queued: QueuedPod, confirmed: bool) -> None:
        if confirmed:
            self.parts.queue.done(queued.info.uid)
        else:
            self.parts.queue.put_back(queued)

    def _since(self, moment: float) -> float:
        return self.parts.clock.monotonic_seconds() - moment

    def _observe(self, decision: Decision, message: str) -> None:
        for observer in self._observers:
            observer(decision, message)
