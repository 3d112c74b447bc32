# SPDX-License-Identifier: Apache-2.0
"""A scheduler without a cluster that knows reservations: for tests, from few words."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from koord.api.codec import convert
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.api.kinds.reservation import Reservation as ReservationObject
from koord.base.clock import VirtualClock
from koord.controllers.cluster.node_table import PODS, Aspect
from koord.controllers.cluster.pods import PodInfo
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.args_gangs_and_quota import ReservationArgs
from koord.controllers.scheduler.decision.decider import Decider, Decision
from koord.controllers.scheduler.feature_gates import feature_gates
from koord.controllers.scheduler.framework.cycle import Cycle
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.profile_plugins import ProfilePlugins
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.plugins.reservation.objects.reserve_pod import reserve_pod
from koord.controllers.scheduler.plugins.reservation.plugin import Reservation
from koord.controllers.scheduler.plugins.reservation.state.columns import ReservationColumns
from koord.controllers.scheduler.plugins.reservation.state.reservation_info import ReservationInfo

BIRTH = "2023-11-14T22:13:20Z"
NOW = 1_700_000_000.0


class Room(Plugin):
    """What NodeResourcesFit does, for all resources, with overlays."""

    name: ClassVar[str] = "Room"
    depends: ClassVar[Aspect] = Aspect.NODE | Aspect.PODS

    def __init__(self) -> None:
        self.asked = 0

    def filter(self, cycle: Cycle, rows: Any) -> Any:
        numbers = np.arange(len(cycle.table.open))[rows]
        self.asked += len(numbers)
        return np.array([not self.shortfall(cycle, int(row)) for row in numbers])

    def shortfall(self, cycle: Cycle, row: int) -> list[str]:
        table = cycle.table
        asked = {table.resource(name): n for name, n in cycle.shape.request.items()}
        free = table.allocatable[:, row] - table.requested[:, row]
        overlay = cycle.overlay(row)
        if overlay is not None:
            free[: len(overlay)] += overlay
        return [table.resources[i] for i, n in {**asked, PODS: 1}.items() if n > free[i]]

    def diagnose(self, cycle: Cycle, rows: Any) -> list[Rejection]:
        found = (self.shortfall(cycle, int(row)) for row in rows)
        return [Rejection("Room", tuple(f"Insufficient {n}" for n in names)) for names in found]


def reservation(name: str, cpu: str = "", memory: str = "", **spec: Any) -> ReservationObject:
    """A Reservation; ``spec`` in wire names, metadata and ``status`` too.

    It is for pods labelled ``app: NAME`` unless ``owners`` says otherwise.
    """
    requests = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {})}
    requests.update(spec.pop("requests", {}))
    metadata = {
        "name": name,
        "uid": spec.pop("uid", f"r-{name}"),
        "resourceVersion": spec.pop("version", "1"),
        "creationTimestamp": spec.pop("created", BIRTH),
        "labels": spec.pop("labels", {}),
        "annotations": spec.pop("annotations", {}),
        **spec.pop("metadata", {}),
    }
    template = spec.pop("template", None) or {
        "spec": {
            "schedulerName": "koord-scheduler",
            "containers": [{"name": "main", "resources": {"requests": requests}}],
        }
    }
    status = spec.pop("status", {})
    spec.setdefault("owners", [{"labelSelector": {"matchLabels": {"app": name}}}])
    spec.setdefault("ttl", "24h")
    document = {"metadata": metadata, "spec": {"template": template, **spec}, "status": status}
    return convert(document, ReservationObject, f"Reservation {name}")


def available(name: str, node: str, cpu: str = "", memory: str = "", **spec: Any) -> Any:
    """A Reservation that holds what its template asks for on a node."""
    amounts = {**({"cpu": cpu} if cpu else {}), **({"memory": memory} if memory else {})}
    amounts.update(spec.get("requests", {}))
    status = {"phase": "Available", "nodeName": node, "allocatable": amounts}
    status.update(spec.pop("status", {}))
    return reservation(name, cpu, memory, status=status, **spec)


class Bench:
    """Nodes, Reservations and pods, decided by Room and Reservation alone.

    Args:
        nodes: of the cluster.
        args: of the plugin.
        gates: as on a command line.
        more: other plugins of the profile.
    """

    def __init__(
        self,
        *nodes: Node,
        args: ReservationArgs | None = None,
        gates: str = "",
        more: tuple[Any, ...] = (),
    ) -> None:
        self.views = LocalViews()
        self.clock = VirtualClock(NOW)
        self.events: list[tuple[str, str]] = []
        self.world = ClusterState(self.views, self.clock, None, self._tell, feature_gates(gates))
        self.room = Room()
        self.plugin = Reservation(args or ReservationArgs(), self.world)
        self.plugin.join([self.plugin, self.room, *more])
        self.world.accounts.listen(self.plugin)
        self.table, self.book = self.world.table, self.plugin.book
        for node in nodes:
            self.table.put(node)
        self.decider = Decider(
            self.table,
            self.world.accounts,
            ProfilePlugins(
                pre_filter=[self.plugin],
                filter=[self.room, self.plugin],
                post_filter=[self.plugin],
                score=[(self.plugin, 1)],
                reserve=[self.plugin],
            ),
        )

    def _tell(self, about: Any, kind: str, reason: str, message: str) -> None:
        self.events.append((reason, message))

    def put(self, *reservations: ReservationObject) -> None:
        """Reservations as the API tells of them; available ones count on their nodes."""
        for each in reservations:
            self.views.view(ReservationObject).put(each)
            uid, node = each.metadata.uid, each.status.node_name
            known = self.world.accounts.get(uid)
            if known is not None:
                self.world.accounts.drop(known)
            if each.status.phase == "Available" and node:
                row = self.table.row(node)
                assert row is not None
                self.world.accounts.add(row, self.world.shapes.info(reserve_pod(each)))

    def remove(self, name: str) -> None:
        """A Reservation went."""
        gone = self.views.view(ReservationObject).get(name)
        assert gone is not None
        self.views.view(ReservationObject).remove(name)
        known = self.world.accounts.get(gone.metadata.uid)
        if known is not None:
            self.world.accounts.drop(known)

    def info(self, pod: Pod) -> PodInfo:
        """The pod as the scheduler sees it."""
        return self.world.shapes.info(pod)

    def bound(self, pod: Pod, node: str) -> PodInfo:
        """A pod that the API says is bound."""
        info = self.info(pod)
        self.plugin.restore(info)
        row = self.table.row(node)
        assert row is not None
        self.world.accounts.add(row, info)
        return info

    def decide(self, pod: Pod) -> Decision:
        """Where the pod would go; nothing is changed."""
        return self.decider.decide(self.info(pod))

    def place(self, pod: Pod) -> tuple[str, str]:
        """Decides and assumes; the node and the reservation's name, or why not."""
        decision = self.decide(pod)
        if decision.row < 0:
            return "", self.message(decision)
        refused = self.decider.assume(decision)
        if refused is not None:
            return "", refused.text
        allocation = decision.cycle.pod.allocations.get("Reservation")
        return self.table.name(decision.row), allocation.name if allocation else ""

    def message(self, decision: Decision) -> str:
        """What the pod is told."""
        assert decision.diagnosis is not None
        said = self.plugin.post_filter(decision.cycle, decision.diagnosis)
        return decision.diagnosis.message(said.message)

    def requested(self, node: str, resource: str = "cpu") -> int:
        """What an unmatched pod sees as requested."""
        row = self.table.row(node)
        assert row is not None
        return int(self.table.requested[self.table.resource(resource), row])


def slots_of(columns: ReservationColumns, *records: ReservationInfo) -> NDArray[np.intp]:
    """Where reservations stand in the columns, which are true then."""
    slots = [columns.slot(record) for record in records]
    columns.flush()
    return np.array(slots, np.intp)
