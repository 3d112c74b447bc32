# SPDX-License-Identifier: Apache-2.0
"""Planned rounds of a program: the scheduler's file, and its framework kept over informers.

Rule: docs/reference/descheduling.md#planned-rounds-in-the-program.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from koord.base.errors import KoordError
from koord.controllers.descheduler.planning.current_cluster import CurrentCluster
from koord.controllers.descheduler.planning.landing import LandingNodes
from koord.controllers.descheduler.planning.planner import PlannedRounds, load_thresholds
from koord.controllers.scheduler.config import load as scheduler_config
from koord.controllers.scheduler.config.defaults import DEFAULT_SCHEDULER_NAME, KOORD_SCHEDULER_NAME
from koord.controllers.scheduler.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from koord.api.kinds.migration import PodMigrationJob
    from koord.base.clock import Clock
    from koord.base.supervision import Supervisor
    from koord.controllers.cluster.views import InformerViews, View
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.framework.round import Descheduling
    from koord.controllers.descheduler.informer_snapshot import InformerSnapshot
    from koord.controllers.descheduler.snapshot import ClusterSnapshot
    from koord.controllers.scheduler.config.load import SchedulerConfiguration


@dataclass(frozen=True)
class SchedulerLibrary:
    """What says where pods would go, before there is a cluster.

    Args:
        configuration: of the scheduler; None where it cannot be read.
        registry: its plugins.
        problem: why it cannot be read.
        notes: what people should know of it.
    """

    configuration: SchedulerConfiguration | None
    registry: Registry
    problem: KoordError | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path | None) -> SchedulerLibrary:
        """By the scheduler's file; without one by koord's own configuration."""
        registry = Registry()
        if path is None:
            names = KOORD_SCHEDULER_NAME, DEFAULT_SCHEDULER_NAME
            note = f"no --scheduler-config: koord's own decides for {' and '.join(names)}"
            return cls(scheduler_config.shipped(registry, *names), registry, None, (note,))
        try:
            found = scheduler_config.load(path, registry)
        except KoordError as error:
            return cls(None, registry, error.copy())
        return cls(found, registry, None, found.warnings)


def has_strategies(configuration: DeschedulerConfiguration) -> bool:
    """Whether any plugin wants pods to go, so that there is anything to plan."""
    return any(
        profile.at(point)
        for profile in configuration.profiles
        for point in ("deschedule", "balance")
    )


def planned_rounds(
    rounds: Descheduling,
    configuration: DeschedulerConfiguration,
    library: SchedulerLibrary,
    views: InformerViews,
    snapshots: InformerSnapshot,
    jobs: View[PodMigrationJob] | None,
    clock: Clock,
    supervisor: Supervisor,
    *,
    dry_run: bool,
) -> PlannedRounds:
    """The rounds of a program, planned; what says where pods go follows its informers.

    Args:
        rounds: one by one.
        configuration: whose.
        library: the scheduler's.
        views: not run yet.
        snapshots: over the same views.
        jobs: all PodMigrationJobs; None where nothing moves by them.
        clock: the time.
        supervisor: of the program's parts.
        dry_run: whether plans are made and not carried out.

    Raises:
        KoordError: a plugin of the scheduler refuses its arguments.
    """
    kept = None
    if library.configuration is not None:
        kept = LandingNodes.following(
            views, library.configuration, library.registry, clock, supervisor
        )

    def landing(snapshot: ClusterSnapshot) -> LandingNodes:
        if kept is None:
            assert library.problem is not None
            raise library.problem.copy()
        return kept

    return PlannedRounds(
        rounds,
        landing,
        load_thresholds(configuration),
        clock.wall_seconds,
        dry_run=dry_run,
        live=CurrentCluster(snapshots, jobs),
    )
