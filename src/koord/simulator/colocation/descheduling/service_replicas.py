# SPDX-License-Identifier: Apache-2.0
"""Which pod serves which load: a row of :class:`ServicePods` is one replica's part of the load.

A pod that ends leaves its part to the other replicas of its Deployment, as a Service does; the next
pod of the Deployment that is ready takes the part that has waited longest.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from koord.simulator.colocation.descheduling.workloads import ServiceDeployment
    from koord.simulator.colocation.results.result import Ints
    from koord.simulator.colocation.workload.services import ServiceDemands, ServicePods

NOBODY = -1


class PodMove(NamedTuple):
    """A part of the load has gone to another machine; seconds since the start."""

    seconds: float
    row: int
    source: int
    target: int


class ServiceSlots:
    """Who serves.

    Args:
        pods: their ``machine`` changes as pods move.
        deployments: of those pods that may move.

    Attributes:
        serving: whether a row has a pod that is ready, a row a part.
        moves: so far, in order.
    """

    def __init__(self, pods: ServicePods, deployments: Sequence[ServiceDeployment]) -> None:
        self._pods = pods
        self._deployment: Ints = np.full(pods.rows, NOBODY, np.int64)
        for number, each in enumerate(deployments):
            self._deployment[list(each.rows)] = number
        self._number = {each.name: number for number, each in enumerate(deployments)}
        self._vacant: list[deque[int]] = [deque() for _ in deployments]
        self._row_of: dict[str, int] = {}
        self._key_of: dict[int, str] = {}
        self.serving: NDArray[np.bool_] = np.ones(pods.rows, np.bool_)
        self.moves: list[PodMove] = []

    def begin(self, key: str, row: int) -> None:
        """A pod serves a row from the start on."""
        self._row_of[key], self._key_of[row] = row, key

    def leave(self, key: str) -> None:
        """A pod serves no more, if it did."""
        row = self._row_of.pop(key, None)
        if row is None:
            return
        del self._key_of[row]
        self.serving[row] = False
        self._vacant[self._deployment[row]].append(row)

    def enter(self, key: str, deployment: str, machine: int, seconds: float) -> None:
        """A pod is ready, and serves the part that has waited longest."""
        row = self._vacant[self._number[deployment]].popleft()
        self.begin(key, row)
        self.serving[row] = True
        source = int(self._pods.machine[row])
        self._pods.machine[row] = machine
        self.moves.append(PodMove(seconds, row, source, machine))

    def keys_on(self, machine: int) -> list[tuple[str, int]]:
        """Pods that serve on a machine, and their rows; not those that never move."""
        rows = np.flatnonzero(self._pods.machine == machine).tolist()
        return [(self._key_of[row], row) for row in rows if row in self._key_of]

    def redirect(self, demands: ServiceDemands) -> None:
        """What nobody serves is served by the other replicas, in equal parts."""
        if self.serving.all():
            return
        waiting = np.flatnonzero(~self.serving)
        wanted = demands.cpu.copy()
        for number in np.unique(self._deployment[waiting]).tolist():
            mine = self._deployment == number
            others = mine & self.serving
            count = int(np.count_nonzero(others))
            if count:
                wanted[others] += wanted[mine & ~self.serving].sum() / count
                wanted[mine & ~self.serving] = 0.0
        demands.replace(wanted)
