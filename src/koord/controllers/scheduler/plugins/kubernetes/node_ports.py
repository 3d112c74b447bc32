# SPDX-License-Identifier: Apache-2.0
"""NodePorts: host ports that pods on the node have taken already.

Rule: docs/reference/stock-plugins.md#filters. Protocol and port must be free at the address;
``0.0.0.0`` stands for all addresses.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from koord.controllers.cluster.node_table import Aspect
from koord.controllers.cluster.pod_fields import PodField
from koord.controllers.scheduler.framework.plugin import Plugin
from koord.controllers.scheduler.framework.rejection import Rejection
from koord.controllers.scheduler.framework.reserve_pods import ask_without
from koord.controllers.scheduler.plugins.queueing_hints import pod_of
from koord.controllers.scheduler.queue.events import (
    ASSIGNED_POD,
    NODE,
    Action,
    ClusterEvent,
    HintedEvent,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.controllers.cluster.pods import PodInfo, PodShape
    from koord.controllers.scheduler.framework.cycle import Cycle
    from koord.controllers.scheduler.framework.plugin import Rows

REASON = "node(s) didn't have free ports for the requested pod ports"
_ANYWHERE = "0.0.0.0"

HostPort = tuple[str, int, str]
"""Protocol, port, address."""


class NodePorts(Plugin):
    """Keeps the taken host ports of every row."""

    name = "NodePorts"
    reads = PodField.HOST_PORTS
    restores_from: ClassVar[tuple[str, ...]] = ()
    depends = Aspect.PODS
    filter_at_once = True
    applies_by_shape = True

    def __init__(self, args: None, handle: object) -> None:
        super().__init__(args, handle)  # type: ignore[arg-type]
        # By protocol and port, then by row: how many pods have taken it at which address.
        self._taken: dict[tuple[str, int], dict[int, Counter[str]]] = {}

    def applies(self, cycle: Cycle) -> bool:
        """To pods with host ports."""
        return bool(self._ports(cycle.shape))

    def idle_points(self, shape: PodShape) -> Collection[str]:
        """Pods without host ports take none."""
        return () if self._ports(shape) else ("pod_added",)

    def filter(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        """True where all the pod's host ports are free."""
        return ask_without(self.handle, cycle, rows, self._passes)

    def _passes(self, cycle: Cycle, rows: Rows) -> NDArray[np.bool_]:
        passes = np.ones(cycle.table.size, np.bool_)
        for protocol, port, address in self._ports(cycle.shape):
            for row, addresses in self._taken.get((protocol, port), {}).items():
                if address == _ANYWHERE or _ANYWHERE in addresses or address in addresses:
                    passes[row] = False
        return passes[rows]

    def diagnose(self, cycle: Cycle, rows: NDArray[np.intp]) -> Sequence[Rejection]:
        """One reason; pods that go may free the port."""
        return [Rejection(self.name, (REASON,))] * len(rows)

    def pod_added(self, row: int, pod: PodInfo) -> None:
        """Takes its ports."""
        for protocol, port, address in self._ports(pod.shape):
            rows = self._taken.setdefault((protocol, port), {})
            rows.setdefault(row, Counter())[address] += 1

    def pod_removed(self, row: int, pod: PodInfo) -> None:
        """Frees its ports."""
        for protocol, port, address in self._ports(pod.shape):
            rows = self._taken[protocol, port]
            addresses = rows[row]
            addresses[address] -= 1
            if not addresses[address]:
                del addresses[address]
            if not addresses:
                del rows[row]
            if not rows:
                del self._taken[protocol, port]

    def restore(self, pod: PodInfo) -> None:
        """Nothing is written on pods."""

    def events(self) -> Sequence[HintedEvent]:
        """Pods that leave a wanted port, nodes that come."""
        return (
            HintedEvent(ClusterEvent(ASSIGNED_POD, Action.DELETE), self._frees, per_shape=True),
            HintedEvent(ClusterEvent(NODE, Action.ADD)),
        )

    def _ports(self, shape: PodShape) -> tuple[HostPort, ...]:
        ports: tuple[HostPort, ...] | None = shape.container_requests.memo.get(self.name)
        if ports is None:
            ports = shape.container_requests.memo[self.name] = host_ports(shape.pod)
        return ports

    def _frees(self, info: PodInfo, old: PodInfo | Pod | None, new: object) -> bool:
        pod = pod_of(old)
        freed = host_ports(pod) if pod is not None else ()
        return any(_conflict(a, b) for a in self._ports(info.shape) for b in freed)


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The host ports of a pod's containers, and of init containers that keep running."""
    spec = pod.spec
    running = [each for each in spec.init_containers if each.restart_policy == "Always"]
    return tuple(
        (port.protocol or "TCP", port.host_port, port.host_ip or _ANYWHERE)
        for container in (*running, *spec.containers)
        for port in container.ports
        if port.host_port > 0
    )


def _conflict(a: HostPort, b: HostPort) -> bool:
    return a[:2] == b[:2] and (a[2] == b[2] or _ANYWHERE in (a[2], b[2]))
