# SPDX-License-Identifier: Apache-2.0
"""Carries out decisions: waits for permits, writes what must stand before, binds.

Decisions are made one after the other, bindings run side by side. A binding that fails gives back
what was reserved and tells the loop, which puts the pod back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from koord.api.kinds.pod import Pod
from koord.base import faults, log
from koord.base.errors import one_line
from koord.controllers.scheduler.framework.cycle import Changes
from koord.controllers.scheduler.standins import StandIns
from koord.kube.errors import ApiError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.scheduler.decider import Decision, Plugins
    from koord.controllers.scheduler.framework.rejection import Rejection, Wait
    from koord.controllers.scheduler.queue.queued import QueuedPod
    from koord.kube.client import Client

_LOG = log.get("scheduler")
_NOT_FOUND, _CONFLICT = 404, 409
LONGEST_WAIT_SECONDS = 900.0


class BindError(Exception):
    """A plugin refuses a pod on its way to its node; the text is for the pod's condition."""

    def __init__(self, message: str, plugins: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.plugins = plugins


@dataclass(slots=True)
class Binding:
    """A pod on its way to its node.

    Attributes:
        decision: the node, with what is known of the attempt.
        plugins: of the pod's profile.
        queued: the pod as the queue knows it.
        started: monotonic seconds when the attempt began.
        permit: done when the pod may go on; None where nothing made it wait. Its result is None, or
            why it may not.
        group: bindings that stand and fall together: once one has failed, those that have not
            begun are given up.
    """

    decision: Decision
    plugins: Plugins
    queued: QueuedPod
    started: float
    permit: asyncio.Future[Rejection | None] | None = None
    group: Group | None = None


@dataclass(slots=True)
class Group:
    """Bindings of one job."""

    failed: str = ""


class Binder:
    """Runs bindings.

    Args:
        client: writes; None binds at once and writes nothing (a simulation).
        node_name: of a row.
        succeeded: told of each pod that is bound.
        failed: told of each that is not, with the error.
        workers: how many bindings write at once.
        stand_ins: who writes about pods that stand for other objects.
    """

    def __init__(
        self,
        client: Client | None,
        node_name: Callable[[int], str],
        succeeded: Callable[[Binding], None],
        failed: Callable[[Binding, Exception], None],
        workers: int = 64,
        stand_ins: StandIns | None = None,
    ) -> None:
        self._stand_ins = stand_ins or StandIns()
        self._client = client
        self._node_name = node_name
        self._succeeded = succeeded
        self._failed = failed
        self._limit = workers
        self._ready: deque[Binding] = deque()
        self._workers: set[asyncio.Task[None]] = set()
        self._idle = 0
        self._arrived = asyncio.Event()
        # Pods that a Permit plugin makes wait, by uid.
        self.waiting: dict[str, Binding] = {}
        self._waits: set[asyncio.Task[None]] = set()

    @property
    def pending(self) -> int:
        """How many bindings are not done."""
        return len(self._ready) + len(self._workers) - self._idle + len(self.waiting)

    def start(self, binding: Binding, wait: Wait | None = None) -> None:
        """Begins a binding; returns at once."""
        if wait is not None:
            binding.permit = asyncio.get_running_loop().create_future()
            self.waiting[binding.queued.info.uid] = binding
            task = asyncio.create_task(self._permitted(binding, wait))
            self._waits.add(task)
            task.add_done_callback(self._waits.discard)
            return
        self._ready.append(binding)
        if not self._idle and len(self._workers) < self._limit:
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        else:
            self._arrived.set()

    def allow(self, uid: str) -> bool:
        """Lets a waiting pod go on; False if it does not wait."""
        return self._answer(uid, None)

    def reject(self, uid: str, why: Rejection) -> bool:
        """Gives up a waiting pod; False if it does not wait."""
        return self._answer(uid, why)

    async def close(self) -> None:
        """Cancels what is not done; nothing is given back, for the process ends."""
        tasks = [*self._workers, *self._waits]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _answer(self, uid: str, why: Rejection | None) -> bool:
        binding = self.waiting.get(uid)
        if binding is None or binding.permit is None or binding.permit.done():
            return False
        binding.permit.set_result(why)
        return True

    async def _permitted(self, binding: Binding, wait: Wait) -> None:
        assert binding.permit is not None
        uid = binding.queued.info.uid
        try:
            seconds = min(wait.seconds, LONGEST_WAIT_SECONDS)
            try:
                async with asyncio.timeout(seconds):
                    refused = await asyncio.shield(binding.permit)
            except TimeoutError:
                text = f'pod "{binding.queued.info.key}" rejected while waiting on permit: timeout'
                raise BindError(text, frozenset({wait.plugin})) from None
            if refused is not None:
                raise BindError(refused.text, frozenset({refused.plugin}))
        except BindError as error:
            self.waiting.pop(uid, None)
            self._failed(binding, error)
        else:
            self.waiting.pop(uid, None)
            self.start(binding)

    async def _work(self) -> None:
        while True:
            while self._ready:
                await self._carry_out(self._ready.popleft())
            self._arrived.clear()
            self._idle += 1
            try:
                await self._arrived.wait()
            finally:
                self._idle -= 1

    async def _carry_out(self, binding: Binding) -> None:
        try:
            if binding.group is not None and binding.group.failed:
                raise BindError(binding.group.failed)
            await self._bind(binding)
        except Exception as error:
            if binding.group is not None and not binding.group.failed:
                binding.group.failed = f"another pod of the job failed: {reason_of(error)}"
            self._failed(binding, error)
        else:
            self._succeeded(binding)

    async def _bind(self, binding: Binding) -> None:
        cycle, row = binding.decision.cycle, binding.decision.row
        faults.point("scheduler.bind")
        changes = Changes()
        for plugin in binding.plugins.pre_bind:
            await plugin.pre_bind(cycle, row, changes)
        if changes and self._client is not None:
            await self._write(cycle.pod.pod, changes)
        node = self._node_name(row)
        for plugin in binding.plugins.bind:
            if await plugin.bind(cycle, node):
                return
        if binding.plugins.bind:
            raise BindError("no Bind plugin takes this pod")

    async def _write(self, pod: Pod, changes: Changes) -> None:
        stand_in = self._stand_ins.of(pod)
        if stand_in is not None:
            await stand_in.write_changes(pod, changes)
            return
        meta: dict[str, Any] = {"uid": pod.metadata.uid}
        if changes.annotations:
            meta["annotations"] = changes.annotations
        if changes.labels:
            meta["labels"] = changes.labels
        assert self._client is not None
        patch = Patch.merge({"metadata": meta})
        await self._client.patch(Pod, pod.metadata.name, patch, pod.metadata.namespace)


def reason_of(error: Exception) -> str:
    """What went wrong, in one line."""
    return one_line(str(error)) or type(error).__name__


def is_gone(error: Exception) -> bool:
    """Whether the pod is not there any more."""
    return isinstance(error, ApiError) and error.http_status == _NOT_FOUND


def is_conflict(error: Exception) -> bool:
    """Whether the pod was changed under our hands: bound by another, or made anew."""
    return isinstance(error, ApiError) and error.http_status == _CONFLICT
