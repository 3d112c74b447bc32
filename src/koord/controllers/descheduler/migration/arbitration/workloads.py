# SPDX-License-Identifier: Apache-2.0
"""How many replicas the workload of a pod wants, and which of its pods are unavailable.

Rule: docs/reference/migration.md#limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from koord.api.kinds.registry import Kind
from koord.api.kinds.service import ReplicationController
from koord.api.kinds.workloads import Deployment, ReplicaSet, StatefulSet, Workload
from koord.controllers.cluster.pods import controller
from koord.controllers.descheduler.migration.arbitration.pod_index import is_active

if TYPE_CHECKING:
    from collections.abc import Mapping

    from koord.api.kinds.meta import Object, OwnerReference
    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.views import InformerViews, View
    from koord.controllers.descheduler.migration.arbitration.pod_index import PodIndex

_REPLICA_SET = ("apps", "ReplicaSet")
_KRUISE = "apps.kruise.io"
CLONE_SET = Kind(_KRUISE, "v1alpha1", "CloneSet", "clonesets", True, "workloads.Workload")
ADVANCED_STATEFUL_SET = Kind(
    _KRUISE, "v1beta1", "StatefulSet", "statefulsets", True, "workloads.Workload"
)


class LookUp(Protocol):
    """Finds an object by ``namespace/name``."""

    def get(self, key: str, /) -> Any:
        """The object; None for none."""
        ...


@dataclass(frozen=True)
class WorkloadState:
    """The workload of a pod.

    Attributes:
        title: for people.
        replicas: that it wants; 0 where it is gone.
        controllers: uids of the controllers whose pods are its own.
    """

    title: str
    replicas: int
    controllers: tuple[str, ...]


class Workloads:
    """Workloads by what pods name as their controller.

    Args:
        pods: of the cluster.
        views: by group and kind; without one the pods of a controller are counted.
    """

    def __init__(
        self, pods: PodIndex, views: Mapping[tuple[str, str], LookUp] | None = None
    ) -> None:
        self._pods = pods
        self._views = views or {}
        self._sets: dict[str, set[str]] = {}

    @classmethod
    def of_cluster(cls, pods: PodIndex, informers: InformerViews) -> Workloads:
        """Workloads that informers follow."""
        replica_sets: View[ReplicaSet] = informers.view(ReplicaSet)
        views: dict[tuple[str, str], LookUp] = {
            ("", "ReplicationController"): informers.view(ReplicationController),
            ("apps", "Deployment"): informers.view(Deployment),
            ("apps", "ReplicaSet"): replica_sets,
            ("apps", "StatefulSet"): informers.view(StatefulSet),
            (_KRUISE, "CloneSet"): informers.view_as(CLONE_SET, Workload),
            (_KRUISE, "StatefulSet"): informers.view_as(ADVANCED_STATEFUL_SET, Workload),
        }
        return cls(pods, views)

    def follow(self, pods: PodIndex) -> None:
        """Goes by other pods from now on."""
        self._pods = pods

    def add_set(self, replica_set: ReplicaSet) -> None:
        """A ReplicaSet is there."""
        owner = _deployment(replica_set)
        if owner is not None:
            self._sets.setdefault(owner.uid, set()).add(replica_set.metadata.uid)

    def remove_set(self, replica_set: ReplicaSet) -> None:
        """A ReplicaSet is gone."""
        owner = _deployment(replica_set)
        if owner is not None:
            left = self._sets.get(owner.uid, set())
            left.discard(replica_set.metadata.uid)
            if not left:
                self._sets.pop(owner.uid, None)

    def deployment_of(self, pod: Pod) -> Deployment | None:
        """The Deployment of a pod, where it has one."""
        owner = controller(pod)
        if (
            owner is None
            or ("apps", owner.kind) != _REPLICA_SET
            or (_REPLICA_SET not in self._views)
        ):
            return None
        namespace = pod.metadata.namespace
        replica_set = self._find("apps", owner, namespace)
        reference = _deployment(replica_set) if replica_set is not None else None
        found = self._find("apps", reference, namespace) if reference is not None else None
        return found if isinstance(found, Deployment) else None

    def pods_of(self, deployment: str) -> list[Pod]:
        """The pods of a Deployment that have not ended and are not being deleted, oldest first.

        Args:
            deployment: uid.
        """
        pods = [
            pod
            for uid in sorted(self._sets.get(deployment, ()))
            for pod in self._pods.controlled_by(uid).values()
            if is_active(pod)
        ]
        return sorted(pods, key=lambda pod: (str(pod.metadata.creation_timestamp), pod.title))

    def of(self, pod: Pod) -> WorkloadState | None:
        """The workload of a pod; None where it has no controller."""
        owner = controller(pod)
        if owner is None:
            return None
        title = f"{owner.kind} {pod.metadata.namespace}/{owner.name}"
        group = owner.api_version.rpartition("/")[0]
        if (group, owner.kind) not in self._views:
            # koord reads no scale subresource: those that are there are as many as are wanted.
            living = sum(is_active(each) for each in self._pods.controlled_by(owner.uid).values())
            return WorkloadState(title, living, (owner.uid,))
        found = self._find(group, owner, pod.metadata.namespace)
        if found is None:
            return WorkloadState(title, 0, ())
        deployment = _deployment(found) if owner.kind == "ReplicaSet" else None
        if deployment is not None:
            whole = self._find("apps", deployment, pod.metadata.namespace)
            if whole is not None:
                sets = self._sets.get(deployment.uid, set()) | {owner.uid}
                title = f"{deployment.kind} {pod.metadata.namespace}/{deployment.name}"
                return WorkloadState(title, _replicas(whole), tuple(sorted(sets)))
            return WorkloadState(title, 0, ())
        return WorkloadState(title, _replicas(found), (owner.uid,))

    def unavailable(self, workload: WorkloadState) -> set[str]:
        """Keys of the workload's pods that ended, are being deleted or are not Ready."""
        return {key for uid in workload.controllers for key in self._pods.unavailable(uid)}

    def _find(self, group: str, owner: OwnerReference, namespace: str) -> Object | None:
        found: Object | None = self._views[group, owner.kind].get(f"{namespace}/{owner.name}")
        return found if found is not None and found.metadata.uid == owner.uid else None


def _deployment(replica_set: Object) -> OwnerReference | None:
    for owner in replica_set.metadata.owner_references:
        if owner.controller and owner.kind == "Deployment":
            return owner
    return None


def _replicas(workload: Any) -> int:
    number = workload.spec.replicas
    return 1 if number is None else int(number)
