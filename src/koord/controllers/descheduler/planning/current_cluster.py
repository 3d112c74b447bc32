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
        self._snapshots, self._jobs = snapshots, jobs

    def pod(self, pod: Pod) -> Pod | None:
        """The same pod as it is now; None where it has gone, whoever has its name."""
        found = self._snapshots.pod(pod.metadata.namespace, pod.metadata.name)
        return found if found is not None and found.metadata.uid == pod.metadata.uid else None

    def budgets(self) -> Sequence[PodDisruptionBudget]:
        """All PodDisruptionBudgets."""
        return self._snapshots.budgets()

    def under_way(self) -> Iterator[MoveUnderWay]:
        """By the names of their jobs, each pod once."""
        jobs = [] if self._jobs is None else [job for _, job in self._jobs.items() if is_open(job)]
        seen = set[str]()
        for job in sorted(jobs, key=lambda job: job.metadata.name):
            ref = job.spec.pod_ref
            pod = None if ref is None else self._snapshots.pod(ref.namespace, ref.name)
            if ref is None or pod is None or (ref.uid and pod.metadata.uid != ref.uid):
                continue
            if pod.spec.node_name and pod.metadata.uid not in seen:
                seen.add(pod.metadata.uid)
                planned = job.metadata.annotations.get(keys.PLANNED_NODE, "")
                placed = job.status.node_name
                yield MoveUnderWay(pod, placed or planned, bool(placed))
