# SPDX-License-Identifier: Apache-2.0
"""The replay through the whole scheduler: queue, every plugin of a profile, reserve, binding.

Nodes, Devices and pods are objects as in a cluster. A pod is decided when it arrives and deleted if
it fits nowhere, since the experiment drops such pods for good. What the scheduler chose is counted
by the placement kernel's table, which refuses GPUs that are not free.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from koord.api.kinds.device import Device
from koord.api.kinds.node import Node
from koord.api.kinds.pod import Pod
from koord.base.clock import VirtualClock
from koord.controllers.scheduler.cache.local_views import LocalViews
from koord.controllers.scheduler.cluster_state import ClusterState
from koord.controllers.scheduler.config.load import load
from koord.controllers.scheduler.registry import Registry
from koord.controllers.scheduler.scheduler import Scheduler
from koord.kernels.placement import GPU_MILLI, Placement, ReplayRows
from koord.simulator.openb.kubernetes_objects import (
    NAMESPACE,
    names_by_rank,
    node_objects,
    pod_object,
    pod_template,
)
from koord.simulator.openb.replay import (
    PODS_A_NODE,
    Experiment,
    RunResult,
    intern_shape,
    node_state,
    node_table,
)

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodInfo
    from koord.controllers.scheduler.config.load import SchedulerConfiguration
    from koord.simulator.openb.workload import TraceWorkload

NAME = "scheduler"
"""Stands where other runs name their policy."""
# Bindings end between pods; so many pods are decided before the bar moves.
_STEP = 64
_FOR_EVER_SECONDS = 1e9


@dataclass(frozen=True)
class Scheduling:
    """A scheduler's configuration, and where its plugins are found.

    Attributes:
        configuration: pods name its first profile.
        registry: the plugins.
    """

    configuration: SchedulerConfiguration
    registry: Registry

    @classmethod
    def read(cls, path: Path) -> Scheduling:
        """Reads a KubeSchedulerConfiguration.

        Raises:
            KoordError: as :func:`koord.controllers.scheduler.config.load.load` says.
        """
        registry = Registry()
        return cls(load(path, registry), registry)

    @property
    def scheduler_name(self) -> str:
        """What pods name."""
        return self.configuration.profiles[0].scheduler_name


def run_scheduled(
    experiment: Experiment,
    scheduling: Scheduling,
    workload: TraceWorkload,
    progress: Callable[[int], None] = lambda _: None,
) -> RunResult:
    """Sends every arrival of the workload through a scheduler.

    Args:
        experiment: cluster and pod list.
        scheduling: the scheduler's configuration.
        workload: arrivals and node ranks; nodes are named so that ties go by rank.
        progress: called with the number of pods decided since its last call.

    Raises:
        KoordError: a GPU share that is no whole percentage.
    """
    start = time.perf_counter()
    account = _ReplayAccount(experiment)
    asyncio.run(_run(experiment, scheduling, workload, account, progress))
    rows = account.rows()
    return RunResult(
        NAME,
        workload,
        rows,
        node_state(account.table, experiment.nodes),
        sum(node.gpus for node in experiment.nodes),
        time.perf_counter() - start,
    )


async def _run(
    experiment: Experiment,
    scheduling: Scheduling,
    workload: TraceWorkload,
    account: _ReplayAccount,
    progress: Callable[[int], None],
) -> None:
    views = LocalViews()
    world = ClusterState(views, VirtualClock(), scheduler_name=scheduling.scheduler_name)
    configuration = scheduling.configuration
    scheduler = Scheduler(world, configuration.profiles, scheduling.registry, configuration.queue)
    row_of = {}
    for index, name in enumerate(names_by_rank(experiment.nodes, workload.ranks)):
        node, device = node_objects(experiment.nodes[index], name, PODS_A_NODE)
        views.view(Node).put(node)
        views.view(Device).put(device)
        row_of[name] = index
    name = scheduling.scheduler_name
    templates = [pod_template(pod, name) for pod in experiment.distinct]
    pods, decided = views.view(Pod), 0
    try:
        for number, index in enumerate(workload.arrivals):
            kind = int(experiment.kinds[index])
            pod = pod_object(templates[kind], f"{experiment.pods[index].name}-{number}")
            pods.put(pod)
            scheduler.loop.schedule(_FOR_EVER_SECONDS)
            placed = world.accounts.get(pod.metadata.uid)
            if placed is None:
                pods.remove(f"{NAMESPACE}/{pod.metadata.name}")
            row = -1 if placed is None else row_of[world.table.name(placed.row)]
            account.count(kind, row, _gpus(placed))
            decided += 1
            if decided % _STEP == 0:
                progress(_STEP)
            await asyncio.sleep(0)  # bindings go on
    finally:
        await scheduler.loop.binder.close()
        await scheduler.loop.failures.close()
    progress(decided % _STEP)


def _gpus(placed: PodInfo | None) -> tuple[int, ...]:
    held = placed.allocations.get("DeviceShare", ()) if placed is not None else ()
    return tuple(each.minor for each in held)


class _ReplayAccount:
    """What is used and what is fragment after each arrival."""

    def __init__(self, experiment: Experiment) -> None:
        self.table = node_table(experiment.nodes)
        self._experiment = experiment
        self._shapes = [intern_shape(self.table, pod) for pod in experiment.distinct]
        self._fragments = [self._fragment(row) for row in range(len(experiment.nodes))]
        self._idle = GPU_MILLI * sum(node.gpus for node in experiment.nodes)
        self._capacity = self._idle
        self._arrived = 0
        self._rows: list[tuple[int, int, float, float, int]] = []

    def count(self, kind: int, row: int, gpus: tuple[int, ...]) -> None:
        """One arrival: its kind, the row that it got or -1, and the GPUs.

        Raises:
            ValueError: the GPUs are not free.
        """
        asked = self._experiment.distinct[kind].gpu_total_milli
        self._arrived += asked
        if row >= 0:
            self.table.commit(Placement(row, self._shapes[kind], gpus))
            self._idle -= asked
            self._fragments[row] = self._fragment(row)
        fragments = sum(self._fragments)
        percent = 100 * fragments / self._idle if self._idle else 0.0
        used = self._capacity - self._idle
        self._rows.append((used, self._arrived, fragments, percent, row))

    def rows(self) -> ReplayRows:
        """All arrivals."""
        used, arrived, fragments, percent, row = zip(*self._rows, strict=True)
        return ReplayRows(
            np.array(used, np.int64),
            np.array(arrived, np.int64),
            np.array(fragments, np.float64),
            np.array(percent, np.float64),
            np.array(row, np.int32),
        )

    def _fragment(self, row: int) -> float:
        cpu_milli = int(self.table.free("cpu")[row])
        model = self._experiment.nodes[row].model
        free = self.table.gpus_free(row)
        return self._experiment.fragmentation.amount(cpu_milli, free, model)
