# SPDX-License-Identifier: Apache-2.0
"""Carries out decisions: waits for permits, writes what must stand before, binds.

Decisions are made one after the other, bindings run side by side. A binding that fails gives back
what was reserved and tells the loop, which puts the pod back.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from koord.api.kinds.pod import Pod
from koord.api.protocol import keys
from koord.base import faults, log
from koord.base.errors import one_line
from koord.base.supervision import Supervisor
from koord.base.turn_queue import TurnQueue
from koord.controllers.scheduler.cycles.surrogate_pods import SurrogatePods
from koord.controllers.scheduler.framework.cycle import PendingPatch
from koord.kube.election import LeadLostError
from koord.kube.errors import ApiError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.decision.decider import Decision
    from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
    from koord.controllers.scheduler.framework.rejection import Rejection, Wait
    from koord.controllers.scheduler.queue.queued_pod import QueuedPod
    from koord.kube.client import Client

_LOG = log.get("scheduler")
_NOT_FOUND, _CONFLICT = 404, 409
LONGEST_WAIT_SECONDS = 900.0
# Whose events wake a pod whose node went: a node that comes is one of them.
_FIT = "NodeResourcesFit"
# What says on a pod what is its own, and which pods of its gang were bound with it.
_NOTES = (
    keys.RESOURCE_STATUS,
    keys.DEVICE_ALLOCATED,
    keys.RESERVATION_ALLOCATED,
    keys.BIND_GANG_GROUP_ID,
    keys.BIND_GANG_MEMBER_COUNT,
    keys.BIND_GANG_GROUP_ID_OLD,
    keys.BIND_GANG_MEMBER_COUNT_OLD,
)


class BindError(Exception):
    """A plugin refuses a pod on its way to its node; the text is for the pod's condition."""

    def __init__(self, message: str, plugins: frozenset[str] = frozenset()) -> None:
        super().__init__(message)
        self.plugins = plugins


@dataclass(slots=True)
class BindingCycle:
    """A pod that was given a node and is waiting for Permit, or being written and bound.

    Attributes:
        decision: the node, with what is known of the attempt.
        plugins: of the pod's profile.
        queued: the pod as the queue knows it.
        started: monotonic seconds when the attempt began.
        permit: done when the pod may go on; None where nothing made it wait. Its result is None, or
            why it may not.
        group: bindings that stand and fall together: once one has failed, those that have not
            begun are given up.
        node: the name of the node that was chosen; set when the binding begins, since its row may
            become another's.
    """

    decision: Decision
    plugins: ProfilePlugins
    queued: QueuedPod
    started: float
    permit: asyncio.Future[Rejection | None] | None = None
    group: BindingGroup | None = None
    node: str = ""


@dataclass(slots=True)
class BindingGroup:
    """Bindings of one job."""

    failed: str = ""


class Binder:
    """Runs binding cycles: waits on Permit, runs PreBind, binds; undoes all where one fails.

    Args:
        client: writes; None binds at once and writes nothing (a simulation).
        node_name: of a row.
        succeeded: told of each pod that is bound.
        failed: told of each that is not, with the error.
        workers: how many bindings may be under way at once; those beyond wait here, and not at the
            transport, whose limit it is.
        stand_ins: who writes about pods that stand for other objects.
        supervisor: keeps the workers going.
        fair: whether bindings of different namespaces take turns; else they go in order.
    """

    def __init__(
        self,
        client: Client | None,
        node_name: Callable[[int], str],
        succeeded: Callable[[BindingCycle], None],
        failed: Callable[[BindingCycle, Exception], None],
        workers: int = 128,
        stand_ins: SurrogatePods | None = None,
        supervisor: Supervisor | None = None,
        *,
        fair: bool = False,
    ) -> None:
        self._supervisor = supervisor or Supervisor("scheduler")
        self._fair = fair
        self._stand_ins = stand_ins or SurrogatePods()
        self._client = client
        self._node_name = node_name
        self._succeeded = succeeded
        self._failed = failed
        self._limit = workers
        self._ready: TurnQueue[BindingCycle] = TurnQueue()
        self._workers: set[asyncio.Task[None]] = set()
        self._pumping = False
        # Pods that a Permit plugin makes wait, by uid.
        self.waiting: dict[str, BindingCycle] = {}
        self._waits: set[asyncio.Task[None]] = set()
        # What attempts that have not ended in a bound pod may have noted on it, by uid.
        self._noted: dict[str, frozenset[str]] = {}

    @property
    def pending(self) -> int:
        """How many bindings are not done."""
        return self.writing + len(self.waiting)

    @property
    def writing(self) -> int:
        """How many bindings wait for nothing but the API server."""
        return len(self._ready) + len(self._workers)

    def start(self, binding: BindingCycle, wait: Wait | None = None) -> None:
        """Begins a binding; returns at once."""
        binding.node = binding.node or self._node_name(binding.decision.row)
        if wait is not None:
            binding.permit = asyncio.get_running_loop().create_future()
            self.waiting[binding.queued.info.uid] = binding
            permitted = partial(self._permitted, binding, wait)
            task = self._supervisor.once("permits", permitted)
            self._waits.add(task)
            task.add_done_callback(self._waits.discard)
            return
        flow = binding.queued.info.key.partition("/")[0] if self._fair else ""
        self._ready.push(flow, binding)
        self._pump_soon()

    def allow(self, uid: str) -> bool:
        """Lets a waiting pod go on; False if it does not wait."""
        return self._answer(uid, None)

    def reject(self, uid: str, why: Rejection) -> bool:
        """Gives up a waiting pod; False if it does not wait."""
        return self._answer(uid, why)

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._noted.pop(uid, None)

    async def close(self) -> None:
        """Cancels what is not done; nothing is given back, for the process ends."""
        self._ready.clear()  # What has not begun never does: another may lead by now.
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

    async def _permitted(self, binding: BindingCycle, wait: Wait) -> None:
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

    def _pump_soon(self) -> None:
        if not self._pumping:
            self._pumping = True
            asyncio.get_running_loop().call_soon(self._pump)

    def _pump(self) -> None:
        """Puts one more worker on what waits, and looks again once that one has had its turn.

        Where a binding never waits, as for an API server in this process, the first worker is
        through with all by then; otherwise there is soon one for each.
        """
        self._pumping = False
        if self._ready and len(self._workers) < self._limit:
            worker = self._supervisor.start("bindings", self._work)
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
            self._pump_soon()

    async def _work(self) -> None:
        while self._ready:
            await self._carry_out(self._ready.pop())

    async def _carry_out(self, binding: BindingCycle) -> None:
        try:
            if binding.group is not None and binding.group.failed:
                raise BindError(binding.group.failed)
            await self._bind(binding)
        except LeadLostError:
            # Another may decide about the pod by now: it is neither put back nor told anything.
            return
        except Exception as error:
            if binding.group is not None and not binding.group.failed:
                binding.group.failed = f"another pod of the job failed: {reason_of(error)}"
            self._failed(binding, error)
        else:
            self._succeeded(binding)

    async def _bind(self, binding: BindingCycle) -> None:
        cycle, row = binding.decision.cycle, binding.decision.row
        faults.point("scheduler.bind")
        # Of most pods there is nothing to be written before.
        if binding.plugins.pre_bind or self._noted or cycle.pod.pod.metadata.annotations:
            await self._pre_bind(binding)
        if self._node_name(row) != binding.node:
            raise _gone(binding)
        for plugin in binding.plugins.bind:
            if await plugin.bind(cycle, binding.node):
                if self._noted:
                    self._noted.pop(cycle.pod.uid, None)
                return
        if binding.plugins.bind:
            raise BindError("no Bind plugin takes this pod")

    async def _pre_bind(self, binding: BindingCycle) -> None:
        """Has written on the pod what plugins want there, and taken off what they do not."""
        cycle, row = binding.decision.cycle, binding.decision.row
        changes = PendingPatch()
        for plugin in binding.plugins.pre_bind:
            if self._node_name(row) != binding.node:
                raise _gone(binding)
            await plugin.pre_bind(cycle, row, changes)
        self._take_back(cycle.pod, changes)
        if changes and self._client is not None:
            await self._write(cycle.pod.pod, changes)

    def _take_back(self, pod: PodInfo, changes: PendingPatch) -> None:
        """Takes off what an earlier attempt noted on the pod, or a copied manifest says.

        Whoever reads it from a bound pod believes it.
        """
        noted = self._noted.pop(pod.uid, ()) if self._noted else ()
        there = pod.pod.metadata.annotations
        if not (noted or there or changes.annotations):
            return
        for key in _NOTES:
            if key in there or key in noted:
                changes.annotations.setdefault(key, None)
        written = frozenset(key for key in _NOTES if changes.annotations.get(key) is not None)
        if written and self._client is not None:
            self._noted[pod.uid] = written

    async def _write(self, pod: Pod, changes: PendingPatch) -> None:
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


def _gone(binding: BindingCycle) -> BindError:
    """The node is gone, whoever has its row now."""
    return BindError(f'node "{binding.node}" is gone', frozenset({_FIT}))


def reason_of(error: Exception) -> str:
    """What went wrong, in one line."""
    return one_line(str(error)) or type(error).__name__


def is_gone(error: Exception) -> bool:
    """Whether the pod is not there any more."""
    return isinstance(error, ApiError) and error.http_status == _NOT_FOUND


def is_conflict(error: Exception) -> bool:
    """Whether the pod was changed under our hands: bound by another, or made anew."""
    return isinstance(error, ApiError) and error.http_status == _CONFLICT
