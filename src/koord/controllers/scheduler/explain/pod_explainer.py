# SPDX-License-Identifier: Apache-2.0
"""Finds a pod wherever the scheduler has it, and explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.base.errors import KoordError
from koord.controllers.cluster.pods import OUTPUTS, PodInfo
from koord.controllers.scheduler.cycles import slow_attempts
from koord.controllers.scheduler.explain import absent_resources, gang_forecast
from koord.controllers.scheduler.explain.explanation import PodExplanation
from koord.controllers.scheduler.explain.object_explainer import ObjectExplainer
from koord.controllers.scheduler.explain.pod_summaries import PodSummaries
from koord.controllers.scheduler.explain.what_if import explain
from koord.controllers.scheduler.queue import pod_size

if TYPE_CHECKING:
    from koord.controllers.scheduler.explain.attempt_history import AttemptHistory
    from koord.controllers.scheduler.scheduler import Scheduler


class PodExplainer:
    """Explains pods of one scheduler.

    Args:
        scheduler: whose.
        history: an observer of its loop.

    Attributes:
        objects: explains what is no pod.
    """

    def __init__(self, scheduler: Scheduler, history: AttemptHistory) -> None:
        self._scheduler = scheduler
        self._history = history
        self._lines = PodSummaries(scheduler, history)
        self.objects = ObjectExplainer(scheduler, history)

    def pod(self, namespace: str, name: str) -> PodExplanation:
        """Everything about one pod, as of now.

        Raises:
            KeyError: there is no such pod.
            KoordError: it is not for this scheduler.
        """
        scheduler, title = self._scheduler, f"Pod {namespace}/{name}"
        found = scheduler.world.view(Pod).get(f"{namespace}/{name}")
        if found is None:
            raise KeyError(f"cannot find pod {namespace}/{name}")
        profile = found.spec.scheduler_name
        decider = scheduler.deciders.get(profile)
        if decider is None:
            served = ", ".join(sorted(scheduler.deciders))
            raise KoordError(title, "spec.schedulerName", profile, f"one of {served}")
        uid = found.metadata.uid
        info = scheduler.world.accounts.get(uid)
        state = self._lines.state(uid, info)
        info = self._lines.info(found)
        # A twin, so that what the attempt chooses never touches what the pod has.
        asks = scheduler.world.shapes.info(as_it_came(found)) if info.row >= 0 else info
        twin = PodInfo(asks.pod, asks.shape)
        into = PodExplanation(f"{namespace}/{name}", state, self._history.since)
        into.node = scheduler.world.table.name(info.row) if info.row >= 0 else ""
        into.last = self._history.last(uid)
        into.notes = absent_resources.notes(twin.pod, twin.shape, scheduler.world.table)
        into.notes += self._costs(info)
        quotas = self._lines.plugin("ElasticQuota")
        into.notes += absent_resources.named_objects(
            twin.pod, quotas and quotas.groups, scheduler.world.view(Reservation)
        )
        planner = scheduler.planners.get(profile)
        if planner is None or not planner.concerns(info):
            return explain(decider, info, twin, into, scheduler.world.shapes)
        into.gang = gang_forecast.look(planner, info, decider)
        # Others of the gang that hold nodes keep them, whatever is tried here.
        with planner.quiet():
            explain(decider, info, twin, into, scheduler.world.shapes)
            if info.row < 0 and not into.gang.goes:
                shapes = scheduler.world.shapes
                into.changes += gang_forecast.lower(planner, info, decider, shapes, into.gang)
        return into

    def _costs(self, info: PodInfo) -> list[str]:
        """Why a pod waits longer than others: it is large, or its attempts take long."""
        found = []
        size = pod_size.size_of(info)
        if size > pod_size.OVERSIZED_VALUES:
            parts = sorted(pod_size.values_of(info.pod).items(), key=lambda part: -part[1])[:3]
            most = ", ".join(f"{name} {count}" for name, count in parts)
            limit = pod_size.OVERSIZED_VALUES
            found.append(f"its {size} values ({most}) are over {limit}: tried after other pods")
        queued = self._scheduler.queue.get(info.uid)
        if queued is not None and queued.slow is not None:
            left = queued.slow.until - self._scheduler.world.clock.monotonic_seconds()
            waits = f" The next follows in {left:.0f} s at the earliest." if left > 0 else ""
            found.append(f"{slow_attempts.message(queued.slow)}{waits}")
        return found


def as_it_came(pod: Pod) -> Pod:
    """A bound pod without what a scheduler or its node wrote on it, as it would be decided anew."""
    kept = {k: v for k, v in pod.metadata.annotations.items() if k not in OUTPUTS}
    metadata = replace(pod.metadata, annotations=kept)
    status = replace(pod.status, container_statuses=[], init_container_statuses=[])
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=status)
