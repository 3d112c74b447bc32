# SPDX-License-Identifier: Apache-2.0
"""Finds a pod wherever the scheduler has it, and explains it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation
from koord.base.errors import KoordError
from koord.controllers.cluster.pods import OUTPUTS, PodInfo
from koord.controllers.scheduler.explain import absent_resources, gang_forecast
from koord.controllers.scheduler.explain.explanation import PodExplanation
from koord.controllers.scheduler.explain.object_explainer import ObjectExplainer
from koord.controllers.scheduler.explain.pod_summaries import PodSummaries
from koord.controllers.scheduler.explain.what_if import explain

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


def as_it_came(pod: Pod) -> Pod:
    """A bound pod without what a scheduler or its node wrote on it, as it would be decided anew."""
    kept = {k: v for k, v in pod.metadata.annotations.items() if k not in OUTPUTS}
    metadata = replace(pod.metadata, annotations=kept)
    status = replace(pod.status, container_statuses=[], init_container_statuses=[])
    return replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=""), status=status)
