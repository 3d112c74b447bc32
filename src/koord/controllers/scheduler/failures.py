# SPDX-License-Identifier: Apache-2.0
"""Tells users why a pod is not on a node: its condition, its nominated node, an event.

Only what changed is written, and of several failures of a pod that wait to be written the last one
alone; so a pod that keeps failing for the same reason costs no write.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from koord.api.kinds.pod import Pod
from koord.api.timestamps import seconds_text
from koord.base import faults, log
from koord.controllers.scheduler.binding import is_gone, reason_of
from koord.controllers.scheduler.standins import StandIns
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from koord.base.clock import Clock
    from koord.kube.client import Client

_LOG = log.get("scheduler")
UNSCHEDULABLE, SCHEDULER_ERROR, GATED = "Unschedulable", "SchedulerError", "SchedulingGated"


class Failure(NamedTuple):
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


class FailureWriter:
    """Writes conditions and nominations.

    Args:
        client: writes; None for a simulation.
        clock: transition times.
        workers: how many write at once.
        stand_ins: who writes about pods that stand for other objects.
    """

    def __init__(
        self,
        client: Client | None,
        clock: Clock,
        workers: int = 8,
        stand_ins: StandIns | None = None,
    ) -> None:
        self._stand_ins = stand_ins or StandIns()
        self._client = client
        self._clock = clock
        self._limit = workers
        self._waiting: dict[str, Failure] = {}
        # What was last written of a pod, so that a repeated failure is not written again even
        # before the informer has brought it back.
        self._said: dict[str, tuple[str, str, str]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def say(self, failure: Failure) -> None:
        """Has a failure written; returns at once."""
        if self._client is None:
            return
        uid = failure.pod.metadata.uid
        nominated = failure.nominated
        if nominated is None:
            nominated = failure.pod.status.nominated_node_name
        said = (failure.reason, failure.message, nominated)
        if self._said.get(uid) == said or (uid not in self._said and _stands(failure)):
            return
        self._said[uid] = said
        self._waiting[uid] = failure
        if len(self._tasks) < self._limit:
            task = asyncio.create_task(self._drain())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def forget(self, uid: str) -> None:
        """The pod is bound or gone."""
        self._said.pop(uid, None)
        self._waiting.pop(uid, None)

    async def close(self) -> None:
        """Cancels what is not written."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _drain(self) -> None:
        while self._waiting:
            uid = next(iter(self._waiting))
            failure = self._waiting.pop(uid)
            try:
                faults.point("scheduler.failure")
                await self._write(failure)
            except Exception as error:
                # The next attempt of the pod says it again.
                self._said.pop(uid, None)
                if not is_gone(error):
                    where = log.fields(pod=failure.pod.title, error=reason_of(error))
                    _LOG.warning("a pod's condition could not be written", extra=where)

    async def _write(self, failure: Failure) -> None:
        pod = failure.pod
        stand_in = self._stand_ins.of(pod)
        if stand_in is not None:
            await stand_in.write_failure(pod, failure.message)
            return
        status: dict[str, Any] = {}
        if not _stands(failure):
            condition = {
                "type": "PodScheduled",
                "status": "False",
                "reason": failure.reason,
                "message": failure.message,
            }
            known = _condition(pod)
            if known is None or known.status != "False":
                condition["lastTransitionTime"] = seconds_text(self._clock.wall_seconds())
            status["conditions"] = [condition]
        if failure.nominated is not None:
            status["nominatedNodeName"] = failure.nominated or None
        assert self._client is not None
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        patch = Patch.strategic(body)
        await self._client.patch(
            Pod, pod.metadata.name, patch, pod.metadata.namespace, subresource="status"
        )


def _condition(pod: Pod) -> Any:
    return next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)


def _stands(failure: Failure) -> bool:
    """Whether the pod's status says all that already."""
    known = _condition(failure.pod)
    if known is None or (known.status, known.reason, known.message) != (
        "False",
        failure.reason,
        failure.message,
    ):
        return False
    return failure.nominated in (None, failure.pod.status.nominated_node_name)
