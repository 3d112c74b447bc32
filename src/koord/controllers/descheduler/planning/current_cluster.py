# SPDX-License-Identifier: Apache-2.0
"""The cluster as it goes on while plans are made and carried out: pods, budgets, migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from koord.api.protocol import keys
from koord.controllers.descheduler.migration.arbitration.job_index import is_open

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from koord.api.kinds.migration import PodMigrationJob
    from koord.api.kinds.pod import Pod
    from koord.api.kinds.workloads import PodDisruptionBudget
    from koord.controllers.cluster.views import View
    from koord.controllers.descheduler.informer_snapshot import InformerSnapshot


class MoveUnderWay(NamedTuple):
    """A pod that a PodMigrationJob moves and that is still on its node.

    Attributes:
        target: where it goes; empty while that is open.
        is_placed: whether the place is held by a reservation already.
    """

    pod: Pod
    target: str
    is_placed: bool


class CurrentCluster:
    """What informers know now.

    Args:
        snapshots: pods and budgets.
        jobs: all PodMigrationJobs; None where nothing moves by them.
    """

    def __init__(self, snapshots: InformerSnapshot, jobs: View[PodMigrationJob] | None) -> None:
        self._snapshots = snapshots
        # Open jobs by namespace and name of their pods, and by their own names.
        self._open: dict[str, dict[str, dict[str, PodMigrationJob]]] = {}
        self._pod_of: dict[str, tuple[str, str]] = {}
        if jobs is not None:
            jobs.on_change(
                self._put, lambda old, new: self._put(new), lambda last, missed: self._drop(last)
            )

    def pod(self, pod: Pod) -> Pod | None:
        """The same pod as it is now; None where it has gone, whoever has its name."""
        found = self._snapshots.pod(pod.metadata.namespace, pod.metadata.name)
        return found if found is not None and found.metadata.uid == pod.metadata.uid else None

    def budgets(self) -> Sequence[PodDisruptionBudget]:
        """All PodDisruptionBudgets."""
        return self._snapshots.budgets()

    def under_way(self, namespace: str | None = None) -> Iterator[MoveUnderWay]:
        """By the names of their jobs, each pod once.

        Args:
            namespace: of pods; None for all.
        """
        some = self._open.values() if namespace is None else [self._open.get(namespace, {})]
        chosen = [job for pods in some for jobs in pods.values() for job in jobs.values()]
        seen = set[str]()
        for job in sorted(chosen, key=lambda job: job.metadata.name):
            move = self._move_of(job)
            if move is not None and move.pod.metadata.uid not in seen:
                seen.add(move.pod.metadata.uid)
                yield move

    def is_placed(self, pod: Pod) -> bool:
        """Whether a reservation holds the place that a pod goes to already."""
        jobs = self._open.get(pod.metadata.namespace, {}).get(pod.metadata.name, {})
        for _, job in sorted(jobs.items()):
            move = self._move_of(job)
            if move is not None:
                return move.is_placed and move.pod.metadata.uid == pod.metadata.uid
        return False

    def _move_of(self, job: PodMigrationJob) -> MoveUnderWay | None:
        ref = job.spec.pod_ref
        pod = None if ref is None else self._snapshots.pod(ref.namespace, ref.name)
        if ref is None or pod is None or (ref.uid and pod.metadata.uid != ref.uid):
            return None
        planned = job.metadata.annotations.get(keys.PLANNED_NODE, "")
        placed = job.status.node_name
        return MoveUnderWay(pod, placed or planned, bool(placed)) if pod.spec.node_name else None

    def _put(self, job: PodMigrationJob) -> None:
        self._drop(job)
        ref = job.spec.pod_ref
        if is_open(job) and ref is not None:
            name = job.metadata.name
            self._pod_of[name] = ref.namespace, ref.name
            self._open.setdefault(ref.namespace, {}).setdefault(ref.name, {})[name] = job

    def _drop(self, job: PodMigrationJob) -> None:
        name = job.metadata.name
        namespace, pod = self._pod_of.pop(name, ("", ""))
        pods = self._open.get(namespace, {})
        if pods.get(pod, {}).pop(name, None) is None:
            return
        if not pods[pod]:
            del pods[pod]
        if not pods:
            del self._open[namespace]
