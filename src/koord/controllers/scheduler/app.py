# SPDX-License-Identifier: Apache-2.0
"""koord-scheduler on a cluster: informers, leader election, the loop and what runs beside it.

Everything is rebuilt from the API at a start; nothing is kept on disk. Informers, queue, accounts
follow the cluster whether or not this process leads; only the leader decides and writes.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base import log
from koord.base.memory import garbage_collection
from koord.base.supervision import Supervisor
from koord.controllers.cluster.trimmed_nodes import TrimmedNode
from koord.controllers.cluster.trimmed_pods import TrimmedPod
from koord.controllers.cluster.views import InformerViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.consistency import checker
from koord.controllers.scheduler.consistency.informer_check import ACCOUNT, InformerCheck
from koord.controllers.scheduler.debug.flags import DebugFlags
from koord.controllers.scheduler.explain.attempt_history import AttemptHistory
from koord.controllers.scheduler.explain.pod_explainer import PodExplainer
from koord.controllers.scheduler.invalid.node_labels import NodeLabelValidator
from koord.controllers.scheduler.invalid.pod_labels import PodLabelValidator
from koord.controllers.scheduler.metrics import SchedulerMetrics
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.kube.daemon.missing_kinds import log_missing_kinds
from koord.kube.informers.reflector import InformerMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from koord.base.clock import Clock
    from koord.base.feature_gates import FeatureGates
    from koord.controllers.scheduler.config.load import SchedulerConfiguration
    from koord.kube.client import Client
    from koord.kube.election import LeaderElector
    from koord.kube.events import EventRecorder

_ASIDE_SECONDS = 0.2
_LOG = log.get("scheduler")
_QUOTA = "ElasticQuota.scheduling.sigs.k8s.io"
# The guide's quota is missed by nobody who has not asked for it.
_WITHOUT = {
    "ClusterNetworkTopology": "jobs are not kept together on the network",
    "Device": "pods that ask for GPU shares find no node",
    "NodeMetric": "nodes are not judged by their use",
    "NodeResourceTopology": "pods that ask for CPUs of their own find no node",
    "PodGroup": "jobs are known by annotations alone",
    "Reservation": "nothing is reserved",
    _QUOTA: "only the built-in quotas hold",
}
"""What is not done without a kind, by its informer's name."""


class App:
    """One scheduler process, or the part of one.

    Args:
        client: the way to the API server.
        configuration: profiles and times.
        clock: the time.
        recorder: writes events; run by the caller.
        gates: feature gates.
        elector: where several run; None leads at once.
        metrics: counts and times.
        registry: where plugins are found.
        seed: of when the caches are compared with the API.
        supervisor: of the program's parts; None for the scheduler's own.

    Attributes:
        supervisor: keeps each loop going, whatever another fails of.
    """

    def __init__(
        self,
        client: Client,
        configuration: SchedulerConfiguration,
        clock: Clock,
        recorder: EventRecorder | None = None,
        gates: FeatureGates | None = None,
        elector: LeaderElector | None = None,
        metrics: SchedulerMetrics | None = None,
        registry: Registry | None = None,
        seed: int = 0,
        supervisor: Supervisor | None = None,
    ) -> None:
        self.metrics = metrics or SchedulerMetrics()
        self.supervisor = supervisor or supervise(self.metrics, clock)
        # Bindings wait for the pods and nodes that its watches bring.
        client.prompt = True
        self.views = InformerViews(
            client,
            InformerMetrics(self.metrics.registry),
            {
                Pod: {"project": TrimmedPod},
                # Nearly all that kubelets write are heartbeats.
                Node: {"project": TrimmedNode, "skip_unread": True},
            },
            self.supervisor,
        )
        profiles = [each.scheduler_name for each in configuration.profiles]
        write_event: Any = _event_writer(recorder, profiles) if recorder is not None else None
        name = profiles[0]
        self.world = ClusterState(
            self.views, clock, client, write_event, gates, name, supervisor=self.supervisor
        )
        self.switches = DebugFlags()
        self.history = AttemptHistory(self.world.table, clock)
        self.scheduler = Scheduler(
            self.world,
            configuration.profiles,
            registry or Registry(),
            configuration.queue,
            self.metrics,
            (self.history.observe, self.switches.observe),
        )
        if recorder is not None:
            recorder.yield_to(lambda: self.scheduler.loop.binder.writing > 0)
        self.spot_check = InformerCheck(
            client, self.views, lambda names: checker.report(self.scheduler, ACCOUNT, names), seed
        )
        PodLabelValidator(self.world, self.world.invalid, profiles)
        NodeLabelValidator(self.world, self.world.invalid)
        self.explainer = PodExplainer(self.scheduler, self.history)
        self._elector = elector
        if elector is not None:
            client.fence(elector.check)
            elector.occupied_by = self.scheduler.loop.occupied_by
        self._ready = asyncio.Event()

    @property
    def leading(self) -> bool:
        """Whether this process decides."""
        return self._elector is None or self._elector.leading

    async def ready(self) -> None:
        """Waits until all objects are known."""
        await self._ready.wait()

    async def drift(self) -> dict[str, list[str]]:
        """Where accounts differ from the caches now, and where these differed from the API."""
        return {**await checker.look(self.scheduler), ACCOUNT: self.spot_check.differing()}

    async def run(self) -> None:
        """Schedules until cancelled, or until the lead is lost.

        Raises:
            LeadLostError: another process may lead; this one must begin anew.
        """
        async with asyncio.TaskGroup() as tasks:
            informers, aside = (
                tasks.create_task(self.supervisor.keep(name, run), name=name)
                for name, run in (("informers", self.views.run), ("memory of lists", _set_aside))
            )
            with garbage_collection.collection_paused():
                await self.views.synced()
            aside.cancel()
            await log_missing_kinds(_LOG, self.views.informers(), _WITHOUT)
            self._ready.set()
            if self._elector is None:
                await self._work()
            else:
                await self._elector.lead(self._work)
            informers.cancel()

    async def _work(self) -> None:
        loops: list[tuple[str, Callable[[], Awaitable[object]]]] = [
            *(each for plugin in self.scheduler.plugins for each in plugin.controllers()),
            ("invalid objects", self.world.invalid.run),
            ("consistency checker", lambda: checker.run(self.scheduler)),
            ("spot check", self.spot_check.run),
            ("scheduling loop", self.scheduler.loop.run),
        ]
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, run in loops:
                    tasks.create_task(self.supervisor.keep(name, run), name=name)
        finally:
            await self.scheduler.loop.close()


def supervise(metrics: SchedulerMetrics, clock: Clock) -> Supervisor:
    """A scheduler's supervisor."""
    return Supervisor("scheduler", metrics.registry, clock)


async def _set_aside() -> None:
    """Keeps garbage from piling up while first lists come, until cancelled."""
    while True:
        await asyncio.sleep(_ASIDE_SECONDS)
        garbage_collection.freeze_new_objects()


def _event_writer(recorder: EventRecorder, profiles: Collection[str]) -> Callable[..., None]:
    """Writes events in the name of the profile that a pod belongs to."""

    def write_event(about: Any, kind: Any, reason: str, message: str) -> None:
        name = about.spec.scheduler_name if isinstance(about, Pod) else ""
        component = name if name in profiles else ""
        recorder.event(about, kind, reason, message, component=component)

    return write_event
