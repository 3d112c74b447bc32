# SPDX-License-Identifier: Apache-2.0
"""What the pods of a workload have come to use: an estimate from memory in place of a factor.

Opt-in, by ``estimator: workloadHistogram``; Koordinator has nothing like it. Every NodeMetric adds
the usage of pods that are past their estimates to the decaying histograms of their workload. A
workload that was measured often enough is estimated at its 95th percentile, capped by the limit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from koord.kernels.histogram import CPU, MEMORY, Histogram

if TYPE_CHECKING:
    from koord.controllers.cluster.pods import PodShape

PERCENTILE = 0.95
_HALF_LIFE_MS = 24 * 3600 * 1000
LEAST_SAMPLES = 60
"""With fewer a workload is not estimated."""

_EVERY = 20
_MOST_WORKLOADS = 8192
_HASH = "pod-template-hash"

Workload = tuple[str, str, str]
"""Namespace, kind and name of who owns the pods."""


def workload_of(shape: PodShape) -> Workload | None:
    """Who owns the pods of a shape, a Deployment's ReplicaSets as one; None for pods of nobody."""
    owner = shape.owner
    if owner is None:
        return None
    text = shape.labels.get(_HASH, "")
    name = owner.name.removesuffix(f"-{text}") if text else owner.name
    return shape.namespace, owner.kind, name


class WorkloadUsage(NamedTuple):
    """What a workload's pods use: CPU in milli, memory in bytes, and the count of its changes."""

    cpu_milli: int
    memory_bytes: int
    version: int


class _Histograms:
    """The histograms of one workload."""

    __slots__ = ("cpu", "memory", "samples", "usage")

    def __init__(self) -> None:
        self.cpu = Histogram(CPU, _HALF_LIFE_MS)
        self.memory = Histogram(MEMORY, _HALF_LIFE_MS)
        self.samples = 0
        self.usage: WorkloadUsage | None = None


class WorkloadHistograms:
    """Remembers workloads, the ones longest not measured forgotten first."""

    def __init__(self) -> None:
        self._by_workload: dict[Workload, _Histograms] = {}

    def add(self, workload: Workload, cpu_milli: int, memory_bytes: int, seconds: float) -> None:
        """A pod of the workload used so much at a moment, wall seconds."""
        memory = self._by_workload.pop(workload, None) or _Histograms()
        self._by_workload[workload] = memory
        if len(self._by_workload) > _MOST_WORKLOADS:
            del self._by_workload[next(iter(self._by_workload))]
        moment = int(seconds * 1000)
        memory.cpu.add(cpu_milli / 1000, moment)
        memory.memory.add(float(memory_bytes), moment)
        memory.samples += 1
        # Seldom, for a change makes all answers for the workload's pods stale.
        if memory.samples >= LEAST_SAMPLES and memory.samples % _EVERY == 0:
            self._conclude(memory)

    def usage(self, workload: Workload) -> WorkloadUsage | None:
        """What the workload's pods use; None if too little was seen."""
        memory = self._by_workload.get(workload)
        return memory.usage if memory is not None else None

    def _conclude(self, memory: _Histograms) -> None:
        cpu = math.ceil(memory.cpu.percentile(PERCENTILE) * 1000)
        amount = math.ceil(memory.memory.percentile(PERCENTILE))
        before = memory.usage
        if before is None or (before.cpu_milli, before.memory_bytes) != (cpu, amount):
            memory.usage = WorkloadUsage(
                cpu, amount, before.version + 1 if before is not None else 1
            )
