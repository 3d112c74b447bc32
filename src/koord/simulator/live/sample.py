# SPDX-License-Identifier: Apache-2.0
"""What the cluster is like at a moment, read off the simulated machines and the API's objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from koord.api.protocol.priority import PriorityClass, class_with_default
from koord.api.protocol.resources import BATCH_CPU
from koord.kernels.quantity import Quantity, Rounding
from koord.simulator.colocation.node_model.cpu_contention import loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from koord.api.kinds.pod import Pod
    from koord.simulator.colocation.inputs.scenario import Scenario
    from koord.simulator.colocation.results.result import Floats
    from koord.simulator.nodes.fleet import Fleet

_CLASSES = (PriorityClass.BATCH, PriorityClass.FREE)
_NOTHING = Quantity()


class ClusterSample(NamedTuple):
    """A moment; columns have a row a machine and are in cores where nothing else is said.

    Attributes:
        seconds: wall time.
        services, batch, system: CPU in use.
        offered: batch-cpu that the manager has put on the node.
        allowed: what the agent lets best-effort pods have; infinity for no limit.
        held: of what best-effort pods want, the share that the agent lets them have.
        memory_bytes: in use.
        requested: cores that running batch pods ask for, of the cluster.
        running, waiting, finished: batch pods; ``finished`` so far.
        short_pods: service pods that get too little CPU, see :func:`short_machines`.
    """

    seconds: float
    services: Floats
    batch: Floats
    system: Floats
    offered: Floats
    allowed: Floats
    held: Floats
    memory_bytes: Floats
    requested: float
    running: int
    waiting: int
    finished: int
    short_pods: int


class ClusterSampler:
    """Takes samples of a fleet.

    Args:
        fleet: the machines.
        wall_seconds: the time.
        scenario: what a busy machine costs a service, and when that one is short of CPU.
    """

    def __init__(self, fleet: Fleet, wall_seconds: Callable[[], float], scenario: Scenario) -> None:
        self._fleet = fleet
        self._scenario = scenario
        self._cpus = np.array([each.pool.cpu for each in fleet.machines], np.float64)
        self._wall_seconds = wall_seconds
        self._finished = 0
        fleet.pods.on_change(updated=self._updated)

    def take(self) -> ClusterSample:
        """The cluster now."""
        load, now = self._fleet.agents.load, self._wall_seconds()
        reading, granted, rows = load.read(now), load.granted(now), len(self._fleet.machines)
        node = np.array([pod.node for pod in load.pods], np.intp)
        is_batch = np.array([pod.best_effort for pod in load.pods], np.bool_)
        requests = np.array([pod.requests.cpu_milli for pod in load.pods], np.float64) / 1000
        free = 1.0 - reading.node_cpu / self._cpus
        short = ~is_batch & short_machines(granted.services, free, self._scenario)[node]

        def by_machine(which: NDArray[np.bool_]) -> Floats:
            cores = np.bincount(node[which], reading.pod_cpu[which], rows)
            return cores.astype(np.float64)

        return ClusterSample(
            seconds=now,
            services=by_machine(~is_batch),
            batch=by_machine(is_batch),
            system=reading.system_cpu,
            offered=self._offered(),
            allowed=load.tier_cores,
            held=granted.tier,
            memory_bytes=reading.node_memory,
            requested=float(requests[is_batch].sum()),
            running=int(np.count_nonzero(is_batch)),
            waiting=sum(_waits(pod) for _, pod in self._fleet.pods.items()),
            finished=self._finished,
            short_pods=int(np.count_nonzero(short)),
        )

    def _offered(self) -> Floats:
        found = np.zeros(len(self._fleet.machines))
        for row, machine in enumerate(self._fleet.machines):
            node = self._fleet.nodes.get(machine.name)
            if node is not None:
                offered = node.status.allocatable.get(BATCH_CPU, _NOTHING)
                found[row] = offered.value(Rounding.UP) / 1000
        return found

    def _updated(self, before: Pod, pod: Pod) -> None:
        ended = pod.status.phase == "Succeeded" != before.status.phase
        self._finished += ended and class_with_default(pod) in _CLASSES


def short_machines(granted: Floats, free_share: Floats, scenario: Scenario) -> NDArray[np.bool_]:
    """On which machines services are short of CPU, by the simulator's own model of contention.

    What a service loses where hardly a CPU is free is as in :mod:`cpu_contention`.

    Args:
        granted: of what services of a machine want, the share that there is room for.
        free_share: of a machine's CPUs, the share that nobody uses.
        scenario: what contention costs, and from where on a service is short.
    """
    lost = loss(free_share, scenario.contention.scheduling_delay)
    short: NDArray[np.bool_] = granted * (1.0 - lost) < scenario.report.short.granted_below
    return short


def _waits(pod: Pod) -> bool:
    pending = pod.status.phase == "Pending" and pod.metadata.deletion_timestamp is None
    return pending and class_with_default(pod) in _CLASSES
