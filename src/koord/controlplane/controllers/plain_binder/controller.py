# SPDX-License-Identifier: Apache-2.0
"""The plain binder: pods of a scheduler name go to the first node by name that has room.

It stands in for a scheduler where there is none. A pod that it has chosen a node for counts there
at once, before the server knows, so that a burst never overcommits a node.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from koord.api.requests import requested
from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.objects import NODE, POD, key_of, timestamp
from koord.controlplane.controllers.base.plans import ObjectEvent, patch
from koord.controlplane.controllers.plain_binder.free_resources import FreeResources
from koord.kube.controller import Controller
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Collection

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView

DEFAULT_SCHEDULER = "default-scheduler"
_BINDINGS = 32
# Pods that found no room look again so long after some was made, together.
_WAKE_SECONDS = 0.05


class PlainBinder:
    """Binds pods of some scheduler names.

    Args:
        runtime: views and writes.
        names: scheduler names that it serves.
    """

    def __init__(self, runtime: Runtime, names: Collection[str] = (DEFAULT_SCHEDULER,)) -> None:
        self._runtime = runtime
        self._serves = frozenset(names)
        self._free_resources = FreeResources()
        self._parked: set[str] = set()
        self._assumed: set[str] = set()
        self._wake: asyncio.TimerHandle | None = None
        self._nodes: KindView[Node] = runtime.view(NODE)
        self._pods: KindView[Pod] = runtime.view(POD)
        self.controller: Controller[str] = Controller("binder", self.reconcile, workers=_BINDINGS)
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)

    async def reconcile(self, key: str) -> float | None:
        """Finds a node for one pod; see :class:`koord.kube.controller.Controller`."""
        pod = self._pods.get(key)
        if pod is None or not self._waits(pod) or pod.metadata.uid in self._assumed:
            return None
        asked = requested(pod)
        node = self._free_resources.find(pod.spec, asked)
        if node is None:
            self._parked.add(key)
            await self._report_unschedulable(pod, self._free_resources.explain(pod.spec, asked))
            return None
        # From here to the await nothing else runs: the room is taken before anyone looks again.
        uid = pod.metadata.uid
        self._assumed.add(uid)
        self._free_resources.put_pod(uid, node, asked)
        try:
            await self._runtime.client.bind(pod, node)
        except BaseException as error:
            self._forget(key, uid)
            if isinstance(error, ApiError) and error.http_status in (404, 409):
                return None
            raise
        title = f"{pod.metadata.namespace}/{pod.metadata.name}"
        told = ObjectEvent("Scheduled", f"Successfully assigned {title} to {node}")
        self._runtime.record_event(pod, POD, told)
        return None

    def close(self) -> None:
        """Drops the timer, if one is set."""
        if self._wake is not None:
            self._wake.cancel()

    def _waits(self, pod: Pod) -> bool:
        return (
            pod.spec.scheduler_name in self._serves
            and not pod.spec.node_name
            and not pod.spec.scheduling_gates
            and pods.is_active(pod)
        )

    def _forget(self, key: str, uid: str) -> None:
        """A binding failed: the room is free again, unless the pod has a node after all."""
        self._assumed.discard(uid)
        pod = self._pods.get(key)
        if pod is None or pod.metadata.uid != uid or not pod.spec.node_name:
            self._free_resources.remove_pod(uid)

    async def _report_unschedulable(self, pod: Pod, message: str) -> None:
        known = pods.condition_of(pod, "PodScheduled")
        if known and known.status == "False" and known.message == message:
            return
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": message,
        }
        if known is None or known.status != "False":
            condition["lastTransitionTime"] = timestamp(self._runtime.now)
        body = {"status": {"conditions": [condition]}}
        change = patch(POD, pod, body, subresource="status", strategic=True)
        told = ObjectEvent("FailedScheduling", message, "Warning")
        await self._runtime.carry_out([told, change], POD, pod)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is not None:
            if before is None or _matters(before) != _matters(after):
                self._free_resources.put_node(after)
                self._schedule_wake()
        elif before is not None:
            self._free_resources.remove_node(before.metadata.name)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None:
            if before is not None:
                self._gone(before)
            return
        uid = after.metadata.uid
        if pods.is_finished(after):
            self._gone(after)
        elif after.spec.node_name:
            self._assumed.discard(uid)
            self._parked.discard(key_of(after.metadata))
            self._free_resources.put_pod(uid, after.spec.node_name, requested(after))
        elif self._waits(after) and (before is None or _asks(before) != _asks(after)):
            self.controller.queue.add(key_of(after.metadata), after.spec.priority or 0)

    def _gone(self, pod: Pod) -> None:
        self._parked.discard(key_of(pod.metadata))
        self._assumed.discard(pod.metadata.uid)
        if self._free_resources.remove_pod(pod.metadata.uid):
            self._schedule_wake()

    def _schedule_wake(self) -> None:
        if self._parked and self._wake is None:
            self._wake = asyncio.get_running_loop().call_later(_WAKE_SECONDS, self._retry)

    def _retry(self) -> None:
        self._wake = None
        for key in sorted(self._parked):
            pod = self._pods.get(key)
            self.controller.queue.add(key, (pod.spec.priority or 0) if pod else 0)
        self._parked.clear()


def _matters(node: Node) -> tuple[object, ...]:
    ready = [c.status for c in node.status.conditions if c.type == "Ready"]
    spec = node.spec
    return node.metadata.labels, spec.taints, spec.unschedulable, node.status.allocatable, ready


def _asks(pod: Pod) -> tuple[object, ...]:
    return pod.metadata.uid, pod.spec
