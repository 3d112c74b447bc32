# SPDX-License-Identifier: Apache-2.0
"""PodGroups' phases and counts, written by the leader.

Rule: docs/reference/gangs.md#podgroup-phases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from koord.api.kinds.quota import PodGroup
from koord.api.timestamps import seconds_text
from koord.base import faults
from koord.base.supervision import Supervisor
from koord.controllers.scheduler.plugins.coscheduling.objects import gang_declaration as decl
from koord.controllers.scheduler.plugins.coscheduling.state.gangs import MemberState
from koord.kube.controller import Controller
from koord.kube.errors import ApiError
from koord.kube.patches import Patch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from koord.api.kinds.pod import Pod
    from koord.api.kinds.quota import PodGroupStatus
    from koord.base.clock import Clock
    from koord.controllers.cluster.views import View
    from koord.controllers.scheduler.plugins.coscheduling.state.gang_cache import GangCache
    from koord.kube.client import Client

PENDING, PRE_SCHEDULING, SCHEDULING = "Pending", "PreScheduling", "Scheduling"
SCHEDULED, RUNNING, FINISHED, FAILED = "Scheduled", "Running", "Finished", "Failed"
_NOT_FOUND = 404
_COLLECTED_SECONDS = 48 * 3600.0


def settled(pod_group: PodGroup) -> bool:
    """Whether nothing more is to be written: it has ended, or its pods may be gone by now."""
    status = pod_group.status
    if status.phase in (FINISHED, FAILED):
        return True
    created = pod_group.metadata.creation_timestamp
    if status.scheduled != pod_group.spec.min_member or status.running or created is None:
        return False
    # Without a start it is taken for one long before the creation.
    start = status.schedule_start_time
    return start is not None and (start - created).total_seconds() > _COLLECTED_SECONDS


def change(
    pod_group: PodGroup, pods: Sequence[Pod], scheduled: int, now_seconds: float
) -> dict[str, Any]:
    """What is to be written into the status, by wire name; empty for nothing.

    Args:
        pod_group: as it is.
        pods: its pods as they are.
        scheduled: how many of them are bound.
        now_seconds: wall time.
    """
    status, least = pod_group.status, pod_group.spec.min_member
    if not status.phase:
        return {"phase": PENDING}
    if status.phase == PENDING:
        if not 0 < least <= len(pods):
            return {}
        owners = _owners(pods)
        return {"phase": PRE_SCHEDULING, **({"occupiedBy": owners} if owners else {})}
    if not pods:
        return {"phase": PENDING}
    return _counted(status, least, pods, scheduled, now_seconds)


def _counted(
    status: PodGroupStatus, least: int, pods: Sequence[Pod], scheduled: int, now_seconds: float
) -> dict[str, Any]:
    phases = [pod.status.phase for pod in pods]
    failed, running = phases.count("Failed"), phases.count("Running")
    succeeded = phases.count("Succeeded")
    wanted: dict[str, Any] = {
        "failed": failed, "running": running, "succeeded": succeeded, "scheduled": scheduled,
    }  # fmt: skip
    phase = SCHEDULING if scheduled < least else SCHEDULED
    if phase == SCHEDULED and succeeded + running >= least:
        phase = RUNNING
    if failed and failed + running + succeeded >= least:
        phase = FAILED
    if succeeded >= least:
        phase = FINISHED
    wanted["phase"] = phase
    found = {name: value for name, value in wanted.items() if getattr(status, name) != value}
    if scheduled < least and status.schedule_start_time is None:
        found["scheduleStartTime"] = seconds_text(now_seconds)
    return found


def _owners(pods: Sequence[Pod]) -> str:
    """The owners of the first pod by name, sorted."""
    pod = min(pods, key=lambda pod: pod.metadata.name)
    namespace = pod.metadata.namespace
    return ",".join(sorted(f"{namespace}/{owner.name}" for owner in pod.metadata.owner_references))


class PodGroupController:
    """Brings PodGroups' status up to date.

    Args:
        gangs: which pods belong to which.
        pod_groups: all of them.
        pods: all pods, as they are.
        client: writes.
        clock: the time.
        workers: PodGroups worked on at a time.
        supervisor: keeps the workers going.
    """

    def __init__(
        self,
        gangs: GangCache,
        pod_groups: View[PodGroup],
        pods: View[Pod],
        client: Client,
        clock: Clock,
        workers: int = 1,
        supervisor: Supervisor | None = None,
    ) -> None:
        self._supervisor = supervisor or Supervisor("scheduler", clock=clock)
        self._gangs = gangs
        self._pod_groups = pod_groups
        self._pods = pods
        self._client = client
        self._clock = clock
        self._workers = workers
        self._controller: Controller[str] | None = None
        pod_groups.on_change(self._seen, lambda _, new: self._seen(new))
        pods.on_change(self._pod_seen, lambda _, new: self._pod_seen(new))

    async def run(self) -> None:
        """Works until cancelled; may be run again."""
        self._controller = Controller(
            "podgroup", self.reconcile, workers=self._workers, supervisor=self._supervisor
        )
        try:
            for key, pod_group in list(self._pod_groups.items()):
                if not settled(pod_group):
                    self._controller.queue.add(key)
            await self._controller.run()
        finally:
            self._controller = None

    async def reconcile(self, key: str) -> None:
        """Writes what one PodGroup's status lacks."""
        pod_group = self._pod_groups.get(key)
        if pod_group is None:
            return
        gang = self._gangs.gangs.get(key)
        members = gang.members.values() if gang is not None else ()
        pods = [self._pods.get(member.key) or member.pod for member in members]
        bound = gang.count(MemberState.BOUND) if gang is not None else 0
        status = change(pod_group, pods, bound, self._clock.wall_seconds())
        if not status:
            return
        faults.point("scheduler.podgroup")
        meta = pod_group.metadata
        patch = Patch.merge({"metadata": {"uid": meta.uid}, "status": status})
        try:
            await self._client.patch(PodGroup, meta.name, patch, meta.namespace)
        except ApiError as error:
            if error.http_status != _NOT_FOUND:
                raise

    def _seen(self, pod_group: PodGroup) -> None:
        if self._controller is not None and not settled(pod_group):
            meta = pod_group.metadata
            self._controller.queue.add(f"{meta.namespace}/{meta.name}")

    def _pod_seen(self, pod: Pod) -> None:
        key = decl.gang_id(pod)
        pod_group = self._pod_groups.get(key) if key and self._controller is not None else None
        if pod_group is not None:
            self._seen(pod_group)
