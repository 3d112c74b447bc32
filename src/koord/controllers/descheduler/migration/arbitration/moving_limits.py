# SPDX-License-Identifier: Apache-2.0
"""How many pods may move at a time: checks that time mends, and the expected replicas.

Rule: docs/reference/migration.md#limits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from koord.api.kinds.migration import RESERVATION_FIRST
from koord.controllers.cluster.pods import controller
from koord.controllers.descheduler.migration.arbitration.job_index import WHOLE
from koord.controllers.descheduler.migration.arbitration.pod_index import pod_key
from koord.controllers.descheduler.migration.arbitration.refusal import MoveRefusal
from koord.controllers.descheduler.migration.arbitration.workload_limits import workload_limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.migration.arbitration.job_index import (
        JobIndex,
        MovingCounts,
    )
    from koord.controllers.descheduler.migration.arbitration.workloads import (
        Workloads,
        WorkloadState,
    )
    from koord.controllers.descheduler.migration.course.surges import Surges
    from koord.controllers.descheduler.migration.migration_args import MigrationControllerArgs


class MovingLimits:
    """Counts of jobs against the limits.

    Args:
        args: of the plugin.
        jobs: that there are.
        workloads: of pods.
        surges: of Deployments; None where nothing is surged.
    """

    def __init__(
        self,
        args: MigrationControllerArgs,
        jobs: JobIndex,
        workloads: Workloads,
        surges: Surges | None = None,
    ) -> None:
        self._args = args
        self._jobs = jobs
        self._workloads = workloads
        self._surges = surges

    def is_surged(self, pod: Pod) -> bool:
        """Whether another pod takes its place before the pod goes, as its Deployment asks."""
        first = self._args.default_job_mode == RESERVATION_FIRST
        return first and self._surges is not None and self._surges.wants_surge(pod)

    def replicas_refusal(self, pod: Pod) -> MoveRefusal | None:
        """Whether the pod's workload is too small to lose a pod."""
        if self._surges is not None and self.is_surged(pod):
            why = self._surges.refusal(pod)
            return MoveRefusal("SurgeRefused", why) if why else None
        workload = self._workloads.of(pod)
        args = self._args
        if workload is None or args.skip_check_expected_replicas or args.skips("ExpectedReplicas"):
            return None
        wanted = workload.replicas
        moving = workload_limit(wanted, args.max_migrating_per_workload)
        unavailable = workload_limit(wanted, args.max_unavailable_per_workload)
        if wanted not in (1, moving, unavailable):
            return None
        text = f"{workload.title} wants {wanted} replicas; {moving} may move at a time, "
        text += f"{unavailable} may be unavailable: all of it would be"
        return MoveRefusal("ExpectedReplicas", text)

    def refusal(self, pod: Pod, arbitrating: bool) -> MoveRefusal | None:
        """Which limit one more move would exceed; None for none.

        Args:
            pod: whose own jobs do not count.
            arbitrating: whether jobs that wait count as nothing.
        """
        counts = self._jobs.moving if arbitrating else self._jobs.open
        return next(self._exceeded(pod, counts), None)

    def _exceeded(self, pod: Pod, counts: MovingCounts) -> Iterator[MoveRefusal]:
        args, key = self._args, pod_key(pod)
        node, namespace = pod.spec.node_name, pod.metadata.namespace
        for gate, limit, index, under, where in (
            ("MaxMigratingGlobally", args.max_migrating_globally, counts.namespaces, WHOLE,
             "the cluster"),
            ("MaxMigratingPerNode", args.max_migrating_per_node if node else None, counts.nodes,
             node, f"node {node}"),
            ("MaxMigratingPerNamespace", args.max_migrating_per_namespace, counts.namespaces,
             namespace, f"namespace {namespace}"),
        ):  # fmt: skip
            if not limit or args.skips(gate):
                continue
            others = counts.others(index, under, key)
            # Of a node pods are counted, elsewhere jobs.
            number = len(others) if index is counts.nodes else others.total()
            if number >= limit:
                yield MoveRefusal(gate, f"{number} pods of {where} are moving, {limit} may")
        workload = self._workloads.of(pod)
        if workload is not None:
            yield from self._of_workload(pod, key, counts, workload)

    def _of_workload(
        self, pod: Pod, key: str, counts: MovingCounts, workload: WorkloadState
    ) -> Iterator[MoveRefusal]:
        args, owner = self._args, controller(pod)
        assert owner is not None
        moving = counts.others(counts.workloads, owner.uid, key)
        limit = workload_limit(workload.replicas, args.max_migrating_per_workload)
        gate = "MaxMigratingPerWorkload"
        if not args.skips(gate) and moving and len(moving) >= limit:
            yield MoveRefusal(
                gate, f"{len(moving)} pods of {workload.title} are moving, {limit} may"
            )
        gate = "MaxUnavailablePerWorkload"
        if args.skips(gate):
            return
        limit = workload_limit(workload.replicas, args.max_unavailable_per_workload)
        number = len(self._workloads.unavailable(workload).union(moving))
        if number >= limit:
            text = f"{number} pods of {workload.title} are unavailable or moving, {limit} may be"
            yield MoveRefusal(gate, text)
