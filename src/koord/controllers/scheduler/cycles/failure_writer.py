# SPDX-License-Identifier: Apache-2.0
"""Tells users why a pod is not on a node: its condition, its nominated node, an event.

Only what changed is written, and of several failures of a pod that wait to be written the last one
alone; so a pod that keeps failing for the same reason costs no write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.kinds.pod import Pod
from koord.base import faults, log
from koord.base.supervision import Supervisor
from koord.base.turn_queue import TurnQueue
from koord.controllers.scheduler import pod_conditions
from koord.controllers.scheduler.cycles.binder import is_gone, reason_of
from koord.controllers.scheduler.cycles.surrogate_pods import SurrogatePods
from koord.kube.election import LeadLostError
from koord.kube.patches import Patch
from koord.kube.requests import retry

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.kube.client import Client

_LOG = log.get("scheduler")
# A write that failed is tried again after so long.
_AGAIN_SECONDS = 5.0
_EVENT_BYTES = 1024
_SCHEDULED = "PodScheduled"
UNSCHEDULABLE, SCHEDULER_ERROR, GATED = "Unschedulable", "SchedulerError", "SchedulingGated"


class SchedulingFailure(NamedTuple):
    """What is to be said of a pod.

    Attributes:
        pod: whose.
        reason: of its PodScheduled condition.
        message: the same.
        nominated: the node that preemption has made room on; None leaves what is there.
    """

    pod: Pod
    reason: str
    message: str
    nominated: str | None = None


def cut(message: str) -> str:
    """An event's message: at most 1,024 bytes (docs/reference/scheduling.md#messages)."""
    data = message.encode()
    if len(data) <= _EVENT_BYTES:
        return message
    return data[: _EVENT_BYTES - 4].decode(errors="ignore") + " ..."


class FailureWriter:
    """Writes conditions and nominations.

    Args:
        client: writes; None for a simulation.
        clock: transition times.
        workers: how many write at once.
        stand_ins: who writes about pods that stand for other objects.
        supervisor: keeps the writers going.
        fair: whether pods of different namespaces take turns; else it goes in order.
    """

    def __init__(
        self,
        client: Client | None,
        clock: Clock,
        workers: int = 32,
        stand_ins: SurrogatePods | None = None,
        supervisor: Supervisor | None = None,
        *,
        fair: bool = False,
    ) -> None:
        self._supervisor = supervisor or Supervisor("scheduler", clock=clock)
        self._stand_ins = stand_ins or SurrogatePods()
        self._client = client
        self._clock = clock
        self._limit = workers
        self._fair = fair
        self._waiting: dict[str, SchedulingFailure] = {}
        # Whose turn it is, by uid; some may wait no longer, and some may be there twice.
        self._uid_queue: TurnQueue[str] = TurnQueue()
        # What was last written of a pod, so that a repeated failure is not written again even
        # before the informer has brought it back.
        self._last_written: dict[str, tuple[str, str, str]] = {}
        self._writing: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        # By pod, when a write that failed is tried again.
        self._again: dict[str, asyncio.TimerHandle] = {}

    def report(self, failure: SchedulingFailure) -> None:
        """Has a failure written; returns at once."""
        if self._client is None:
            return
        uid = failure.pod.metadata.uid
        nominated = failure.nominated
        if nominated is None:
            nominated = failure.pod.status.nominated_node_name
        said = (failure.reason, failure.message, nominated)
        if self._last_written.get(uid) == said or (
            uid not in self._last_written and self._stands(failure)
        ):
            return
        self._last_written[uid] = said
        self._start(failure)

    def forget(self, uid: str) -> None:
        """The pod is bound or gone."""
        # Asked of every pod, of which nearly all never failed.
        if self._last_written or self._waiting or self._again:
            self._last_written.pop(uid, None)
            self._waiting.pop(uid, None)
            self._leave(uid)

    async def close(self) -> None:
        """Cancels what is not written."""
        for uid in list(self._again):
            self._leave(uid)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, failure: SchedulingFailure) -> None:
        uid = failure.pod.metadata.uid
        self._leave(uid)
        if uid not in self._waiting:
            self._uid_queue.push(self._flow(failure), uid)
        self._waiting[uid] = failure
        if len(self._tasks) < self._limit:
            task = self._supervisor.start("conditions of pods", self._drain)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _leave(self, uid: str) -> None:
        timer = self._again.pop(uid, None)
        if timer is not None:
            timer.cancel()

    async def _drain(self) -> None:
        while uid := self._next():
            failure = self._waiting.pop(uid)
            self._writing.add(uid)
            try:
                faults.point("scheduler.failure")
                await self._write(failure)
            except LeadLostError:
                self._last_written.pop(uid, None)
            except Exception as error:
                if is_gone(error):
                    self._last_written.pop(uid, None)
                    continue
                where = log.fields(pod=failure.pod.title, error=reason_of(error))
                _LOG.warning("a pod's condition could not be written", extra=where)
                if uid in self._last_written and uid not in self._waiting:
                    timer = asyncio.get_running_loop().call_later(
                        _AGAIN_SECONDS, self._start, failure
                    )
                    self._again[uid] = timer
            finally:
                self._writing.discard(uid)
                if uid in self._waiting:
                    self._uid_queue.push(self._flow(failure), uid)

    def _flow(self, failure: SchedulingFailure) -> str:
        return failure.pod.metadata.namespace if self._fair else ""

    def _next(self) -> str:
        """The next pod to be written about; of one pod what is said last stands, and comes last."""
        while self._uid_queue:
            uid = self._uid_queue.pop()
            if uid in self._waiting and uid not in self._writing:
                return uid
        return ""

    async def _write(self, failure: SchedulingFailure) -> None:
        stand_in = self._stand_ins.of(failure.pod)
        if stand_in is not None:
            await stand_in.write_failure(failure.pod, failure.message)
            return
        client, meta = self._client, failure.pod.metadata
        assert client is not None
        tries = [failure.pod]

        async def work() -> None:
            # A pod that has changed may have been bound: then there is nothing to say any more.
            pod = tries.pop() if tries else await client.get(Pod, meta.name, meta.namespace)
            if pod.metadata.uid == meta.uid and not pod.spec.node_name:
                patch = self._patch(failure._replace(pod=pod))
                await client.patch(Pod, meta.name, patch, meta.namespace, subresource="status")

        await retry.on_conflict(work)

    def _patch(self, failure: SchedulingFailure) -> Patch:
        """The change of a pod's status, for the very state of it that was looked at."""
        pod = failure.pod
        status: dict[str, Any] = {}
        condition = self._condition(failure)
        if condition is not None:
            status["conditions"] = [condition]
        if failure.nominated is not None:
            status["nominatedNodeName"] = failure.nominated or None
        meta = {"uid": pod.metadata.uid}
        if pod.metadata.resource_version:
            meta["resourceVersion"] = pod.metadata.resource_version
        return Patch.strategic({"metadata": meta, "status": status})

    def _condition(self, failure: SchedulingFailure) -> dict[str, Any] | None:
        now = self._clock.wall_seconds()
        return pod_conditions.change(
            failure.pod, _SCHEDULED, "False", failure.reason, failure.message, now
        )

    def _stands(self, failure: SchedulingFailure) -> bool:
        """Whether the pod's status says all that already."""
        return self._condition(failure) is None and failure.nominated in (
            None,
            failure.pod.status.nominated_node_name,
        )
