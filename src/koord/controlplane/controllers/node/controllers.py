# SPDX-License-Identifier: Apache-2.0
"""The controllers of nodes: silence, taints and evictions; and of pods that lost their node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.controllers.base.constraints import NO_EXECUTE
from koord.controlplane.controllers.base.objects import LEASE, NODE, POD, Owner
from koord.controlplane.controllers.node import node_lifecycle, pod_gc
from koord.kube.controller import Controller
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView

LEASE_NAMESPACE = "kube-node-lease"
_WORKERS = 4
_CONFLICT_SECONDS = 1.0


class NodeLifecycleController:
    """Watches over the nodes' signs of life."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._nodes: KindView[Node] = runtime.view(NODE)
        self._pods: KindView[Pod] = runtime.view(POD)
        self._leases: KindView[Owner] = runtime.view(LEASE)
        self._signs: dict[str, node_lifecycle.Heartbeat] = {}
        self.controller: Controller[str] = Controller(
            "nodelifecycle", self.reconcile, workers=_WORKERS
        )
        self._nodes.on_change(self._node_changed)
        self._pods.on_change(self._pod_changed)
        self._leases.on_change(self._lease_changed)

    async def reconcile(self, name: str) -> float | None:
        """Looks at one node; see :class:`koord.kube.controller.Controller`."""
        node = self._nodes.get(name)
        if node is None:
            self._signs.pop(name, None)
            return None
        now = self._runtime.now
        self._listen(node)
        on_node = self._pods.by_index("node", name)
        plan = node_lifecycle.plan(node, on_node, self._signs[name], now)
        leave = node_lifecycle.evict(node, on_node, now)
        plan.again(leave.again_seconds)
        try:
            await self._runtime.carry_out([*plan.actions, *leave.actions], NODE, node)
        except ApiError as error:
            if error.reason != "Conflict":
                raise
            # Decided from an old state; the new one is on its way.
            return _CONFLICT_SECONDS
        return plan.again_seconds

    def _listen(self, node: Node) -> None:
        name = node.metadata.name
        lease = self._leases.get(f"{LEASE_NAMESPACE}/{name}")
        renewed = str(lease.spec.get("renewTime", "")) if lease else ""
        last = self._signs.get(name)
        self._signs[name] = node_lifecycle.sign(node, renewed, last, self._runtime.now)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if after is not None:
            self._listen(after)
        found = after or before
        if found is None:
            return
        if before is None or after is None or _state(before) != _state(after):
            self.controller.queue.add(found.metadata.name)

    def _lease_changed(self, before: Owner | None, after: Owner | None) -> None:
        if after is None or after.metadata.namespace != LEASE_NAMESPACE:
            return
        node = self._nodes.get(after.metadata.name)
        if node is not None:
            self._listen(node)

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after is None or not after.spec.node_name:
            return
        if before is not None and before.spec.node_name == after.spec.node_name:
            return
        node = self._nodes.get(after.spec.node_name)
        if node and any(taint.effect == NO_EXECUTE for taint in node.spec.taints):
            self.controller.queue.add(after.spec.node_name)


def _state(node: Node) -> tuple[object, ...]:
    conditions = [(c.type, c.status) for c in node.status.conditions]
    return conditions, node.spec.taints, node.spec.unschedulable


class PodGarbageCollector:
    """Looks for pods without a node every so often."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._nodes: KindView[Node] = runtime.view(NODE)
        self._pods: KindView[Pod] = runtime.view(POD)
        self._missed: dict[str, float] = {}
        self.controller: Controller[str] = Controller("podgc", self.reconcile)
        self._pods.on_change(self._pod_changed)

    async def reconcile(self, key: str) -> float | None:
        """Looks at all pods, or (a key with a slash) at one that ends unscheduled."""
        now = self._runtime.now
        if "/" in key:
            pod = self._pods.get(key)
            await self._collect([pod] if pod else [], set(), now)
            return None
        pods = self._pods.all()
        names = {pod.spec.node_name for pod in pods if pod.spec.node_name}
        missing = {name for name in names if self._nodes.get(name) is None}
        self._missed = {name: self._missed.get(name, now) for name in missing}
        quarantine = pod_gc.QUARANTINE_SECONDS
        gone = {name for name, since in self._missed.items() if now - since >= quarantine}
        await self._collect(pods, gone, now)
        return pod_gc.CHECK_SECONDS

    async def _collect(self, pods: list[Pod], gone: set[str], now: float) -> None:
        by_key = {pod.metadata.uid: pod for pod in pods}
        actions = pod_gc.plan(pods, gone, now)
        if actions and by_key:
            await self._runtime.carry_out(actions, NODE, next(iter(by_key.values())))

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if after and after.metadata.deletion_timestamp and not after.spec.node_name:
            self.controller.queue.add(f"{after.metadata.namespace}/{after.metadata.name}")

    def begin(self) -> None:
        """Looks for the first time; from then on it comes back by itself."""
        self.controller.queue.add("all")
