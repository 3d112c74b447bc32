# SPDX-License-Identifier: Apache-2.0
"""A small cluster with DefaultPreemption, whose only other filter is CPU."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.workloads import PodDisruptionBudget
from koord.base.clock import VirtualClock
from koord.controllers.cluster.node_table import CPU, Aspect
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.decision.decider import Decider, Nominations
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.plugin import PostFilterResult
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.kubernetes.default_preemption import DefaultPreemption


class Room:
    """CPU alone, by columns."""

    name = "Room"
    depends = Aspect.NODE | Aspect.PODS
    by_columns = True

    def __init__(self) -> None:
        self.asked = 0

    def applies(self, cycle: Cycle) -> bool:
        return True

    def generation(self, cycle: Cycle) -> int:
        return 0

    def filter(self, cycle: Cycle, rows: Any) -> Any:
        self.asked += 1
        free = cycle.table.allocatable[CPU, rows] - cycle.table.requested[CPU, rows]
        return cycle.shape.request.get("cpu", 0) <= free

    def diagnose(self, cycle: Cycle, rows: Any) -> list[Rejection]:
        held = cycle.table.allocatable[CPU, rows]
        wants = cycle.shape.request.get("cpu", 0)
        short = Rejection(self.name, ("Insufficient cpu",))
        never = Rejection(self.name, ("Insufficient cpu",), unresolvable=True)
        return [never if wants > most else short for most in held.tolist()]


class SlowRoom(Room):
    """The same, asked in what-ifs."""

    name = "SlowRoom"
    by_columns = False


class Promised(Nominations):
    """Nominations from a plain dict: row to pods."""

    def __init__(self) -> None:
        self.by_row: dict[int, list[PodInfo]] = {}

    @property
    def empty(self) -> bool:
        return not any(self.by_row.values())

    def on_rows(self, pod: PodInfo) -> dict[int, list[PodInfo]]:
        found = {
            row: [p for p in pods if p.priority >= pod.priority and p.uid != pod.uid]
            for row, pods in self.by_row.items()
        }
        return {row: pods for row, pods in found.items() if pods}

    def row_of(self, pod: PodInfo) -> int | None:
        return next((r for r, pods in self.by_row.items() if pod in pods), None)

    def drop_lower(self, row: int, priority: int) -> list[PodInfo]:
        pods = self.by_row.get(row, [])
        self.by_row[row] = [p for p in pods if p.priority >= priority]
        return [p for p in pods if p.priority < priority]


class Cluster:
    """Nodes, pods and one profile; ``filters`` after its own."""

    def __init__(
        self, *nodes: Node, room: Any = Room, filters: Any = (), client: Any = None, **args: int
    ) -> None:
        self.views = LocalViews()
        self.events: list[tuple[str, str]] = []
        self.world = ClusterState(self.views, VirtualClock(), client, self._tell)
        for node in nodes:
            self.world.table.put(node)
        given = SimpleNamespace(
            min_candidate_nodes_percentage=args.get("percentage", 10),
            min_candidate_nodes_absolute=args.get("absolute", 100),
        )
        self.plugin = DefaultPreemption(given, self.world)
        self.room = room()
        plugins = ProfilePlugins(
            pre_filter=[f for f in filters if hasattr(f, "pre_filter")],
            filter=[self.room, *(f for f in filters if hasattr(f, "applies"))],
            post_filter=[self.plugin],
        )
        for listener in filters:
            if hasattr(listener, "pod_added"):
                self.world.accounts.listen(listener)
        self.promised = Promised()
        self.decider = Decider(self.world.table, self.world.accounts, plugins, self.promised)

    def put(self, node: str, info: PodInfo) -> PodInfo:
        row = self.world.table.row(node)
        assert row is not None
        self.world.accounts.add(row, info)
        return info

    def budget(self, app: str, allowed: int, **more: Any) -> None:
        selector = more.pop("selector", {"matchLabels": {"app": app}})
        document = {
            "metadata": {"name": app, "namespace": "default"},
            "spec": {"selector": selector},
            "status": {"disruptionsAllowed": allowed, **more},
        }
        made = convert(document, PodDisruptionBudget, f"budget {app}")
        self.views.view(PodDisruptionBudget).put(made)

    def preempt(self, info: PodInfo) -> PostFilterResult:
        decision = self.decider.decide(info)
        assert decision.row < 0, "it fits"
        assert decision.diagnosis is not None
        return self.plugin.post_filter(decision.cycle, decision.diagnosis)

    def _tell(self, about: Any, kind: str, reason: str, message: str) -> None:
        self.events.append((about.metadata.name, message))
