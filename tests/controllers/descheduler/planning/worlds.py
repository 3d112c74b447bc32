# SPDX-License-Identifier: Apache-2.0
"""Small clusters, and rounds planned over them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from koord.api import codec
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.controllers.descheduler.config.load import decode
from koord.controllers.descheduler.framework.registry import PluginRegistry
from koord.controllers.descheduler.planning.preparation import plan_snapshot
from koord.controllers.descheduler.planning.snapshot_objects import SnapshotObjects
from tests.controllers.descheduler.world import NOW

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from koord.api.kinds.meta import Object
    from koord.controllers.descheduler.planning.plan import RoundPlan

DEFAULT_EVICTOR = {"enabled": [{"name": "DefaultEvictor"}], "disabled": [{"name": "*"}]}


def plan(
    objects: Iterable[Object],
    deschedule: Mapping[str, Any],
    balance: Mapping[str, Any] | None = None,
    *,
    one_by_one: bool = False,
    scheduler_file: Path | None = None,
    migration: Mapping[str, Any] | None = None,
    **configuration: Any,
) -> RoundPlan:
    """The plan of a round.

    Args:
        objects: the cluster.
        deschedule: by plugin its arguments.
        balance: the same of balance plugins.
        one_by_one: walked instead.
        scheduler_file: of the scheduler.
        migration: of MigrationController, by which pods move then; DefaultEvictor if not given.
        configuration: other fields of the file.
    """
    plugins = {**deschedule, **(balance or {})}
    carrier = DEFAULT_EVICTOR
    if migration is not None:
        carrier = {"enabled": [{"name": "MigrationController"}]}
        plugins["MigrationController"] = migration
    points = {"deschedule": deschedule, "balance": balance or {}}
    document = {
        "apiVersion": "descheduler/v1alpha2",
        "kind": "DeschedulerConfiguration",
        "profiles": [
            {
                "plugins": {
                    "filter": carrier,
                    "evict": carrier,
                    **{
                        point: {"enabled": [{"name": name} for name in named]}
                        for point, named in points.items()
                    },
                },
                "pluginConfig": [{"name": name, "args": args} for name, args in plugins.items()],
            }
        ],
        **configuration,
    }
    configured = decode(document, "the test's configuration", PluginRegistry([]))
    cluster = SnapshotObjects.of(objects, "the test")
    made = plan_snapshot(configured, cluster, NOW, scheduler_file, one_by_one=one_by_one)
    return asyncio.run(made)


def budget(name: str, allowed: int, **labels: str) -> PodDisruptionBudget:
    """A budget of the default namespace."""
    document = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }
    return codec.convert(document, PodDisruptionBudget, name)


def load(node_name: str, cpu_by_pod: Mapping[str, int]) -> NodeMetric:
    """A fresh NodeMetric: what pods of the default namespace use, in milli-cores."""
    from koord.api.timestamps import seconds_text

    used = {"cpu": f"{sum(cpu_by_pod.values())}m", "memory": "0"}
    document = {
        "metadata": {"name": node_name},
        "status": {
            "updateTime": seconds_text(NOW),
            "nodeMetric": {"nodeUsage": {"resources": used}},
            "podsMetric": [
                {"namespace": "default", "name": name, "podUsage": {"resources": {"cpu": f"{m}m"}}}
                for name, m in cpu_by_pod.items()
            ],
        },
    }
    return codec.convert(document, NodeMetric, node_name)
