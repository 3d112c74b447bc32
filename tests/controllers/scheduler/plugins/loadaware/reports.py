# SPDX-License-Identifier: Apache-2.0
"""A world with LoadAwareScheduling alone, and NodeMetrics from few words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.nodemetric import NodeMetric
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.args_koord import LoadAwareSchedulingArgs
from koord.controllers.scheduler.config.field_path import FieldPath
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.feasibility.cache import FeasibilityCache
from koord.controllers.scheduler.plugins.loadaware.plugin import LoadAwareScheduling

START = 1_700_000_000.0


def text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def amounts(cpu_milli: int, memory: int) -> dict[str, Any]:
    return {"cpu": f"{cpu_milli}m", "memory": str(memory)}


def usage(resources: dict[str, Any] | None) -> dict[str, Any]:
    return {"resources": resources or {}}


def metric(
    name: str,
    updated: float | None = START,
    node: dict[str, Any] | None = None,
    pods: dict[str, tuple[dict[str, Any], str]] | None = None,
    aggregates: list[tuple[str, str, dict[str, Any]]] | None = None,
    system: dict[str, Any] | None = None,
    interval: int | None = None,
    reported: bool = True,
) -> NodeMetric:
    """A NodeMetric; pods by ``namespace/name`` with usage and priority class."""
    policy = {"reportIntervalSeconds": interval} if interval is not None else None
    by_duration: dict[str, dict[str, Any]] = {}
    for statistic, duration, each in aggregates or []:
        by_duration.setdefault(duration, {})[statistic] = usage(each)
    info = {
        "nodeUsage": usage(node),
        "systemUsage": usage(system),
        "aggregatedNodeUsages": [
            {"usage": each, "duration": duration} for duration, each in by_duration.items()
        ],
    }
    status = {
        "updateTime": text(updated) if updated is not None else None,
        "nodeMetric": info if reported else None,
        "podsMetric": [
            {
                "namespace": key.split("/")[0],
                "name": key.split("/")[1],
                "podUsage": usage(each),
                "priority": priority,
            }
            for key, (each, priority) in (pods or {}).items()
        ],
    }
    document = {
        "metadata": {"name": name},
        "spec": {"metricCollectPolicy": policy} if policy else {},
        "status": {key: value for key, value in status.items() if value is not None},
    }
    return convert(document, NodeMetric, f"NodeMetric {name}")


def condition(kind: str, seconds: float) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": text(seconds)}


class Load:
    """The plugin over views that are fed by hand.

    Args:
        arguments: of the plugin, in wire names.
    """

    def __init__(self, **arguments: Any) -> None:
        self.views = LocalViews()
        self.clock = VirtualClock(START)
        self.world = ClusterState(self.views, self.clock)
        args = LoadAwareSchedulingArgs.read(arguments, FieldPath("args"))
        self.plugin = LoadAwareScheduling(args, self.world)
        self.world.accounts.listen(self.plugin)
        self.table = self.world.table
        self.evaluator = FeasibilityCache(self.table, [self.plugin], [(self.plugin, 1)])

    def put(self, *things: Any) -> None:
        for each in things:
            self.views.view(type(each)).put(each)

    def assign(self, pod: Pod, node: str) -> None:
        row = self.table.row(node)
        assert row is not None
        self.world.accounts.add(row, self.world.shapes.info(pod))

    def ask(self, pod: Pod) -> tuple[dict[str, str | None], dict[str, int]]:
        """By node, why it is refused and its score: from kept answers, and checked anew."""
        cycle = Cycle(self.world.shapes.info(pod), self.table)
        verdict = self.evaluator.entry(cycle)
        refused = self.evaluator.rejections(cycle, verdict)
        raw = verdict.raw(0)
        reasons: dict[str, str | None] = {}
        scores = {}
        for name in self.table.names():
            row = self.table.row(name)
            assert row is not None
            here = self.evaluator.check(cycle, row)
            kept = refused.get(row)
            assert (here.text if here else None) == (kept.text if kept else None)
            reasons[name] = here.text if here else None
            scores[name] = int(self.plugin.score(cycle, np.array([row]))[0])
            assert raw is None or raw[row] == scores[name]
        rows = self.table.rows
        columns = self.plugin.score(cycle, rows)
        assert columns.tolist() == [
            scores[self.table.name(r)] for r in np.arange(self.table.size)[rows].tolist()
        ]
        return reasons, scores

    def forget(self, name: str) -> None:
        self.views.view(Node).remove(name)
