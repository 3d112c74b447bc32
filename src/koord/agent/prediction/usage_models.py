# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a workload's usage: one decaying histogram for CPU, one for memory.

Rule: docs/reference/measuring.md#models.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from koord.kernels.histogram import CPU, MEMORY, Histogram

NODE = "__node__"
SYSTEM = "__node-sys__"
_MILLI = 1000
# The greatest value seen is the percentile of all of the weight.
PERCENTILES = {"p60": 0.6, "p90": 0.9, "p95": 0.95, "p98": 0.98, "max": 1.0}


def class_model(priority_class: str) -> str:
    """The name of the model of a priority class's sum on this node."""
    return f"__node-{priority_class}__"


@dataclass(frozen=True)
class PredictionOptions:
    """How usage is learnt; the defaults are the original's.

    Attributes:
        cold_start_seconds: pods that are younger are not predicted.
        safety_margin_percent: added to every peak.
        training_seconds: time between two samples.
        expiration_seconds: a model without samples for longer is forgotten.
        checkpoint_seconds: how old a model's checkpoint may get.
        checkpoints_per_step: files that are written at a time, at most.
    """

    cold_start_seconds: float = 24 * 3600.0
    safety_margin_percent: int = 10
    cpu_half_life_seconds: float = 12 * 3600.0
    memory_half_life_seconds: float = 24 * 3600.0
    training_seconds: float = 60.0
    expiration_seconds: float = 1800.0
    checkpoint_seconds: float = 600.0
    checkpoints_per_step: int = 12


class PeakUsage(NamedTuple):
    """A level of usage."""

    cpu_milli: int
    memory_bytes: int


@dataclass
class UsageModel:
    """The usage of one workload.

    Attributes:
        updated_ms: wall time of the newest sample.
        saved_ms: wall time of its checkpoint; 0 for none.
    """

    cpu: Histogram
    memory: Histogram
    updated_ms: int = 0
    saved_ms: int = 0

    def add(self, cpu_cores: float, memory_bytes: float, time_ms: int) -> None:
        """One sample."""
        self.cpu.add(cpu_cores, time_ms)
        self.memory.add(memory_bytes, time_ms)
        self.updated_ms = time_ms

    def peak(self, percentile: str) -> PeakUsage:
        """The level that usage stays below for a share of the time, rounded down."""
        share = PERCENTILES[percentile]
        cores = self.cpu.percentile(share)
        return PeakUsage(int(cores * _MILLI), int(self.memory.percentile(share)))


@dataclass
class UsageModels:
    """All models by name: a pod's UID, or one of the node's own."""

    options: PredictionOptions = field(default_factory=PredictionOptions)
    by_name: dict[str, UsageModel] = field(default_factory=dict)

    def new(self) -> UsageModel:
        """An empty model."""
        options = self.options
        return UsageModel(
            Histogram(CPU, int(options.cpu_half_life_seconds * _MILLI)),
            Histogram(MEMORY, int(options.memory_half_life_seconds * _MILLI)),
        )

    def add(self, name: str, cpu_cores: float, memory_bytes: float, time_ms: int) -> None:
        """One sample of a workload, known before or not."""
        model = self.by_name.get(name)
        if model is None:
            model = self.by_name[name] = self.new()
        model.add(cpu_cores, memory_bytes, time_ms)

    def peak(self, name: str, percentile: str) -> PeakUsage | None:
        """The level that a workload's usage stays below for a share of the time, rounded down; None
        for a workload that is not known.
        """
        model = self.by_name.get(name)
        return None if model is None else model.peak(percentile)

    def expire(self, now_ms: int) -> list[str]:
        """Forgets models without samples for too long; gives their names, in order."""
        oldest_ms = now_ms - int(self.options.expiration_seconds * _MILLI)
        gone = sorted(name for name, model in self.by_name.items() if model.updated_ms < oldest_ms)
        for name in gone:
            del self.by_name[name]
        return gone
