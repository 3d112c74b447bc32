# SPDX-License-Identifier: Apache-2.0
"""The shell of EndpointSlices and Endpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.controlplane.controllers.base import pods
from koord.controlplane.controllers.base.intervals import KeyInterval
from koord.controlplane.controllers.base.objects import (
    NODE,
    POD,
    SERVICE,
    STATEFUL_SET,
    Owner,
    controller_of,
    key_of,
)
from koord.controlplane.controllers.base.plans import Plan, delete
from koord.controlplane.controllers.endpoints import backends, legacy, slices
from koord.controlplane.controllers.endpoints.legacy import ENDPOINTS, Endpoints
from koord.controlplane.controllers.endpoints.slices import SLICE, Slice
from koord.controlplane.controllers.workload.controllers import OwnerController

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView

# A rollout changes many pods at once: what stands behind a Service is written a few times.
_PAUSE_SECONDS = 0.5


class EndpointsController(OwnerController):
    """Writes down which pods stand behind Services that select."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, SERVICE, ())
        self._pods: KindView[Pod] = runtime.view(POD)
        self._nodes: KindView[Node] = runtime.view(NODE)
        self._sets: KindView[Owner] = runtime.view(STATEFUL_SET)
        self._slices: KindView[Slice] = runtime.view(SLICE, Slice)
        self._endpoints: KindView[Endpoints] = runtime.view(ENDPOINTS, Endpoints)
        self._interval = KeyInterval(_PAUSE_SECONDS)
        self._pods.on_change(self._pod_changed)
        self._nodes.on_change(self._node_changed)
        self._slices.on_change(self._slice_changed)
        self._endpoints.on_change(self._endpoints_changed)

    def plan(self, owner: Owner, now: float) -> Plan:
        """See :func:`slices.plan` and :func:`legacy.plan`."""
        if not _selects(owner):
            return Plan()
        namespace, key = owner.metadata.namespace, key_of(owner.metadata)
        selected = [
            pod
            for pod in self._pods.by_index("namespace", namespace)
            if _matches(owner, pod.metadata.labels)
        ]
        zones = {}
        for name in {pod.spec.node_name for pod in selected}:
            node = self._nodes.get(name)
            if node is not None:
                zones[name] = backends.zone_of(node.metadata.labels)
        found = backends.backends(owner, selected, zones, self._hostnames(owner, selected))
        mine = self._slices.by_index("owner", owner.metadata.uid)
        actions = slices.plan(owner, SERVICE, found, mine)
        return Plan(actions + legacy.plan(owner, found, self._endpoints.get(key)))

    async def reconcile(self, key: str) -> float | None:
        """As every owner, now and then; what a Service leaves behind goes with it."""
        owner = self.owners.get(key)
        if owner is None:
            self._interval.forget(key)
            await self._remove(key)
            return None
        wait = self._interval.begin(key, self.runtime.now)
        if wait is not None:
            return wait
        return await super().reconcile(key)

    async def _remove(self, key: str) -> None:
        left = self._endpoints.get(key)
        if left is not None and left.metadata.labels.get(legacy.MANAGED_BY) == legacy.MANAGER:
            await self.runtime.carry_out([delete(ENDPOINTS, left)], ENDPOINTS, left)

    def _hostnames(self, service: Owner, selected: Sequence[Pod]) -> dict[str, str]:
        """Pods of a StatefulSet have names below that of its Service."""
        found = {}
        for pod in selected:
            reference = controller_of(pod.metadata)
            if reference is not None and reference.kind == STATEFUL_SET.name:
                owner = self._sets.get(f"{pod.metadata.namespace}/{reference.name}")
                if owner and owner.spec.get("serviceName") == service.metadata.name:
                    found[pod.metadata.uid] = pod.metadata.name
        return found

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        if (
            before is not None
            and after is not None
            and _endpoint_fields(before) == _endpoint_fields(after)
        ):
            return
        found = after or before
        assert found is not None, "a change of nothing"
        for service in self.owners.by_index("namespace", found.metadata.namespace):
            states = [state.metadata.labels for state in (before, after) if state is not None]
            if _selects(service) and any(_matches(service, labels) for labels in states):
                self.controller.queue.add(key_of(service.metadata))

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before and after and before.metadata.labels == after.metadata.labels:
            return
        self.wake_all()

    def _slice_changed(self, before: Slice | None, after: Slice | None) -> None:
        found = after or before
        if found is not None and (name := found.metadata.labels.get(slices.SERVICE_NAME)):
            self.controller.queue.add(f"{found.metadata.namespace}/{name}")

    def _endpoints_changed(self, before: Endpoints | None, after: Endpoints | None) -> None:
        found = after or before
        assert found is not None, "a change of nothing"
        self.controller.queue.add(key_of(found.metadata))


def _selects(service: Owner) -> bool:
    return bool(service.spec.get("selector")) and service.spec.get("type") != "ExternalName"


def _matches(service: Owner, labels: dict[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in service.spec["selector"].items())


def _endpoint_fields(pod: Pod) -> tuple[object, ...]:
    """What of a pod stands in endpoints, or decides whether it does."""
    deleted = pod.metadata.deletion_timestamp is not None
    state = pods.is_finished(pod), pods.is_ready(pod), pod.status.pod_ip, deleted
    return pod.metadata.uid, pod.metadata.labels, pod.spec.node_name, state
