# SPDX-License-Identifier: Apache-2.0
"""The scheduling queue.

Rule: docs/reference/scheduling.md#queue.

Pods wait in one of three places: *active* ones are popped in the order of the queue-sort plugin,
pods in *backoff* become active when their time is over, *unschedulable* ones when an event comes
that a plugin which rejected them thinks may help. Nothing here waits: time comes from a clock, and
:meth:`SchedulingQueue.next_due_seconds` says when :meth:`SchedulingQueue.tick` has work.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

from koord.controllers.scheduler.queue import events as ev
from koord.controllers.scheduler.queue.in_flight_pods import InFlightPods
from koord.controllers.scheduler.queue.nominator import Nominator
from koord.controllers.scheduler.queue.options import (
    ROUNDING_SECONDS,
    QueueOptions,
    QueueProfile,
    SortKey,
    priority_sort,
)
from koord.controllers.scheduler.queue.pre_enqueue import PreEnqueuePlugins
from koord.controllers.scheduler.queue.queued_pod import (
    GONE,
    IN_FLIGHT,
    NO_PLUGINS,
    QueuedPod,
    QueueState,
    SlowAttempts,
)
from koord.controllers.scheduler.queue.queueing_hints import (
    QueueingHintTable,
    QueueingStrategy,
    strategy_of,
)
from koord.controllers.scheduler.queue.subqueues import SubQueues

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Mapping

    from koord.base.clock import Clock
    from koord.controllers.scheduler.queue.events import ClusterEvent
    from koord.controllers.scheduler.queue.queued_pod import PodLike

_ADDED, _UPDATED = ev.UNSCHEDULED_POD_ADD.label, ev.UNSCHEDULED_POD_UPDATE.label


def _shape(info: Any) -> object:
    return getattr(info, "shape", None)


class SchedulingQueue:
    """Pods that have no node yet.

    A pod that was popped or taken is *in flight* until :meth:`put_back`, :meth:`restore` or
    :meth:`done`; what happens meanwhile is looked at when it comes back.

    Args:
        clock: its monotonic time is used.
        profiles: scheduler name to what the plugins bring.
        sort_key: of the queue-sort plugin, which all profiles share; the least is popped first.
        options: times.
        shape_of: what of a pod's info per-shape hints look at; its ``shape`` by default.
        nominated: called with the name of a node whose nominated pods changed.
        oversized: which pods, by their info, are tried after the others; none by default.

    Attributes:
        nominator: which nodes are promised to which pods. The caller tells it of promises.
        incoming: how many pods came to ``active``, ``backoff`` or ``unschedulable`` through which
            event: ``scheduler_queue_incoming_pods_total`` by its labels.
    """

    def __init__(
        self,
        clock: Clock,
        profiles: Mapping[str, QueueProfile],
        sort_key: SortKey = priority_sort,
        options: QueueOptions | None = None,
        shape_of: Callable[[Any], object] = _shape,
        nominated: Callable[[str], None] | None = None,
        oversized: Callable[[Any], bool] = lambda _: False,
    ) -> None:
        self._clock = clock
        self._options = options or QueueOptions()
        self._gates = PreEnqueuePlugins(profiles)
        self._hints = QueueingHintTable(
            {name: profile.events for name, profile in profiles.items()}
        )
        self._arrivals = count()
        self._places = SubQueues(clock, sort_key, self._options, shape_of, oversized)
        self._waiting, self._active = self._places.waiting, self._places.active
        self._in_flight = InFlightPods()
        self.nominator = Nominator(nominated)
        self.incoming = self._places.incoming

    @property
    def fair(self) -> bool:
        """Whether namespaces take turns."""
        return self._options.fair

    def __len__(self) -> int:
        """How many pods wait."""
        return len(self._waiting)

    @property
    def empty(self) -> bool:
        """Whether no pod waits, is in flight or has a node promised: nothing concerns anybody."""
        return not (self._waiting or self._in_flight.pods or self.nominator)

    def __contains__(self, uid: str) -> bool:
        return uid in self._waiting

    def get(self, uid: str) -> QueuedPod | None:
        """A pod that waits or is in flight."""
        return self._waiting.get(uid) or self._in_flight.pods.get(uid)

    def pending(self) -> dict[str, int]:
        """``scheduler_pending_pods`` by its label ``queue``."""
        return self._places.pending()

    def rejected(self) -> Counter[tuple[str, str]]:
        """``scheduler_unschedulable_pods`` by its labels, plugin and profile."""
        return self._places.rejected()

    def in_flight(self) -> list[QueuedPod]:
        """Pods that were popped or taken and are not done, in that order."""
        return list(self._in_flight.pods.values())

    def waiting(self) -> list[QueuedPod]:
        """All pods that wait: active ones in their order, backoffs in theirs, then the others."""
        return self._places.in_order()

    # What comes from the API.

    def add(self, info: PodLike, profile: str, label: str = _ADDED) -> QueuedPod:
        """Takes in a pod without a node; of one that is known, only the info is new.

        Args:
            info: the pod.
            profile: its scheduler name.
            label: what brings it, for metrics.
        """
        uid = info.uid
        if uid in self._waiting or uid in self._in_flight.pods:
            known = self._waiting.get(uid) or self._in_flight.pods[uid]
            self._renew(known, info)
            return known
        now = self._clock.monotonic_seconds()
        pod = QueuedPod(info, profile, next(self._arrivals), now)
        if self._gates.passes(pod):
            pod.first_seconds = now
            self._places.enter_active(pod, label)
        else:
            self._places.hold(pod, label)
        return pod

    def update(
        self, info: PodLike, profile: str, changes: Iterable[ClusterEvent], old: Any = None
    ) -> QueuedPod:
        """Takes in an update of a pod without a node.

        An active pod, and one in backoff, stay where they are; one that is unschedulable moves if
        a plugin that rejected it thinks that a change helps. An unknown pod is added.

        Args:
            info: the pod now.
            profile: its scheduler name.
            changes: what changed, see :func:`koord.controllers.scheduler.queue.events.pod_events`.
            old: the pod before, for hints.
        """
        pod = self.get(info.uid)
        if pod is None:
            return self.add(info, profile, _UPDATED)
        self._renew(pod, info)
        for event in changes:
            if pod.place not in (QueueState.UNSCHEDULABLE, QueueState.GATED):
                self._in_flight.record(event, old, info, info.uid)
                continue
            strategy = self._worth(pod, event, old, info)
            if strategy is not QueueingStrategy.SKIP:
                self._places.leave(pod)
                self._requeue(pod, strategy, event.label)
        return pod

    def delete(self, uid: str) -> None:
        """Forgets a pod that was deleted or got a node elsewhere; one in flight will not return."""
        if self.nominator:
            self.nominator.forget(uid)
        pod = self._waiting.get(uid)
        if pod is not None:
            self._places.leave(pod)
            pod.place = GONE
        elif (pod := self._in_flight.pods.get(uid)) is not None:
            pod.place = GONE

    def move_on_event(self, event: ClusterEvent, old: Any = None, new: Any = None) -> int:
        """Moves the pods that an event may help, and remembers it for those in flight.

        Args:
            event: what happened; a wildcard moves all that are not gated.
            old: the object before, None if it is new.
            new: the object now, None if it is gone.

        Returns:
            How many pods left the unschedulable ones.
        """
        interested = self._hints.interested(event)
        everything = event.is_wildcard
        if not interested and not everything:
            return 0
        # Where nobody waits for anything, nobody need be looked for.
        waits = self._places.index
        woken = waits.woken(interested, old, new) if waits else {}
        if everything:
            for pod in self._places.unschedulable():
                woken.setdefault(pod, QueueingStrategy.AFTER_BACKOFF)
        moved = 0
        for pod, strategy in woken.items():
            self._places.leave(pod)
            moved += self._requeue(pod, strategy, event.label)
        self._in_flight.record(event, old, new)
        return moved

    def activate(self, uids: Iterable[str]) -> int:
        """Makes pods active at once, whatever they wait for but their gates and slow attempts.

        Returns:
            How many became active. One in flight is tried again soon if it comes back.
        """
        moved = 0
        for uid in uids:
            pod = self._waiting.get(uid)
            if pod is None:
                self._in_flight.record(ev.FORCE_ACTIVATE, None, None, uid)
            elif pod.slow is not None and pod.slow.until > self._clock.monotonic_seconds():
                if pod.place in (QueueState.UNSCHEDULABLE, QueueState.GATED):
                    self._places.leave(pod)
                    self._requeue(pod, QueueingStrategy.IMMEDIATELY, ev.FORCE_ACTIVATE.label)
            elif pod.place is not QueueState.ACTIVE:
                checked = pod.place in (QueueState.BACKOFF, QueueState.ERROR_BACKOFF)
                self._places.leave(pod)
                moved += self._to_active(pod, ev.FORCE_ACTIVATE.label, checked=checked)
        return moved

    # What the scheduling loop does.

    @property
    def oversized(self) -> int:
        """How many active pods are oversized."""
        return self._active.oversized

    def pop(self, oversized: bool = True) -> QueuedPod | None:
        """Takes out the first active pod for an attempt, or else one in backoff; None if none is.

        Args:
            oversized: whether it may be an oversized one.

        A pod whose backoff is over goes before one whose is not; a pod that failed with an error is
        never taken early.
        """
        pod = self._active.pop(oversized)
        if pod is not None:
            del self._waiting[pod.info.uid]
        else:
            pod = self._places.pop_backoff() if self._options.pop_from_backoff else None
            if pod is None:
                return None
            self.incoming["active", ev.POP_FROM_BACKOFF] += 1
        self._out(pod)
        pod.attempts += 1
        # What is empty already need not be emptied: it is for every pod that has not failed yet.
        if pod.unschedulable_plugins or pod.pending_plugins:
            pod.unschedulable_plugins = pod.pending_plugins = NO_PLUGINS
        return pod

    def take(self, uid: str) -> QueuedPod | None:
        """Takes out a pod from wherever it waits, gated ones too, without counting an attempt.

        It is in flight then; :meth:`restore` puts it back as it was, :meth:`put_back` as failed.

        Returns:
            The pod; None if it does not wait.
        """
        pod = self._waiting.get(uid)
        if pod is not None:
            place = pod.place
            self._places.leave(pod)
            pod.place = place
            self._out(pod)
        return pod

    def pop_many(self, uids: Iterable[str]) -> list[QueuedPod]:
        """Takes out pods from wherever they wait for one attempt together.

        Returns:
            Those of them that did wait, in the order of the arguments.
        """
        pods = [pod for uid in uids if (pod := self.take(uid)) is not None]
        for pod in pods:
            self._begin(pod)
        return pods

    def restore(self, pod: QueuedPod) -> None:
        """Puts back a pod as it was before it was popped or taken; the attempt does not count.

        An unschedulable one moves on if something has happened meanwhile that may help it.
        """
        before = pod.before
        if not self._returns(pod) or before is None:
            return
        (place, pod.attempts, pod.unschedulable_plugins, pod.pending_plugins, pod.gated_by,
         pod.gate_reason) = before  # fmt: skip
        strategy = QueueingStrategy.SKIP
        if place in (QueueState.UNSCHEDULABLE, QueueState.GATED):
            strategy = self._worth_since(pod)
        self._in_flight.done(pod.info.uid)
        if place is QueueState.ACTIVE:
            self._places.enter_active(pod, ev.RESTORED)
        elif place in (QueueState.BACKOFF, QueueState.ERROR_BACKOFF):
            self._places.enter_backoff(pod, ev.RESTORED)
        else:
            self._requeue(pod, strategy, ev.RESTORED)

    def put_back(
        self,
        pod: QueuedPod,
        unschedulable_plugins: Iterable[str] = (),
        pending_plugins: Iterable[str] = (),
    ) -> None:
        """Puts back a pod whose attempt failed.

        Args:
            pod: the pod. If it was deleted meanwhile, it is forgotten.
            unschedulable_plugins: who rejected it. If nobody did, the attempt ended in an error,
                and the pod is tried again after its backoff.
            pending_plugins: who waits for something that will come.
        """
        if not self._returns(pod):
            return
        pod.unschedulable_plugins = frozenset(unschedulable_plugins)
        pod.pending_plugins = frozenset(pending_plugins)
        pod.timestamp = self._clock.monotonic_seconds()
        pod.backoff_until = pod.timestamp + self._options.backoff(pod.attempts)
        if pod.slow is not None:
            pod.backoff_until = max(pod.backoff_until, pod.slow.until)
        strategy = self._worth_since(pod)
        self._in_flight.done(pod.info.uid)
        self._requeue(pod, strategy, ev.SCHEDULE_ATTEMPT_FAILURE)

    def hold_back(self, pod: QueuedPod, slow: SlowAttempts) -> None:
        """Has a pod wait whose attempt took too long, whoever wants it tried; it may be anywhere.

        One in flight waits if it comes back.
        """
        pod.slow = slow
        if pod.place in (QueueState.IN_FLIGHT, QueueState.GONE):
            return
        pod.backoff_until = max(pod.backoff_until, slow.until)
        if pod.place not in (QueueState.UNSCHEDULABLE, QueueState.GATED):
            self._places.leave(pod)
            self._places.enter_backoff(pod, ev.SLOW_ATTEMPT)

    def done(self, uid: str) -> None:
        """Ends the flight of a pod that does not come back: it has its node, promised or not."""
        if self.nominator:
            self.nominator.forget(uid)
        pod = self._in_flight.pods.get(uid)
        if pod is not None:
            pod.place = GONE
            self._in_flight.done(uid)

    def tick(self) -> int:
        """Does what is due by now; may be called at any time.

        Returns:
            How many pods became active or went to backoff.
        """
        moved = 0
        for pod in self._places.pop_ended_backoffs():
            self._places.enter_active(pod, ev.BACKOFF_COMPLETE)
            moved += 1
        label = ev.UNSCHEDULABLE_TIMEOUT.label
        for pod in self._places.pop_leftovers():
            moved += self._requeue(pod, QueueingStrategy.AFTER_BACKOFF, label)
        return moved

    def next_due_seconds(self) -> float | None:
        """In how many seconds :meth:`tick` has work; 0 if it has some now, None if none is known.

        It may turn out that another event was faster.
        """
        return self._places.next_due_seconds()

    # Moves.

    def _requeue(self, pod: QueuedPod, strategy: QueueingStrategy, label: str) -> bool:
        """Puts a pod that is nowhere where a strategy wants it; whether its gates let it."""
        if strategy is QueueingStrategy.SKIP:
            self._places.hold(pod, label)
            return False
        now = self._clock.monotonic_seconds()
        waits = strategy is QueueingStrategy.AFTER_BACKOFF or pod.slow is not None
        if waits and pod.backoff_until > now + ROUNDING_SECONDS:
            if not self._gates.passes(pod):
                self._places.hold(pod, label)
                return False
            self._places.enter_backoff(pod, label)
            return True
        return self._to_active(pod, label)

    def _to_active(self, pod: QueuedPod, label: str, *, checked: bool = False) -> bool:
        if not checked and not self._gates.passes(pod):
            self._places.hold(pod, label)
            return False
        self._places.enter_active(pod, label)
        return True

    def _out(self, pod: QueuedPod) -> None:
        """Notes that a pod which has left its place is in flight."""
        pod.before = (
            pod.place, pod.attempts, pod.unschedulable_plugins, pod.pending_plugins, pod.gated_by,
            pod.gate_reason,
        )  # fmt: skip
        pod.place = IN_FLIGHT
        self._in_flight.start(pod)

    def _begin(self, pod: QueuedPod) -> None:
        pod.attempts += 1
        pod.unschedulable_plugins = pod.pending_plugins = NO_PLUGINS
        pod.gated_by, pod.gate_reason = "", None

    def _returns(self, pod: QueuedPod) -> bool:
        """Whether a pod in flight is still wanted; if so, with the latest info."""
        if pod.place is not QueueState.IN_FLIGHT:
            if self._in_flight.pods.get(pod.info.uid) is pod:
                self._in_flight.done(pod.info.uid)
            return False
        if pod.latest is not None:
            pod.info, pod.latest = pod.latest, None
        return True

    def _renew(self, pod: QueuedPod, info: PodLike) -> None:
        """Replaces what is known of a pod."""
        if pod.place in (QueueState.IN_FLIGHT, QueueState.GONE):
            # The attempt under way keeps what it began with.
            pod.place, pod.latest = QueueState.IN_FLIGHT, info
        else:
            self._places.renew(pod, info)

    # What events mean to one pod.

    def _worth_since(self, pod: QueuedPod) -> QueueingStrategy:
        """What all that has happened since a pod left means for it now."""
        if not pod.rejectors and not pod.gated_by:
            return QueueingStrategy.AFTER_BACKOFF
        best = QueueingStrategy.SKIP
        for happening in self._in_flight.since(pod.info.uid):
            if happening.uid and happening.event.is_wildcard:
                strategy = QueueingStrategy.AFTER_BACKOFF
            else:
                strategy = self._worth(pod, happening.event, happening.old, happening.new)
            best = max(best, strategy)
            if best is QueueingStrategy.IMMEDIATELY:
                break
        return best

    def _worth(self, pod: QueuedPod, event: ClusterEvent, old: Any, new: Any) -> QueueingStrategy:
        """What one event means for an unschedulable or a gated pod."""
        rejectors = {pod.gated_by} if pod.gated_by else pod.rejectors
        if event.is_wildcard and not pod.gated_by:
            return QueueingStrategy.AFTER_BACKOFF
        best = QueueingStrategy.SKIP
        for interest in self._hints.interested(event):
            profile, plugin = interest.rejector
            if profile != pod.profile or plugin not in rejectors:
                continue
            strategy = strategy_of(pod, plugin)
            if strategy > best and interest.wakes(pod, old, new):
                best = strategy
        return best
