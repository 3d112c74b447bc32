# SPDX-License-Identifier: Apache-2.0
"""From files to a planned round: configurations, clocks, and what one round alone cannot know."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from msgspec import structs

from koord.base.clock import VirtualClock
from koord.base.supervision import Supervisor
from koord.controllers.descheduler.config import load as descheduler_config
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.framework.round import Descheduling
from koord.controllers.descheduler.planning.landing import LandingNodes
from koord.controllers.descheduler.planning.load_columns import SHIPPED_THRESHOLDS
from koord.controllers.descheduler.planning.planner import PlannedRounds, load_thresholds
from koord.controllers.descheduler.plugins.loadaware.low_node_load_args import LowNodeLoadArgs
from koord.controllers.scheduler.config import load as scheduler_config
from koord.controllers.scheduler.config.defaults import KOORD_SCHEDULER_NAME
from koord.controllers.scheduler.registry import Registry

if TYPE_CHECKING:
    from pathlib import Path

    from koord.api.kinds.pod import Pod
    from koord.controllers.descheduler.config.load import DeschedulerConfiguration
    from koord.controllers.descheduler.framework.points import PodEviction
    from koord.controllers.descheduler.planning.plan import RoundPlan
    from koord.controllers.descheduler.planning.snapshot_objects import SnapshotObjects
    from koord.controllers.descheduler.snapshot import ClusterSnapshot
    from koord.controllers.scheduler.config.load import SchedulerConfiguration

_ONLY_DEFAULT_EVICTOR = {"enabled": [{"name": "DefaultEvictor"}], "disabled": [{"name": "*"}]}
SHIPPED: dict[str, Any] = {
    "apiVersion": "descheduler/v1alpha2",
    "kind": "DeschedulerConfiguration",
    "profiles": [
        {
            "plugins": {
                "balance": {"enabled": [{"name": "LowNodeLoad"}]},
                "filter": _ONLY_DEFAULT_EVICTOR,
                "evict": _ONLY_DEFAULT_EVICTOR,
            },
            "pluginConfig": [
                {
                    "name": "LowNodeLoad",
                    "args": {
                        "lowThresholds": {"cpu": 45, "memory": 55},
                        "highThresholds": dict(SHIPPED_THRESHOLDS),
                    },
                }
            ],
        }
    ],
}
"""What is planned where no configuration is given: the thresholds that the original ships."""


def read_configuration(path: Path | None) -> DeschedulerConfiguration:
    """A descheduler's configuration; :data:`SHIPPED` where no file is given.

    Raises:
        KoordError: as :func:`koord.controllers.descheduler.config.load.load` says.
    """
    registry = PluginRegistry()
    if path is None:
        return descheduler_config.decode(SHIPPED, "koord's configuration", registry)
    return descheduler_config.load(path, registry)


async def plan_snapshot(
    configuration: DeschedulerConfiguration,
    objects: SnapshotObjects,
    now: float,
    scheduler_file: Path | None = None,
    *,
    one_by_one: bool = False,
) -> RoundPlan:
    """The planned round over a snapshot; the same objects give the same plan.

    Args:
        configuration: of the descheduler.
        objects: the cluster.
        now: wall time in seconds since the Unix epoch.
        scheduler_file: a KubeSchedulerConfiguration; None for koord's own, for every scheduler
            that pods name.
        one_by_one: walk the round as the original does: nobody looks where pods go.

    Raises:
        KoordError: there are too few nodes, a plugin refuses its arguments or cannot work with what
            is there; or the scheduler's configuration cannot be read: then nothing is planned.
    """
    clock, supervisor = VirtualClock(now), Supervisor("descheduler")
    single, window_left_out = for_one_round(configuration)
    notes = []
    if window_left_out:
        notes.append("LowNodeLoad: nodes count as high at once, whatever anomalyCondition says")
    landing: LandingNodes | None = None
    if not one_by_one:
        registry = Registry()
        names = objects.scheduler_names() or [KOORD_SCHEDULER_NAME]
        scheduling, told = _scheduler(scheduler_file, names, registry)
        notes += told
        landing = LandingNodes.of(objects.objects, scheduling, registry, clock)
    over = None if landing is None else partial(_already_made, landing)
    rounds = PlannedRounds(
        Descheduling(replace(single, dry_run=False), _NoEvictions(), clock, supervisor),
        over,
        load_thresholds(single),
        clock.wall_seconds,
        dry_run=True,
    )
    plan = await rounds.plan(objects.cluster(single))
    plan.notes = notes
    return plan


def _already_made(landing: LandingNodes, snapshot: ClusterSnapshot) -> LandingNodes:
    """Over the same objects as the snapshot."""
    return landing


class _NoEvictions:
    """Stands where evictions are carried out; a plan carries none out."""

    async def evict(self, pod: Pod, request: PodEviction) -> bool:
        return False


def _scheduler(
    path: Path | None, names: list[str], registry: Registry
) -> tuple[SchedulerConfiguration, list[str]]:
    """The scheduler's configuration, and what is to be said of it."""
    if path is not None:
        found = scheduler_config.load(path, registry)
        return found, list(found.warnings)
    note = f"no scheduler configuration is given: koord's own decides for {', '.join(names)}"
    return scheduler_config.shipped(registry, *names), [note]


def for_one_round(configuration: DeschedulerConfiguration) -> tuple[DeschedulerConfiguration, bool]:
    """The same for a single round: LowNodeLoad takes nodes to have been high for long enough.

    Returns:
        It, and whether that makes a difference.
    """
    changed = False
    profiles = []
    for profile in configuration.profiles:
        args = dict(profile.args)
        for name, each in profile.args.items():
            if isinstance(each, LowNodeLoadArgs):
                args[name] = _without_window(each)
                changed = changed or args[name] != each
        profiles.append(replace(profile, args=args))
    return replace(configuration, profiles=tuple(profiles)), changed


def _without_window(args: LowNodeLoadArgs) -> LowNodeLoadArgs:
    at_once = structs.replace(args.anomaly_condition, consecutive_abnormalities=1)
    pools = [
        pool
        if pool.anomaly_condition is None
        else structs.replace(
            pool,
            anomaly_condition=structs.replace(pool.anomaly_condition, consecutive_abnormalities=1),
        )
        for pool in args.node_pools
    ]
    return structs.replace(args, anomaly_condition=at_once, node_pools=pools)
