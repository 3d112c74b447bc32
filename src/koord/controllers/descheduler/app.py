# SPDX-License-Identifier: Apache-2.0
"""koord-descheduler on a cluster: informers, leader election, rounds, and plugins that are
controllers.

Everything is rebuilt from the API at a start; nothing is kept on disk. Informers follow the cluster
whether or not this process leads; only the leader judges and acts.
Rules: docs/reference/descheduling.md#a-cycle, docs/reference/descheduling.md#framework.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from koord.api.kinds.migration import PodMigrationJob
from koord.api.kinds.pod import Pod
from koord.base import log
from koord.base.supervision import Supervisor
from koord.controllers.cluster.views import InformerViews
from koord.controllers.descheduler.config.load import selects_node
from koord.controllers.descheduler.explanation import MoveExplainer
from koord.controllers.descheduler.framework.cluster_access import ClusterAccess
from koord.controllers.descheduler.framework.pod_evictions import PodEvictions
from koord.controllers.descheduler.framework.round import Descheduling, idle_reason
from koord.controllers.descheduler.informer_snapshot import InformerSnapshot
from koord.controllers.descheduler.metrics import DeschedulerMetrics
from koord.controllers.descheduler.planning.program_rounds import has_strategies, planned_rounds
from koord.controllers.descheduler.pod_projection import DeschedulerPod
from koord.controllers.descheduler.round_history import RoundHistory
from koord.controllers.descheduler.round_report import report
from koord.kube.daemon.leading import work_while_leading
from koord.kube.informers.reflector import InformerMetrics

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from koord.base.clock import Clock
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.planning.plan import RoundPlan
    from koord.controllers.descheduler.planning.planner import PlannedRounds
    from koord.controllers.descheduler.planning.program_rounds import SchedulerLibrary
    from koord.controllers.descheduler.round_history import PastRound
    from koord.kube.client import Client
    from koord.kube.election import LeaderElector
    from koord.kube.events import EventRecorder

NAME = "koord-descheduler"
_LOG = log.get("descheduler")
_WITHOUT = {
    "NodeMetric": "nodes are not judged by their use",
    "NodeSLO": "batch pods that starve are not found",
    "PodMigrationJob": "no pod is migrated",
    "Reservation": "no place is reserved for a pod that is to move",
}
"""What is not done without a kind, by its informer's name."""
KEPT: dict[type, dict[str, Any]] = {Pod: {"project": DeschedulerPod}}
"""What its informers keep of objects, where that is not all."""


class DeschedulerApp:
    """One descheduler process, or the part of one.

    Args:
        client: the way to the API server.
        configuration: profiles, limits and times; checked.
        clock: the time.
        recorder: writes events; run by the caller.
        elector: where several run; None leads at once.
        metrics: counts and times.
        supervisor: of the program's parts; None for the descheduler's own.
        library: the scheduler's, by which rounds are planned; None for rounds one by one.

    Attributes:
        supervisor: keeps each part going, whatever another fails of.
        history: the last rounds.
        explainer: says what became of a pod or a node in them.

    Raises:
        KoordError: a plugin refuses its arguments.
    """

    def __init__(
        self,
        client: Client,
        configuration: DeschedulerConfiguration,
        clock: Clock,
        recorder: EventRecorder,
        elector: LeaderElector | None = None,
        metrics: DeschedulerMetrics | None = None,
        supervisor: Supervisor | None = None,
        library: SchedulerLibrary | None = None,
    ) -> None:
        self.configuration = configuration
        self.metrics = metrics or DeschedulerMetrics()
        self.supervisor = supervisor or supervise(self.metrics, clock)
        informers = InformerMetrics(self.metrics.registry)
        self.views = InformerViews(client, informers, KEPT, self.supervisor)
        self._snapshots = InformerSnapshot(self.views, partial(selects_node, configuration))
        self._clock, self._recorder = clock, recorder
        write_event: Any = recorder.event
        dry_run = configuration.dry_run or client.dry_run is not None
        self._descheduling = Descheduling(
            configuration,
            PodEvictions(
                client,
                write_event,
                configuration.grace_period_seconds,
                configuration.events_of_failures,
            ),
            clock,
            self.supervisor,
            self._access(client, recorder, dry_run),
        )
        self.history = RoundHistory(dry_run)
        migrates = PodMigrationJob in self.views.kinds()
        jobs = self.views.view(PodMigrationJob) if migrates else None
        self._planned: PlannedRounds | None = None
        if library is not None and has_strategies(configuration):
            self._planned = planned_rounds(
                self._descheduling, configuration, library, self.views, self._snapshots, jobs,
                clock, self.supervisor, dry_run=dry_run,
            )  # fmt: skip
        self.explainer = MoveExplainer(
            configuration,
            self._descheduling.profiles,
            self._snapshots,
            self.history,
            jobs,
        )
        self._elector = elector
        if elector is not None:
            client.fence(elector.check)
        self._ready = asyncio.Event()

    def _access(self, client: Client, recorder: EventRecorder, dry_run: bool) -> ClusterAccess:
        """What plugins that are controllers get."""
        return ClusterAccess(
            client,
            self.views,
            self.supervisor,
            recorder,
            dry_run,
            arbitrated=self.metrics.arbitrated,
            without_claims=self.configuration.without_claims,
        )

    @property
    def leading(self) -> bool:
        """Whether this process acts."""
        return self._elector is None or self._elector.leading

    @property
    def plan(self) -> RoundPlan | None:
        """The last round's plan; None where rounds are not planned."""
        return None if self._planned is None else self._planned.last

    def healthy(self) -> bool:
        """False for a leader that could not renew its Lease for long and has not stopped."""
        return self._elector is None or self._elector.healthy()

    async def ready(self) -> None:
        """Waits until all objects are known."""
        await self._ready.wait()

    async def run(self) -> None:
        """Works until cancelled, or until the lead is lost.

        With an interval of 0 it ends after one round, unless a plugin is a controller.

        Raises:
            LeadLostError: another process may lead; this one must begin anew.
        """
        await work_while_leading(
            self.views, self._elector, self._work, self.supervisor, self._ready, _LOG, _WITHOUT
        )

    async def _work(self) -> None:
        self.metrics.leads(True)
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, run in [*self._controllers(), ("rounds", self._rounds)]:
                    tasks.create_task(self.supervisor.keep(name, run), name=name)
        finally:
            self.metrics.leads(False)

    def _controllers(self) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
        """Plugins that act on events, too."""
        for profile in self._descheduling.profiles:
            for name, plugin in profile.plugins.items():
                run = getattr(plugin, "run", None)
                if run is not None:
                    yield f"{profile.configuration.name}/{name} controller", run

    async def _rounds(self) -> None:
        """A round an interval after the beginning of the one before; at once after a late one."""
        interval = self.configuration.interval_seconds
        while True:
            began = self._clock.monotonic_seconds()
            await self.round()
            if not interval:
                return
            took = self._clock.monotonic_seconds() - began
            await asyncio.sleep(max(0.0, interval - took))

    async def round(self) -> PastRound:
        """One round over the cluster as it is now; one that fails says so and ends nothing."""
        started, began = self._clock.wall_seconds(), self._clock.monotonic_seconds()
        snapshot = self._snapshots.take()
        with self.supervisor.round("round") as part:
            if idle := idle_reason(snapshot):
                self._rest(idle)
            else:
                await (self._planned or self._descheduling).run(snapshot)
        seconds = self._clock.monotonic_seconds() - began
        error = str(part.error) if part.error is not None else ""
        if error:
            # What is in the record is of the round before.
            self._descheduling.record.clear()
        record = self._descheduling.record
        plan = None if error or record.idle else self.plan
        past = self.history.add(record, snapshot, started, seconds, error, plan)
        self.metrics.round_ended(record, seconds, failed=bool(error or record.errors))
        report(past, snapshot, self._recorder)
        return past

    def _rest(self, idle: str) -> None:
        """A round that has nothing to do: no failure, and told of once for those in a row."""
        record = self._descheduling.record
        if not record.idle:
            _LOG.info("rounds rest", extra=log.fields(reason=idle))
        record.clear()
        record.idle = idle


def supervise(metrics: DeschedulerMetrics, clock: Clock) -> Supervisor:
    """A descheduler's supervisor."""
    return Supervisor("descheduler", metrics.registry, clock)
