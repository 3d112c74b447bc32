# SPDX-License-Identifier: Apache-2.0
"""Carries out a preemption: writes that run beside the scheduling loop.

While they are under way the pod that they are for is not tried again (Kubernetes' asynchronous
preemption, KEP 4832).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from koord.api.kinds.pod import Pod
from koord.base import faults, log
from koord.base.errors import one_line
from koord.controllers.scheduler import pod_conditions
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.preemption.victims import (
    is_terminating,
)
from koord.kube.errors import ApiError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.framework.handle import Handle
    from koord.kube.client import Client

_LOG = log.get("scheduler")
_NOT_FOUND, _CONFLICT = 404, 409
# Between a preemption that failed and the next: a server may refuse each of them at once.
_AGAIN_SECONDS = 1.0


class _RunningPreemption:
    """A preemption under way."""

    __slots__ = ("held", "last", "task")

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.last: PodInfo | None = None
        self.held = False


class PreemptionExecutor:
    """Has victims deleted.

    Args:
        name: of the preempting plugin.
        handle: client, events, waiting pods.
    """

    def __init__(self, name: str, handle: Handle) -> None:
        self._name = name
        self._handle = handle
        self._runs: dict[str, _RunningPreemption] = {}

    def begin(
        self, pod: PodInfo, node: str, victims: Sequence[PodInfo], displaced: Sequence[PodInfo]
    ) -> None:
        """Starts; returns at once.

        Victims that wait on Permit are given up now; those that are being deleted are left alone.

        Args:
            pod: who preempts.
            node: where.
            victims: who goes.
            displaced: pods of lower priority that were nominated to the node.
        """
        doomed = []
        for victim in victims:
            if is_terminating(victim):
                continue
            refused = Rejection(self._name, ("preempted",))
            if self._handle.reject(victim.uid, refused):
                self._notify(pod, node, victim)
            else:
                doomed.append(victim)
        client = self._handle.client
        if client is None:
            for victim in doomed:
                self._notify(pod, node, victim)
            self._handle.activate([other.uid for other in displaced])
            return
        run = self._runs[pod.uid] = _RunningPreemption()
        work = partial(self._work, client, run, pod, node, doomed, displaced)
        title = f"preemption for {pod.key}"
        run.task = self._handle.supervisor.once("preemptions", work, title)

    def in_progress(self, pod: PodInfo) -> bool:
        """Whether a pod had better wait for its preemption to be carried out."""
        run = self._runs.get(pod.uid)
        if run is None:
            return False
        if run.last is not None:
            last = self._handle.pod(run.last.uid)
            if last is None or is_terminating(last):
                return False
        run.held = True
        return True

    async def settled(self) -> None:
        """Waits for all that is under way."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(
        self,
        client: Client,
        run: _RunningPreemption,
        pod: PodInfo,
        node: str,
        victims: Sequence[PodInfo],
        displaced: Sequence[PodInfo],
    ) -> None:
        failed = True
        try:
            await self._clear(client, displaced)
            self._handle.activate([other.uid for other in displaced])
            first, last = victims[:-1], victims[-1:]
            await asyncio.gather(*(self._delete(client, pod, node, v) for v in first))
            for victim in last:
                run.last = victim
                await self._delete(client, pod, node, victim)
            failed = False
        except Exception as error:
            where = log.fields(pod=pod.key, node=node, error=one_line(str(error)))
            _LOG.warning("a preemption failed", extra=where)
            await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            if self._runs.get(pod.uid) is run:
                del self._runs[pod.uid]
        if failed or run.held:
            # What it was held back from may have been the last event to wake it.
            self._handle.activate([pod.uid])

    async def _clear(self, client: Client, displaced: Sequence[PodInfo]) -> None:
        for other in displaced:
            if not other.pod.status.nominated_node_name:
                continue
            body = {"metadata": {"uid": other.uid}, "status": {"nominatedNodeName": None}}
            try:
                await self._patch(client, other, body)
            except ApiError as error:
                # Not worth giving up for: the next failure of that pod writes it anew.
                where = log.fields(pod=other.key, error=one_line(str(error)))
                _LOG.warning("a nomination could not be cleared", extra=where)

    async def _delete(self, client: Client, pod: PodInfo, node: str, victim: PodInfo) -> None:
        faults.point("scheduler.preempt")
        meta = victim.pod.metadata
        try:
            condition = self._condition(victim, pod.pod.spec.scheduler_name)
            if condition is not None:
                body = {"metadata": {"uid": victim.uid}, "status": {"conditions": [condition]}}
                await self._patch(client, victim, body)
            await client.delete(Pod, meta.name, meta.namespace, uid=victim.uid)
        except ApiError as error:
            if not await _has_gone(client, victim, error):
                raise
            return
        self._notify(pod, node, victim)

    async def _patch(self, client: Client, other: PodInfo, body: dict[str, Any]) -> None:
        meta = other.pod.metadata
        patch = Patch.strategic(body)
        await client.patch(Pod, meta.name, patch, meta.namespace, subresource="status")

    def _condition(self, victim: PodInfo, scheduler: str) -> dict[str, Any] | None:
        """The condition that tells a preempted pod from a failed one; None if it is there."""
        message = f"{scheduler}: preempting to accommodate a higher priority pod"
        now = self._handle.clock.wall_seconds()
        return pod_conditions.change(
            victim.pod,
            pod_conditions.DISRUPTION_TARGET,
            "True",
            pod_conditions.BY_SCHEDULER,
            message,
            now,
        )

    def _notify(self, pod: PodInfo, node: str, victim: PodInfo) -> None:
        message = f"Preempted by pod {pod.uid} on node {node}"
        self._handle.event(victim.pod, "Normal", "Preempted", message)


async def _has_gone(client: Client, victim: PodInfo, error: ApiError) -> bool:
    """Whether a write failed since its pod is gone, or another pod has its name by now.

    A conflict may also mean no more than that somebody else wrote at the same moment.
    """
    if error.http_status != _CONFLICT:
        return error.http_status == _NOT_FOUND
    meta = victim.pod.metadata
    try:
        live = await client.get(Pod, meta.name, meta.namespace)
    except ApiError as second:
        if second.http_status == _NOT_FOUND:
            return True
        raise
    return live.metadata.uid != meta.uid
