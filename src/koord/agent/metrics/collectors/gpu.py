# SPDX-License-Identifier: Apache-2.0
"""NVIDIA GPUs: inventory, health, and who uses how much.

Rule: docs/reference/measuring.md#gpus.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from koord.agent.host.devices.gpus import GPU, GPUs, open_gpus
from koord.agent.host.kernel.features import Feature
from koord.agent.host.procfs import pids
from koord.agent.metrics.collector import CollectionRound, Collector
from koord.agent.metrics.metric_kinds import MetricKind
from koord.agent.metrics.samples import Labels, Samples
from koord.agent.states.snapshot import Timestamped
from koord.base.errors import KoordError

if TYPE_CHECKING:
    from typing import Any

    from koord.agent.metrics.options import MetricsOptions

_OPEN_AGAIN_SECONDS = 60.0
_Sums = dict[Labels, list[float]]


class GPUCollector(Collector):
    """Percent of compute and bytes, of each GPU and of the pods and containers on it.

    Args:
        settings: interval.
        module: ``pynvml``, or what stands in for it.
    """

    name = "gpu"
    gate = "Accelerators"
    needs = frozenset({Feature.NVML})
    blocking = True

    def __init__(self, settings: MetricsOptions, module: Any = None) -> None:
        self.interval_seconds = settings.used
        self._module = module
        self._gpus: GPUs | None = None
        self._refused: tuple[KoordError, float] | None = None

    def collect(self, now: CollectionRound) -> Samples:
        """Measures; raises KoordError without a driver that answers, tried anew each minute."""
        gpus = self._session(now)
        try:
            found = gpus.inventory(now.now_seconds)
            now.facts.gpus = Timestamped(tuple(found), now.now_seconds)
            now.facts.gpu_driver = gpus.driver
            return _measure(now, gpus, found)
        except KoordError as error:
            self._give_up(error, now)
            raise

    def _session(self, now: CollectionRound) -> GPUs:
        if self._gpus is not None:
            return self._gpus
        if self._refused and now.now_seconds - self._refused[1] < _OPEN_AGAIN_SECONDS:
            raise self._refused[0].copy()
        try:
            self._gpus = open_gpus(now.machine.roots.sys, self._module)
        except KoordError as error:
            self._give_up(error, now)
            raise
        return self._gpus

    def _give_up(self, error: KoordError, now: CollectionRound) -> None:
        self.stop()
        self._refused = (error.copy(), now.now_seconds)

    def stop(self) -> None:
        """Ends the session with the driver."""
        if self._gpus is not None:
            self._gpus.close()
            self._gpus = None


def _measure(now: CollectionRound, gpus: GPUs, inventory: list[GPU]) -> Samples:
    owners = _Owners(now)
    nodes: _Sums = {}
    pods: _Sums = defaultdict(lambda: [0.0, 0.0])
    containers: _Sums = defaultdict(lambda: [0.0, 0.0])
    for gpu in inventory:
        device = (str(gpu.minor), gpu.uuid)
        nodes[device] = [0.0, 0.0]
        for process in gpus.processes(gpu):
            sums = [nodes[device]]
            if owner := owners.of(process.pid):
                uid, container = owner
                sums += [pods[uid, *device], containers[container, *device]]
            for total in sums:
                total[0] += process.core_percent or 0
                total[1] += process.memory_bytes
    samples = Samples(now.now_ms)
    totals = [gpu.memory_bytes for gpu in inventory]
    samples.add(MetricKind.NODE_GPU_MEMORY_TOTAL, tuple(nodes), totals)
    for sums_by, core, memory in (
        (nodes, MetricKind.NODE_GPU_CORE_USAGE, MetricKind.NODE_GPU_MEMORY_USAGE),
        (pods, MetricKind.POD_GPU_CORE_USAGE, MetricKind.POD_GPU_MEMORY_USAGE),
        (containers, MetricKind.CONTAINER_GPU_CORE_USAGE, MetricKind.CONTAINER_GPU_MEMORY_USAGE),
    ):
        samples.add(core, tuple(sums_by), [value[0] for value in sums_by.values()])
        samples.add(memory, tuple(sums_by), [value[1] for value in sums_by.values()])
    return samples


class _Owners:
    """Running containers by the directory of a process."""

    def __init__(self, now: CollectionRound) -> None:
        self._now = now
        # By the last component: a cgroup namespace or a nested kubelet changes what is before it.
        self._by_name = {
            container.directory.rpartition("/")[2]: (pod.uid, container.id)
            for pod in now.snapshot.pods.value
            for container in pod.containers
            if container.running and container.directory
        }

    def of(self, pid: int) -> tuple[str, str] | None:
        """UID and container id; None for a process of the host, or one that has ended."""
        machine = self._now.machine
        try:
            path = pids.cgroup_of(machine.roots.proc, pid, machine.hierarchy.version)
        except KoordError:
            return None
        names = (name for name in reversed(path.split("/")) if name in self._by_name)
        return next((self._by_name[name] for name in names), None)
