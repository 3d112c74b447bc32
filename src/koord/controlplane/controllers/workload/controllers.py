# SPDX-License-Identifier: Apache-2.0
"""The controllers of owners: they fetch what a plan looks at, and carry it out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api import selectors
from koord.api.kinds.meta import Object, ObjectMeta
from koord.controlplane.controllers.base.objects import (
    CLAIM,
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    NODE,
    PDB,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
    Owner,
    controller_of,
    key_of,
    selector_of,
    split_key,
)
from koord.controlplane.controllers.workload import (
    daemonsets,
    deployments,
    disruption,
    jobs,
    replicasets,
    statefulsets,
)
from koord.kube.controller import Controller
from koord.kube.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from koord.api.kinds.node import Node
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.registry import Kind
    from koord.api.kinds.storage import PersistentVolumeClaim
    from koord.controlplane.controllers.base.plans import Plan
    from koord.controlplane.controllers.base.runtime import Runtime
    from koord.controlplane.controllers.base.views import KindView

_WORKERS = 4
_CONFLICT_SECONDS = 1.0


class OwnerController:
    """Brings the owners of one kind, one at a time, to where their plans say.

    Args:
        runtime: views and writes.
        kind: of the owners.
        owned: kinds of what they own; a change there is looked at by the owner.
    """

    def __init__(self, runtime: Runtime, kind: Kind, owned: Sequence[Kind]) -> None:
        self.runtime = runtime
        self.kind = kind
        self.owners: KindView[Owner] = runtime.view(kind)
        self.controller: Controller[str] = Controller(
            kind.name.lower(), self.reconcile, workers=_WORKERS
        )
        self.owners.on_change(self._changed)
        for other in owned:
            runtime.view(other).on_change(self._owned_changed)

    def plan(self, owner: Owner, now: float) -> Plan:
        """What an owner needs."""
        raise NotImplementedError

    async def reconcile(self, key: str) -> float | None:
        """Plans for one owner and carries it out; see :class:`koord.kube.controller.Controller`."""
        owner = self.owners.get(key)
        if owner is None:
            return None
        plan = self.plan(owner, self.runtime.now)
        try:
            await self.runtime.carry_out(plan.actions, self.kind, owner)
            if self.owners.get(key) is not owner:
                # Changed meanwhile, by us or by others: the status would not be of this state.
                return 0.0
            if plan.status is not None:
                await self.runtime.write_status(self.kind, owner, plan.status)
        except ApiError as error:
            if error.reason != "Conflict":
                raise
            # The newer state is on its way to us, and brings the owner back by itself.
            return _CONFLICT_SECONDS
        return plan.again_seconds

    def candidates(self, owner: Owner, kind: Kind) -> list[Object]:
        """What the owner controls, and what nobody does in its namespace."""
        view = self.runtime.view(kind)
        namespace = owner.metadata.namespace
        return view.by_index("owner", owner.metadata.uid) + view.by_index("orphans", namespace)

    def wake_all(self) -> None:
        """Looks at every owner."""
        for owner in self.owners.all():
            self.controller.queue.add(key_of(owner.metadata))

    def _changed(self, before: Owner | None, after: Owner | None) -> None:
        found = after or before
        if found is not None:
            self.controller.queue.add(key_of(found.metadata))

    def _owned_changed(self, before: Object | None, after: Object | None) -> None:
        for state in (before, after):
            if state is None:
                continue
            namespace = state.metadata.namespace
            reference = controller_of(state.metadata)
            if reference is not None:
                if reference.kind == self.kind.name:
                    self.controller.queue.add(f"{namespace}/{reference.name}")
                continue
            for owner in self.owners.by_index("namespace", namespace):
                selector = selector_of(owner.spec.get("selector"))
                if selectors.matches(selector, state.metadata.labels):
                    self.controller.queue.add(key_of(owner.metadata))


class ReplicaSetController(OwnerController):
    """Keeps ReplicaSets at their size."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, REPLICA_SET, (POD,))
        self._failures: dict[str, str] = {}

    def plan(self, owner: Owner, now: float) -> Plan:
        """What a ReplicaSet or ReplicationController needs."""
        failure = self._failures.get(key_of(owner.metadata), "")
        candidates: list[Pod] = self.candidates(owner, POD)  # type: ignore[assignment]
        return replicasets.plan(owner, candidates, self._related(owner), now, failure)

    async def reconcile(self, key: str) -> float | None:
        """As every owner; a refused write is told in the status too."""
        try:
            again = await super().reconcile(key)
        except ApiError as error:
            await self._report_failure(key, error.status.message)
            raise
        if self._failures.pop(key, None):
            return 0.0
        return again

    async def _report_failure(self, key: str, message: str) -> None:
        self._failures[key] = message
        owner = self.owners.get(key)
        if owner is not None:
            status = self.plan(owner, self.runtime.now).status
            await self.runtime.write_status(self.kind, owner, status or {})

    def _related(self, owner: Owner) -> list[Pod]:
        reference = controller_of(owner.metadata)
        if reference is None:
            return []
        siblings = self.owners.by_index("owner", reference.uid)
        found = self.runtime.view(POD)
        return [
            pod
            for sibling in siblings
            if sibling.metadata.uid != owner.metadata.uid
            for pod in found.by_index("owner", sibling.metadata.uid)
        ]


class DeploymentController(OwnerController):
    """Rolls Deployments out."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, DEPLOYMENT, (REPLICA_SET,))
        self._pods: KindView[Pod] = runtime.view(POD)
        self._pods.on_change(self._pod_changed)

    def plan(self, owner: Owner, now: float) -> Plan:
        """What a Deployment needs."""
        candidates: list[Owner] = self.candidates(owner, REPLICA_SET)  # type: ignore[assignment]
        running: list[Pod] = []
        if (owner.spec.get("strategy") or {}).get("type") == "Recreate":
            for replica_set in self.runtime.view(REPLICA_SET).by_index("owner", owner.metadata.uid):
                running += self._pods.by_index("owner", replica_set.metadata.uid)
        return deployments.plan(owner, candidates, running, now)

    async def reconcile(self, key: str) -> float | None:
        """As every owner; a name that is taken makes for another hash."""
        try:
            return await super().reconcile(key)
        except ApiError as error:
            owner = self.owners.get(key)
            if owner is None or error.reason != "AlreadyExists":
                raise
            name = error.status.details.name if error.status.details else ""
            taken = await self.runtime.client.get(REPLICA_SET, name, owner.metadata.namespace)
            references = taken["metadata"].get("ownerReferences", [])
            if any(reference["uid"] == owner.metadata.uid for reference in references):
                raise
            count = (owner.status.get("collisionCount") or 0) + 1
            status = {**owner.status, "collisionCount": count}
            await self.runtime.write_status(self.kind, owner, status)
            return 0.0

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        # Recreate goes on when the last old pod has gone.
        if before is None or (after is not None and after.status.phase == before.status.phase):
            return
        reference = controller_of(before.metadata)
        if reference is None or reference.kind != REPLICA_SET.name:
            return
        parent = self.runtime.view(REPLICA_SET).get(f"{before.metadata.namespace}/{reference.name}")
        if parent is not None:
            self._owned_changed(None, parent)


class StatefulSetController(OwnerController):
    """Keeps StatefulSets."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, STATEFUL_SET, (POD, CONTROLLER_REVISION))
        self._claims: KindView[PersistentVolumeClaim] = runtime.view(CLAIM)

    def plan(self, owner: Owner, now: float) -> Plan:
        """What a StatefulSet needs."""
        known = self.runtime.view(CONTROLLER_REVISION).by_index("owner", owner.metadata.uid)
        candidates: list[Pod] = self.candidates(owner, POD)  # type: ignore[assignment]
        there: list[PersistentVolumeClaim] = []
        if owner.spec.get("volumeClaimTemplates"):
            there = self._claims.by_index("namespace", owner.metadata.namespace)
        claims = {claim.metadata.name: claim for claim in there}
        return statefulsets.plan(owner, candidates, known, claims, now)


class DaemonSetController(OwnerController):
    """Keeps DaemonSets."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, DAEMON_SET, (POD, CONTROLLER_REVISION))
        self._nodes: KindView[Node] = runtime.view(NODE)
        self._nodes.on_change(self._node_changed)

    def plan(self, owner: Owner, now: float) -> Plan:
        """What a DaemonSet needs."""
        known = self.runtime.view(CONTROLLER_REVISION).by_index("owner", owner.metadata.uid)
        candidates: list[Pod] = self.candidates(owner, POD)  # type: ignore[assignment]
        return daemonsets.plan(owner, candidates, known, self._nodes.all(), now)

    def _node_changed(self, before: Node | None, after: Node | None) -> None:
        if before is None or after is None or _accepts(before) != _accepts(after):
            self.wake_all()


def _accepts(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable


class JobController(OwnerController):
    """Runs Jobs to completion."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, JOB, (POD,))
        self._pods: KindView[Pod] = runtime.view(POD)
        self._pods.on_change(self._pod_changed)
        # Jobs that are gone while pods of theirs may still wait to be counted: uids by key.
        self._left: dict[str, set[str]] = {}

    def plan(self, owner: Owner, now: float) -> Plan:
        """What a Job needs."""
        candidates: list[Pod] = self.candidates(owner, POD)  # type: ignore[assignment]
        return jobs.plan(owner, candidates, now)

    async def reconcile(self, key: str) -> float | None:
        """As every owner; pods that a Job has left behind count no more and may go."""
        again = await super().reconcile(key)
        owner = self.owners.get(key)
        for uid in self._left.pop(key, set()):
            if owner is None or owner.metadata.uid != uid:
                left = self._pods.by_index("owner", uid)
                gone = Object(metadata=ObjectMeta(name=split_key(key)[1], uid=uid))
                await self.runtime.carry_out(jobs.released(left), JOB, gone)
        return again

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        reference = controller_of(after.metadata) if after else None
        if after is None or reference is None or jobs.FINALIZER not in after.metadata.finalizers:
            return
        key = f"{after.metadata.namespace}/{reference.name}"
        owner = self.owners.get(key)
        if owner is None or owner.metadata.uid != reference.uid:
            self._leave(key, reference.uid)

    def _changed(self, before: Owner | None, after: Owner | None) -> None:
        super()._changed(before, after)
        if before is not None and after is None:
            self._leave(key_of(before.metadata), before.metadata.uid)

    def _leave(self, key: str, uid: str) -> None:
        self._left.setdefault(key, set()).add(uid)
        self.controller.queue.add(key)


class DisruptionController(OwnerController):
    """Keeps the status of PodDisruptionBudgets."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(runtime, PDB, ())
        self._pods: KindView[Pod] = runtime.view(POD)
        self._pods.on_change(self._pod_changed)
        self._sized = {
            kind.name: runtime.view(kind) for kind in (REPLICA_SET, STATEFUL_SET, DEPLOYMENT)
        }
        for view in self._sized.values():
            view.on_change(self._size_changed)

    def plan(self, owner: Owner, now: float) -> Plan:
        """What a budget's status should be."""
        selector = selector_of(owner.spec.get("selector"))
        namespace = owner.metadata.namespace
        selected = [
            pod
            for pod in self._pods.by_index("namespace", namespace)
            if selectors.matches(selector, pod.metadata.labels)
        ]
        return disruption.plan(owner, selected, self._scales(selected), now)

    def _scales(self, selected: Sequence[Pod]) -> dict[str, tuple[str, int]]:
        scales: dict[str, tuple[str, int]] = {}
        for pod in selected:
            reference = controller_of(pod.metadata)
            if reference is None or reference.uid in scales:
                continue
            top = self._top(pod.metadata.namespace, pod)
            if top is not None:
                scales[reference.uid] = (top.metadata.uid, top.spec.get("replicas", 1))
        return scales

    def _top(self, namespace: str, owned: Object) -> Owner | None:
        """The workload that decides how many there are: the Deployment above a ReplicaSet."""
        reference = controller_of(owned.metadata)
        view = self._sized.get(reference.kind) if reference else None
        found = view.get(f"{namespace}/{reference.name}") if view and reference else None
        if found is None or reference is None or found.metadata.uid != reference.uid:
            return None
        return self._top(namespace, found) or found

    def _pod_changed(self, before: Pod | None, after: Pod | None) -> None:
        for state in (before, after):
            for budget in (
                self.owners.by_index("namespace", state.metadata.namespace) if state else ()
            ):
                selector = selector_of(budget.spec.get("selector"))
                if state and selectors.matches(selector, state.metadata.labels):
                    self.controller.queue.add(key_of(budget.metadata))

    def _size_changed(self, before: Owner | None, after: Owner | None) -> None:
        if before and after and before.spec.get("replicas") == after.spec.get("replicas"):
            return
        found = after or before
        for budget in self.owners.by_index("namespace", found.metadata.namespace) if found else ():
            self.controller.queue.add(key_of(budget.metadata))


WORKLOADS: dict[str, Callable[[Runtime], OwnerController]] = {
    "deployment": DeploymentController,
    "replicaset": ReplicaSetController,
    "statefulset": StatefulSetController,
    "daemonset": DaemonSetController,
    "job": JobController,
    "disruption": DisruptionController,
}
